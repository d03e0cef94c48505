//! The command line grammar, help texts and messages about mistakes.

use crate::context::{Context, snapshot};

#[test]
fn help_in_short() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["-h"])), @r"
    exit: 0
    --- stdout
    MCP connections that hold: connect to Model Context Protocol servers, look, and call.

    Usage: bowline [OPTIONS] <COMMAND>

    Commands:
      tools        List tools with their parameters: of all servers, of one, or one tool in full
      search       Find tools, prompts and resources of all servers by words
      resources    List the resources of a server, or watch them
      templates    List the resource templates of a server
      prompts      List the prompts of a server
      call         Call a tool
      tasks        Look at the tasks that calls became: list, wait, cancel
      read         Read a resource
      prompt       Expand a prompt
      complete     Ask a server to complete an argument
      logs         Print what a server logs, as it comes
      ping         Measure how fast a server answers
      info         Show a server's name, protocol revision and capabilities
      connect      Relay a server to an MCP host, reconnecting as needed
      serve        Serve all servers to MCP hosts as one, reconnecting as needed
      login        Log in to a server, and stay logged in
      logout       Log out: revoke a login and delete it
      auth         List your logins; export and import them
      status       Show the connection status of all servers
      watch        Print what happens to servers as it happens, and run their hooks
      ps           List the processes of servers that were started, with their memory
      doctor       Find out what is wrong, whose fault it is and how to mend it
      trust        Show what a project's `bowline.toml` or `.mcp.json` would do, and trust it if you
                   agree
      untrust      Stop trusting a project's `bowline.toml` and `.mcp.json`
      add          Add a server to your configuration: a URL, a command or a package
      import       Import the servers of other MCP hosts on this machine into your configuration
      remove       Remove servers from your configuration
      enable       Enable servers of your configuration
      disable      Disable servers of your configuration
      list         List the configured servers, without connecting to them
      edit         Open your configuration in an editor, and check it afterwards
      install      Write an entry for bowline into the configuration of a host
      uninstall    Restore the configuration of a host as it was before `install`
      config       Look at the configuration
      completions  Print a completion script for a shell
      man          Print the manual page, or write all of them into a folder
      demo         See it work: a small server in this process, and a client that uses it
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version

    Global options:
          --config <PATH>    Read this configuration file instead of the user's and the project's
          --trust-project    Trust the project's `bowline.toml` and `.mcp.json` for this command alone
          --json             Print JSON for machines, the server's own where there is one
          --output <FORMAT>  How to print [possible values: text, json]
          --color <WHEN>     When to use color [default: auto] [possible values: auto, always, never]
      -v, --verbose...       Log more to stderr; up to three times
      -q, --quiet            No notes and no progress on stderr; errors are still shown

    Exit codes:
        0  ok
        1  the tool ran and reported an error
        2  wrong usage or configuration; nothing was sent
        3  the server could not be reached, started or understood
        4  a time limit ran out
        5  the server requires a login, or a login was lost because it could not be stored
        6  the server answered with an error, or does not offer this
        7  the output could not be written; the call was made
        8  the tool's result does not fit its own output schema; it is printed all the same
      129  the terminal went away; the call was canceled on the server
      130  interrupted; the call was canceled on the server
      131  interrupted by Ctrl-\; the call was canceled on the server
      143  ended from outside; the call was canceled on the server

    Environment:
      BOWLINE_CONFIG         configuration file, as --config
      BOWLINE_LOG            what to log, such as `debug` or `bowline=trace`
      BOWLINE_PASSPHRASE     what `bowline auth export` and `import` encrypt with
      BOWLINE_REGISTRY       where `bowline add` looks names up, as --registry
      BROWSER                what opens a page: one that a server asks you to visit, or a login
      XDG_CACHE_HOME         where it is kept for a day what servers speak, in `bowline/negotiations`
                             (default ~/.cache); that folder may be deleted at any time
      TRACEPARENT            the trace that calls belong to, with TRACESTATE
      NO_COLOR               no color
    --- stderr
    ---
    ");
}

