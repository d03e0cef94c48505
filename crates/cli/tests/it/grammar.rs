//! The command line grammar, help texts and messages about mistakes.

mod mistakes;

use crate::context::{Context, snapshot};

#[test]
fn help_in_short() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["-h"])), @r"
    exit: 0
    --- stdout
    MCP connections that hold: connect to Model Context Protocol servers, look, and call.

    Usage: bowline [OPTIONS] <COMMAND>

    Find and call:
      tools        List tools with their parameters: of all servers, or of one
      search       Find tools, prompts and resources of all servers by words
      call         Call a tool
      repl         Call tools at a prompt that stays connected
      read         Read a resource
      prompt       Expand a prompt
      resources    List the resources of a server, or watch them
      templates    List the resource templates of a server
      prompts      List the prompts of a server
      tasks        List, wait for or cancel the tasks that calls became
      complete     Ask a server to complete an argument
      info         Show a server's name, protocol revision and capabilities
      ping         Measure how fast a server answers

    Set up servers:
      add          Add a server to your configuration: a URL, a command or a package
      import       Import the servers of MCP hosts on this machine
      list         List the configured servers, without connecting to them
      remove       Remove servers from your configuration
      enable       Enable servers of your configuration
      disable      Disable servers of your configuration
      edit         Open your configuration in an editor, and check it afterwards
      config       Check the configuration, print its files or its schema
      trust        Show what a project's configuration would do, and trust it
      untrust      Stop trusting a project's configuration

    Use them in MCP hosts:
      install      Write an entry for bowline into the configuration of a host
      uninstall    Restore the configuration of a host as it was before `install`
      serve        Serve all servers to MCP hosts as one, reconnecting as needed
      connect      Relay a server to an MCP host, reconnecting as needed

    Log in:
      login        Log in to a server, and stay logged in
      logout       Log out: revoke a login and delete it
      auth         List your logins; export and import them

    Watch:
      status       Show the connection status of all servers
      watch        Print events of servers as they happen, and run their hooks
      logs         Print the log messages and the stderr of a server as they come
      doctor       Find out what is wrong, whose fault it is and how to fix it
      ps           List the processes of started servers, with their memory

    Others:
      completions  Print a completion script for a shell
      man          Print the manual page, or write all of them into a folder
      demo         Watch calls survive a server that keeps failing
      help         Print this text, or the help of a verb

    Options:
          --config <PATH>    Read this configuration file instead of the user's and the project's
          --trust-project    Trust the project's `bowline.toml` and `.mcp.json` for this command alone
          --json             Print JSON for machines, the server's own where there is one
          --output <FORMAT>  How to print [possible values: text, json]
          --color <WHEN>     When to use color [default: auto] [possible values: auto, always, never]
      -v, --verbose...       Log more to stderr; up to three times
      -q, --quiet            No notes and no progress on stderr; errors are still shown
      -h, --help             Print help (see more with '--help')
      -V, --version          Print version

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
      BOWLINE_NO_DAEMON      start servers for each command, as --no-daemon, whatever the value is
      BOWLINE_PASSPHRASE     the passphrase of `bowline auth export` and `import`
      BOWLINE_REGISTRY       where `bowline add` looks names up, as --registry
      BROWSER                the program that opens web pages, for logins and at a server's request
      XDG_CACHE_HOME         the folder for caches (default ~/.cache); `bowline` in it, which has the
                             protocol and the lists of servers, may be deleted at any time
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
              - auto:   In the way that the terminal supports; not at all in a pipe
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
              - ask:     Ask you what to answer
              - decline: Decline the request
              - cancel:  Tell the server that nobody answered

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
              - allow: Allow it without asking
              - deny:  Refuse; sampling is not declared to the server

    Connection options:
          --timeout <TIME>
              Give up a call when nothing is heard for this long; progress counts [default: 60s]

          --max-timeout <TIME>
              Give up a call after this long, progress or not [default: 10m]

          --connect-timeout <TIME>
              Give up connecting after this long [default: 30s]

          --message-limit <MIB>
              Accept messages of the server of up to this many MiB [default: 64]

          --protocol <ERA>
              Which era of the protocol to speak

              Possible values:
              - auto:   Find out
              - legacy: Revisions up to 2025-11-25
              - modern: Revision 2026-07-28 and later

      -H, --header <NAME: VALUE>
              Send this header with every request, for a server with a URL

          --transport <WHICH>
              Which transport to use for a server with a URL

              Possible values:
              - auto: Streamable HTTP, or HTTP+SSE if the server refuses that
              - http: Streamable HTTP only
              - sse:  HTTP+SSE only

          --ca-file <PATH>
              Trust the certificate authorities in this PEM file as well, for a server with a URL

      -e, --env <KEY=VALUE>
              Set this in the environment of a server that is started

          --no-daemon
              Start the server for this command alone, also if `bowline serve` keeps it running

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
      key:=json      JSON, whatever the schema says; key:=@path the JSON in a file
      --args '{…}'   all at once; key=value is laid over it
      --json '{…}'   the same as --args; --json without an object prints the result as JSON
      -              the object from stdin; --file PATH that in a file

    A tool whose name begins with `-` comes after `--`, and options come before that:
      bowline call SERVER -- -x key=value

    At a terminal, what the tool requires and was not given is asked for in a form. Nothing is sent
    before you have seen all of it.

    Examples:
      bowline call files search query=knots limit=5
      bowline call files search
      bowline call media transcode file=a.mov --task     # then: bowline tasks media
      bowline call https://mcp.example.com/mcp add --json '{"a": 1, "b": 2}'
      echo '{"a": 1, "b": 2}' | bowline call math add - --output json
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
          --message-limit <MIB>     Accept messages of the server of up to this many MiB [default: 64]
          --protocol <ERA>          Which era of the protocol to speak [possible values: auto, legacy,
                                    modern]
      -H, --header <NAME: VALUE>    Send this header with every request, for a server with a URL
          --transport <WHICH>       Which transport to use for a server with a URL [possible values:
                                    auto, http, sse]
          --ca-file <PATH>          Trust the certificate authorities in this PEM file as well, for a
                                    server with a URL
      -e, --env <KEY=VALUE>         Set this in the environment of a server that is started
          --no-daemon               Start the server for this command alone, also if `bowline serve`
                                    keeps it running

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

