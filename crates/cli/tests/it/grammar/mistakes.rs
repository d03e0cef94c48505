//! Command lines that cannot be used.

use crate::context::{Context, snapshot};

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
    context.user_config("[servers.files]\ncommand = 'files'\n[servers.broken]\nurll = 'x'\n");
    snapshot!(context.run(context.bowline(["prompts", "files", "greet"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: unexpected `greet`: it is one word too many after the configured server `files`

    hint: write `bowline prompts SERVER`, or `bowline prompts -- COMMAND [ARG]...`
    ---
    ");
    for verb in ["connect", "doctor", "repl", "info"] {
        let shown = context.run(context.bowline([verb, "broken", "x"]));
        let expected = "unexpected `x`: it is one word too many after the configured server `broken`\n";
        assert!(shown.starts_with("exit: 2\n") && shown.contains(expected), "{shown}");
        let shown = context.run(context.bowline([verb, "https://h/mcp", "x"]));
        let expected = "unexpected `x`: it is one word too many after the URL\n";
        assert!(shown.starts_with("exit: 2\n") && shown.contains(expected), "{shown}");
    }
    let shown = context.run(context.bowline(["tools", "files", "greet", "x"]));
    assert!(
        shown.contains("error: unexpected value 'x' for '[SERVER TOOL]...' found; no more were expected\n"),
        "{shown}"
    );
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
    snapshot!(context.run(context.bowline(["call", "http://h/", "t", "--args", "[1]"])), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: the arguments must be a JSON object, but are an array

    hint: write each as key=value, or all as an object: --args '{"key": "value"}'
    ---
    "#);
    snapshot!(context.run(context.bowline(["call", "http://h/", "t", "--args", "a=1"])), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: the arguments are not JSON: expected value at line 1 column 1

    hint: write each as key=value, or all as an object: --args '{"key": "value"}'
    ---
    "#);
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
    {"error":{"exit_code":2,"hint":"a similar subcommand exists: 'tools'","kind":"usage","message":"unrecognized subcommand 'tolls'"}}
    ---
    "#);
}

/// The value may be private, so it is not repeated.
#[test]
fn answers_that_are_none() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["call", "http://h/", "t", "--answer", "secret"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: an --answer has no field and `=` before its value

    hint: write --answer FIELD=VALUE
    ---
    ");
    snapshot!(context.run(context.bowline(["call", "http://h/", "t", "--answer", "a=1", "--answer", "a=2"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `a` is answered twice

    hint: write --answer a=… once
    ---
    ");
}

/// What is typed for a command with a flag may also be meant for a tool with such a name.
#[test]
fn a_name_that_begins_with_a_hyphen_gets_a_separator() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["tools", "odd", "-x"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: unexpected argument '-x' found

      tip: a command that starts a server comes after `--`: bowline tools -- odd -x
      tip: so does a name that begins with `-`: bowline tools odd -- -x

    Usage: bowline tools [OPTIONS] [SERVER [TOOL]]
           bowline tools [OPTIONS] [TOOL] -- COMMAND [ARG]...

    For more information, try '--help'.
    ---
    ");
    snapshot!(context.run(context.bowline(["call", "odd", "--", "-x", "a=1", "--quiet"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `--quiet` is no option after `--`

    hint: write options before `--`: `--quiet -- -x …`
    ---
    ");
}

/// What is wrong with a value is said without it, as it may be a secret.
#[test]
fn options_that_cannot_be_used_get_a_next_step() {
    let context = Context::new();
    let expected = |message: &str, hint: &str| {
        format!("exit: 2\n--- stdout\n--- stderr\nerror: {message}\n\nhint: {hint}\n---")
    };
    let header = "write -H 'Name: value'";
    for (value, message) in [
        ("secret", "-H has no `:` between a name and a value"),
        ("na me: secret", "-H: a header name is made of letters, digits and !#$%&'*+-.^_`|~"),
    ] {
        let shown = context.run(context.bowline(["tools", "http://h/", "-H", value]));
        assert_eq!(shown, expected(message, header));
    }
    let shown = context.run(context.bowline(["add", "docs", "http://h/", "-H", "secret"]));
    assert_eq!(shown, expected("-H has no `:` between a name and a value", header));
    let shown = context.run(context.bowline(["tools", "-e", "secret", "--", "srv"]));
    assert_eq!(shown, expected("-e has no `=` between a name and a value", "write -e KEY=VALUE"));
    context.write("project/below/note", "");
    let shown = context.run(context.bowline(["call", "http://h/", "t", "--save", "note"]));
    let hint = "name a folder that you may write to with --save; it is made if there is none";
    assert_eq!(shown, expected("cannot save to note: it is a file, not a folder", hint));
}