#[test]
#[expect(clippy::too_many_lines, reason = "so is the help")]
fn help_of_call() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["call", "--help"])), @r#"
    exit: 0
    --- stdout
    Call a tool

    Usage: bowline call [OPTIONS] SERVER TOOL [KEY=VALUE]...
           bowline call [OPTIONS] TOOL [KEY=VALUE]... -- COMMAND [ARG]...

    Arguments:
      [SERVER TOOL KEY=VALUE]...
              SERVER, unless a command is given; TOOL; then key=value or key:=json

      [COMMAND]...
              A command that starts the server, in place of SERVER

    Options:
          --args <JSON>
              The arguments as a JSON object; `--json '{…}'` means the same

          --file <PATH>
              The arguments as a JSON object in a file, or `-` for stdin

          --unchecked
              Send the arguments without checking them against the tool's schema; key=value is then
              always text

          --task
              Run the call in the background, if the server can: prints the task's id, for `bowline
              tasks`

              A call that the server answers at once is answered at once. Without this flag a call that
              becomes a task is waited for like any other.

          --log-level <LEVEL>
              Print the server's log lines about this call, from this level up, to stderr

          --save <DIR>
              Save images, sounds and binary resources into this folder

              Without it, what the terminal does not draw is saved into a new folder among the system's
              temporary files. Where each went is printed; with --json, as an object on stderr.

          --images <HOW>
              How to draw images in the terminal

              Possible values:
              - auto:   As the terminal can; not at all in a pipe
              - kitty:  Kitty, Ghostty
              - iterm2: iTerm2, WezTerm
              - sixel:  Terminals that know sixels
              - none:   Not at all: they are saved

              [default: auto]

      -h, --help
              Print help (see a summary with '-h')

    When the server asks:
          --elicit <WHAT>
              What to do when the server asks for your input; without a terminal you decline [default:
              ask]

              Possible values:
              - ask:     Ask you
              - decline: Say no
              - cancel:  Say that nobody answered

          --answer <FIELD=VALUE>
              Fill in this field of a form beforehand

              In a terminal you still see the form before it is sent. Without one, or with `--elicit
              decline` or `cancel`, a form is sent if these answers and its own defaults are all that it
              needs.

          --root <DIR>
              Offer the server this folder as a root; can be repeated [default: those of the
              configuration]

              A server may take it in place of the folders that it was started with.

          --no-roots
              Offer the server no folder, whatever the configuration says

          --sampling <WHAT>
              What to do when the server asks your model something; there must be one in the
              configuration

              Possible values:
              - ask:   Ask you, before the model sees it and before the server sees the answer
              - allow: Let it
              - deny:  Refuse; sampling is not declared to the server

    Connection options:
          --timeout <TIME>
              Give up a call when nothing is heard for this long; progress counts [default: 60s]

          --max-timeout <TIME>
              Give up a call after this long, progress or not [default: 10m]

          --connect-timeout <TIME>
              Give up connecting after this long [default: 30s]

          --protocol <ERA>
              Which era of the protocol to speak

              Possible values:
              - auto:   Find out
              - legacy: Revisions up to 2025-11-25
              - modern: Revision 2026-07-28 and later

      -H, --header <NAME: VALUE>
              Send this header with every request, for a server with a URL

      -e, --env <KEY=VALUE>
              Set this in the environment of a server that is started

    Global options:
          --config <PATH>
              Read this configuration file instead of the user's and the project's

          --trust-project
              Trust the project's `bowline.toml` and `.mcp.json` for this command alone

              They can start any program and send any of your environment variables anywhere. `bowline
              trust` shows what they would do, and remembers your answer until a file changes.

          --json
              Print JSON for machines, the server's own where there is one

          --output <FORMAT>
              How to print

              Possible values:
              - text: For people; plain and stable when piped
              - json: For machines

          --color <WHEN>
              When to use color

              Possible values:
              - auto:   On a terminal, unless NO_COLOR is set
              - always: Always
              - never:  Never

              [default: auto]

      -v, --verbose...
              Log more to stderr; up to three times

      -q, --quiet
              No notes and no progress on stderr; errors are still shown

    Arguments:
      key=value      what the tool's input schema makes of it: text stays text; numbers, booleans,
                     arrays and objects are read as JSON where the schema asks for them
      key=@path      the text of a file; key=@- that of stdin
      key:=json      JSON, whatever the schema says
      --args '{…}'   all at once; key=value is laid over it
      --json '{…}'   the same as --args; --json without an object prints the result as JSON
      --file -       the object from stdin, or from a file

    Examples:
      bowline call files search query=knots limit=5
      bowline call media transcode file=a.mov --task     # then: bowline tasks media
      bowline call https://mcp.example.com/mcp add --json '{"a": 1, "b": 2}'
      echo '{"a": 1, "b": 2}' | bowline call math add --file - --output json
      bowline call echo message=hello -- npx -y @modelcontextprotocol/server-everything
    --- stderr
    ---
    "#);
}

#[test]
fn help_of_a_list() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["prompts", "-h"])), @"
    exit: 0
    --- stdout
    List the prompts of a server

    Usage: bowline prompts [OPTIONS] SERVER
           bowline prompts [OPTIONS] -- COMMAND [ARG]...

    Arguments:
      [SERVER]...   A configured name, or a URL; left out with `-- COMMAND`
      [COMMAND]...  A command that starts the server, in place of SERVER

    Options:
      -h, --help  Print help (see more with '--help')

    Connection options:
          --timeout <TIME>          Give up a call when nothing is heard for this long; progress counts
                                    [default: 60s]
          --max-timeout <TIME>      Give up a call after this long, progress or not [default: 10m]
          --connect-timeout <TIME>  Give up connecting after this long [default: 30s]
          --protocol <ERA>          Which era of the protocol to speak [possible values: auto, legacy,
                                    modern]
      -H, --header <NAME: VALUE>    Send this header with every request, for a server with a URL
      -e, --env <KEY=VALUE>         Set this in the environment of a server that is started

    Global options:
          --config <PATH>    Read this configuration file instead of the user's and the project's
          --trust-project    Trust the project's `bowline.toml` and `.mcp.json` for this command alone
          --json             Print JSON for machines, the server's own where there is one
          --output <FORMAT>  How to print [possible values: text, json]
          --color <WHEN>     When to use color [default: auto] [possible values: auto, always, never]
      -v, --verbose...       Log more to stderr; up to three times
      -q, --quiet            No notes and no progress on stderr; errors are still shown
    --- stderr
    ---
    ");
}

#[test]
fn help_of_login() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["login", "--help"])), @"
    exit: 0
    --- stdout
    Log in to a server, and stay logged in

    Usage: bowline login [OPTIONS] <SERVER>

    Arguments:
      <SERVER>
              A configured name, or a URL

    Options:
          --device
              Log in with a code that you enter on another device

          --scope <SCOPE>
              Ask for this scope as well; can be repeated

          --no-browser
              Do not open a browser

          --finish <URL>
              Finish a login that was started without a terminal, with the URL you were redirected to;
              `-` reads it from stdin

      -H, --header <NAME: VALUE>
              Send this header with every request to the server

      -h, --help
              Print help (see a summary with '-h')

    Global options:
          --config <PATH>
              Read this configuration file instead of the user's and the project's

          --trust-project
              Trust the project's `bowline.toml` and `.mcp.json` for this command alone

              They can start any program and send any of your environment variables anywhere. `bowline
              trust` shows what they would do, and remembers your answer until a file changes.

          --json
              Print JSON for machines, the server's own where there is one

          --output <FORMAT>
              How to print

              Possible values:
              - text: For people; plain and stable when piped
              - json: For machines

          --color <WHEN>
              When to use color

              Possible values:
              - auto:   On a terminal, unless NO_COLOR is set
              - always: Always
              - never:  Never

              [default: auto]

      -v, --verbose...
              Log more to stderr; up to three times

      -q, --quiet
              No notes and no progress on stderr; errors are still shown

    The address of the login page is always printed; where there is a browser, it is opened as well.
    Over SSH, or without a display, open it on any machine. You end up on a page that cannot be shown:
    copy its address and paste it here. A server that gives out codes for other devices is asked for one
    instead.

    Without a terminal nobody can be asked: the address is printed and the command ends with exit code
    5. Whoever has logged in there then runs it again with --finish, within a quarter of an hour.

    Other verbs log you in as well, if the server wants it and you sit at a terminal.

    Examples:
      bowline login docs
      bowline login https://mcp.example.com/mcp
      bowline login docs --device
      bowline login docs --scope files:write
      bowline login docs --finish 'http://127.0.0.1:[PORT]/callback?code=…&state=…'
    --- stderr
    ---
    ");
    snapshot!(context.run(context.bowline(["login"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <SERVER>

    Usage: bowline login <SERVER>

    For more information, try '--help'.
    ---
    ");
    snapshot!(context.run(context.bowline(["logout"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <SERVER>...

    Usage: bowline logout <SERVER>...

    For more information, try '--help'.
    ---
    ");
}

#[test]
fn the_server_is_missing() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["prompts"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: SERVER is missing: a configured name or a URL, or end with `-- COMMAND`

    hint: write `bowline prompts SERVER`, or `bowline prompts -- COMMAND [ARG]...`
    ---
    ");
    snapshot!(context.run(context.bowline(["call", "files"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: TOOL is missing: `bowline tools` lists a server's tools

    hint: write `bowline call SERVER TOOL [KEY=VALUE]...`, or `bowline call TOOL [KEY=VALUE]... -- COMMAND [ARG]...`
    ---
    ");
    snapshot!(context.run(context.bowline(["call", "add", "a=1"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: TOOL is missing: `a=1` looks like an argument

    hint: write `bowline call SERVER TOOL [KEY=VALUE]...`, or `bowline call TOOL [KEY=VALUE]... -- COMMAND [ARG]...`
    ---
    ");
}

#[test]
fn one_server_too_many() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["prompts", "npx", "server"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: unexpected `server`: to start a server, write `-- npx server …`

    hint: write `bowline prompts SERVER`, or `bowline prompts -- COMMAND [ARG]...`
    ---
    ");
    snapshot!(context.run(context.bowline(["prompts", "files", "--", "server"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: unexpected `files`: SERVER is left out when a command is given after `--`

    hint: write `bowline prompts SERVER`, or `bowline prompts -- COMMAND [ARG]...`
    ---
    ");
    snapshot!(context.run(context.bowline(["call", "http://h/mcp", "add", "--", "server"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: both a URL and a command are given: which is the server?

    hint: write `bowline call SERVER TOOL [KEY=VALUE]...`, or `bowline call TOOL [KEY=VALUE]... -- COMMAND [ARG]...`
    ---
    ");
    snapshot!(context.run(context.bowline(["call", "files", "add", "a=1", "--", "server"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `add` is not key=value: SERVER is left out when a command is given after `--`

    hint: write `bowline call SERVER TOOL [KEY=VALUE]...`, or `bowline call TOOL [KEY=VALUE]... -- COMMAND [ARG]...`
    ---
    ");
}

#[test]
fn a_url_that_cannot_be_used_is_not_repeated() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["tools", "https://me:tk-secret-password@h/"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: the URL cannot be used: the URL contains credentials

    hint: send them as a header, such as `Authorization`, with the value in an environment variable
    ---
    ");
    snapshot!(context.run(context.bowline(["tools", "ftp://h/"])), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: the URL cannot be used: the URL must begin with http:// or https://

    hint: for example "https://mcp.example.com/mcp"
    ---
    "#);
    snapshot!(context.run(context.bowline(["tools", "localhost:3000/mcp"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: no server named `localhost:3000/mcp` is configured

    hint: for a URL, write http://localhost:3000/mcp or https://localhost:3000/mcp
    ---
    ");
}

#[test]
fn arguments_that_are_none() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["call", "http://h/", "t", "a:=x"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `a` is not JSON: expected value at line 1 column 1

    hint: for text, write a=…
    ---
    ");
    snapshot!(context.run(context.bowline(["call", "http://h/", "t", "--args", "[1]"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: arguments must be a JSON object
    ---
    ");
    snapshot!(context.run(context.bowline(["tools", "--timeout", "soon", "http://h/"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: invalid value 'soon' for '--timeout <TIME>': not a length of time; for example 20s, 500ms or 2m

    For more information, try '--help'.
    ---
    ");
}

#[test]
fn mistakes_as_json() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["prompts", "--json"])), @r#"
    exit: 2
    --- stdout
    --- stderr
    {"error":{"exit_code":2,"hint":"write `bowline prompts SERVER`, or `bowline prompts -- COMMAND [ARG]...`","kind":"usage","message":"SERVER is missing: a configured name or a URL, or end with `-- COMMAND`"}}
    ---
    "#);
    snapshot!(context.run(context.bowline(["tolls", "--json"])), @r#"
    exit: 2
    --- stdout
    --- stderr
    {"error":{"exit_code":2,"hint":null,"kind":"usage","message":"unrecognized subcommand 'tolls'"}}
    ---
    "#);
}