/// A host decides itself how long it waits.
#[test]
fn help_of_connect_has_its_own_time_limit() {
    let context = Context::new();
    for (verb, default) in [("connect", "the host decides, within --max-timeout"), ("call", "60s")] {
        let help = context.run(context.bowline([verb, "--help"]));
        let words: Vec<&str> = help.split_whitespace().collect();
        let expected = format!(
            "--timeout <TIME> Give up a call when nothing is heard for this long; progress counts [default: {default}] \
             --max-timeout <TIME> Give up a call after this long, progress or not [default: 10m]"
        );
        assert!(words.join(" ").contains(&expected), "{help}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one snapshot")]
fn help_of_login() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["login", "--help"])), @"
    exit: 0
    --- stdout
    Log in to a server, and stay logged in

    Usage: bowline login [OPTIONS] <SERVER> [PORT]

    Arguments:
      <SERVER>
              A configured name, or a URL

      [PORT]
              The port of the redirect URI of a registered client (with --static-oauth-client-info)

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

    Connection options:
          --transport <WHICH>
              Which transport to use for a server with a URL

              Possible values:
              - auto: Streamable HTTP, or HTTP+SSE if the server refuses that
              - http: Streamable HTTP only
              - sse:  HTTP+SSE only

          --ca-file <PATH>
              Trust the certificate authorities in this PEM file as well, for a server with a URL

    OAuth options:
          --static-oauth-client-info <JSON|@FILE>
              Use this registered OAuth client: JSON with `client_id` and `client_secret`, or @FILE

              `${NAME}` in it stands for that environment variable, so that the secret is not in the
              list of processes.

          --static-oauth-client-metadata <JSON|@FILE>
              Take `scope` and `token_endpoint_auth_method` from this client metadata: JSON, or @FILE

          --client-metadata-url <URL>
              Use this URL of a Client ID Metadata Document

          --client-credentials
              Log in as the client itself, without a person (needs --static-oauth-client-info)

          --resource <URL>
              Request tokens for this resource (RFC 8707)

          --disable-resource-parameter
              Request tokens without naming a resource

          --authorize-param <KEY=VALUE>
              Add this parameter to the URL of the login page; can be repeated

          --host <HOST>
              The host of the redirect URI of a registered client [default: localhost]

          --callback-path <PATH>
              The path of the redirect URI of a registered client [default: /oauth/callback]

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
    copy its address and paste it here. If the server offers codes for other devices, one is used
    instead.

    Without a terminal nobody can be asked: the address is printed and the command ends with exit code
    5. Log in there, and run the command again with --finish, within 15 minutes.

    Other verbs log you in as well, if the server requires it and there is a terminal.

    Examples:
      bowline login docs
      bowline login https://mcp.example.com/mcp
      bowline login docs --device
      bowline login docs --scope files:write
      bowline login https://mcp.example.com/mcp 9696 --static-oauth-client-info @client.json
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

    Usage: bowline login <SERVER> [PORT]

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
