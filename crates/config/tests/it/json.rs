//! Tests of the JSON dialect of hosts.

use std::time::Duration;

use bowline_config::{ProblemKind, Server, Source, Transport, outline, parse_partial};

use crate::{note_lines, parse_errors, parse_valid};

#[test]
fn a_file_of_a_host_is_read_as_it_is() {
    let config = parse_valid(
        ".mcp.json",
        r#"{
            // Comments and trailing commas are what editors write.
            "numStartups": 7,
            "mcpServers": {
                "files": {
                    "type": "stdio",
                    "command": "npx",
                    "args": ["-y", "server-files", 8080],
                    "env": {"TOKEN": "${TOKEN}", "PORT": 8080, "DEBUG": true, "GONE": null},
                    "cwd": null,
                    "timeout": 30000,
                    "alwaysLoad": true,
                },
                "search": {
                    "type": "streamable-http",
                    "url": "https://h/mcp",
                    "headers": {"Authorization": "Bearer ${env:TOKEN}", "Accept": "application/json"},
                    "args": [],
                    "env": {},
                    "gallery": {"clientId": "x"},
                    "header": {},
                },
                "gemini": {"httpUrl": "http://h/", "disabled": false, "trust": true},
                "windsurf": {"serverUrl": "http://h/", "disabled": true, "timeout": 60},
            },
        }"#,
    );
    let expected = [
        Server::stdio("files", "npx")
            .args(["-y", "server-files", "8080"])
            .env("TOKEN", "s3cret")
            .env("PORT", "8080")
            .env("DEBUG", "true")
            .idle_timeout(Duration::from_secs(30))
            .build()
            .unwrap(),
        Server::http("gemini", "http://h/").without_fallback().build().unwrap(),
        Server::http("search", "https://h/mcp")
            .header("Authorization", "Bearer s3cret")
            .without_fallback()
            .build()
            .unwrap(),
        Server::http("windsurf", "http://h/")
            .build()
            .unwrap()
            .with_idle_timeout(Duration::from_millis(60))
            .disabled(),
    ];
    assert_eq!(config.servers.into_values().collect::<Vec<_>>(), expected);
    let notes = "\
.mcp.json:9:87: mcpServers.files.env.GONE: null is left out
.mcp.json:12:35: mcpServers.files.alwaysLoad: not used
.mcp.json:17:83: mcpServers.search.headers.Accept: not used: the transport sets this header itself
.mcp.json:20:32: mcpServers.search.gallery: not used
.mcp.json:21:31: mcpServers.search.header: not used
  hint: did you mean `headers`?
.mcp.json:23:80: mcpServers.gemini.trust: not used
.mcp.json:24:85: mcpServers.windsurf.timeout: read as 60 milliseconds
  hint: write \"60s\" if it was meant in seconds";
    assert_eq!(note_lines(&config.notes), notes);
}

#[test]
fn the_form_of_vs_code_is_read_too() {
    let config =
        parse_valid("mcp.json", r#"{"inputs": [], "servers": {"a": {"type": "http", "url": "http://h/"}}}"#);
    assert!(matches!(config.servers["a"].transport, Transport::Http(_)));
    assert!(config.notes.is_empty());
}

/// Hosts accept any name. Ours are a part of the names of tools and of commands.
#[test]
fn a_server_with_another_name_here_is_noted() {
    let config = parse_valid(
        ".mcp.json",
        r#"{
  "mcpServers": {
    "My Files": {"command": "a"},
    "My/Files": {"command": "b"},
    "My-Files": {"command": "c"},
    "é": {"command": "d"}
  },
  "servers": {"My Files ": {"command": "e"}}
}"#,
    );
    let commands = config.servers.iter().map(|(name, server)| match &server.transport {
        Transport::Stdio(program) => (name.as_str(), server.name.as_str(), program.command.as_str()),
        other => panic!("{other:?}"),
    });
    let expected = [
        ("My-Files", "My-Files", "c"),
        ("My-Files-2", "My-Files-2", "a"),
        ("My-Files-3", "My-Files-3", "b"),
        ("My-Files-4", "My-Files-4", "e"),
        ("server", "server", "d"),
    ];
    assert_eq!(commands.collect::<Vec<_>>(), expected);
    let rule = "\n  hint: a server name is 1 to 64 characters of A-Z, a-z, 0-9, `_`, `.` and `-`";
    let notes = [
        r#".mcp.json:3:5: mcpServers."My Files": used as `My-Files-2`"#,
        r#".mcp.json:4:5: mcpServers."My/Files": used as `My-Files-3`"#,
        r#".mcp.json:6:5: mcpServers."é": used as `server`"#,
        r#".mcp.json:8:15: servers."My Files ": used as `My-Files-4`"#,
    ];
    assert_eq!(note_lines(&config.notes), notes.map(|note| format!("{note}{rule}")).join("\n"));
    assert!(config.notes.iter().all(|note| note.kind == ProblemKind::Renamed));
    let servers: Vec<_> = config.notes.iter().map(|note| note.server.as_deref().unwrap()).collect();
    assert_eq!(servers, ["My-Files-2", "My-Files-3", "server", "My-Files-4"]);
}

/// A broken entry hides the user's server of the name that it is used under, and no other.
#[test]
fn a_problem_belongs_to_the_name_that_is_used() {
    for text in [
        r#"{"mcpServers": {"a b": {}}}"#,
        r#"{"mcpServers": {"a b": null}}"#,
        r#"{"mcpServers": {"a b": {"command": "x"}, "a b": {"command": "y"}}}"#,
        r#"{"mcpServers": {"a b": {"command": "x"}}, "servers": {"a b": {"command": "x"}}}"#,
    ] {
        let source = Source::new("c.json", text);
        let (config, errors) = parse_partial(&source, &crate::environment());
        let servers: Vec<_> = errors.into_iter().flatten().map(|problem| problem.server.unwrap()).collect();
        assert_eq!(servers, ["a-b"], "{text}");
        assert_eq!((config.servers.len(), config.left_out), (0, ["a-b".to_owned()].into()), "{text}");
        let shown: Vec<_> = outline(&source).servers.into_iter().map(|server| server.name).collect();
        assert!(!shown.is_empty() && shown.iter().all(|name| name == "a-b"), "{text}: {shown:?}");
    }
}

#[test]
fn every_problem_is_reported() {
    let text = r#"{
  "mcpServers": {
    "sse": {"type": "sse", "command": "x"},
    "ws": {"type": "ws", "url": "http://h/"},
    "odd": {"type": "s3cret", "url": "http://h/"},
    "liar": {"type": "stdio", "url": "http://h/"},
    "liar2": {"type": "http", "command": "x"},
    "argv": {"command": ["npx", "x"]},
    "input": {"command": "x", "env": {"KEY": "${input:key}", "W": "${workspaceFolder}"}},
    "two": {"url": "http://h/", "httpUrl": "http://h/"},
    "moody": {"command": "x", "enabled": true, "disabled": true},
    "empty": {},
    "null": null,
    "again": {"command": "x", "command": "y", "env": {"A": "1", "A": "2"}},
    "again": {"command": "x"},
    "list": {"command": "x", "args": [null, {}]},
    "late": {"command": "x", "timeout": -5, "keepalive_interval": -1, "reconnect_wait": "20 parsecs"},
    "double": {"url": "http://h/", "type": "http", "transport": "sse", "transportType": "sse",
               "keepAliveInterval": 9, "keepalive_interval": 9},
  },
  "servers": {"empty": {"command": "x"}}
}"#;
    let expected = r#"mcp.json:3:21: mcpServers.sse.type: says that the server is reached by URL, but the entry has a `command` and no `url`
mcp.json:4:20: mcpServers.ws.type: WebSocket is not a transport of the protocol
mcp.json:5:21: mcpServers.odd.type: must be "stdio", "http" or "sse"
mcp.json:6:22: mcpServers.liar.type: says that the server is started, but the entry has a URL and no `command`
mcp.json:7:23: mcpServers.liar2.type: says that the server is reached by URL, but the entry has a `command` and no `url`
mcp.json:8:25: mcpServers.argv.command: must be a string, not a list
  hint: the program goes into `command` and the rest into `args`
mcp.json:9:46: mcpServers.input.env.KEY: `${input:…}` asks a person for the value, which only an editor can do
  hint: put the value into an environment variable and write `${VAR}`
mcp.json:9:67: mcpServers.input.env.W: environment variable `workspaceFolder` is not set
  hint: only an editor knows `workspaceFolder`; write the value out
mcp.json:10:44: mcpServers.two.httpUrl: a second URL
  hint: keep one of `url`, `serverUrl` and `httpUrl`
mcp.json:11:60: mcpServers.moody.disabled: contradicts `enabled`
mcp.json:12:5: mcpServers.empty: needs `command` or `url`
mcp.json:13:5: mcpServers.null: must be an object with `command` or `url`, not null
mcp.json:14:31: mcpServers.again.command: given twice
mcp.json:14:65: mcpServers.again.env.A: given twice
mcp.json:15:5: mcpServers.again: given twice
mcp.json:16:39: mcpServers.list.args[0]: must be a string, not null
mcp.json:16:45: mcpServers.list.args[1]: must be a string, not an object
mcp.json:17:41: mcpServers.late.timeout: must be more than 0 and at most 24 hours
mcp.json:17:67: mcpServers.late.keepalive_interval: must be at least 0 and at most 24 hours
mcp.json:17:89: mcpServers.late.reconnect_wait: not a length of time
  hint: for example "20s", "500ms" or "2m"
mcp.json:18:44: mcpServers.double.type: contradicts `transport`
  hint: they are one setting; keep one of them
mcp.json:18:89: mcpServers.double.transportType: gives `transport` a second time
mcp.json:19:62: mcpServers.double.keepalive_interval: gives `keepalive_interval` a second time
mcp.json:21:15: servers.empty: given in both `mcpServers` and `servers`"#;
    assert_eq!(parse_errors("mcp.json", text), expected);
}

#[test]
fn a_file_that_is_not_of_this_form_is_told_so() {
    let example = r#"for example {"mcpServers": {"NAME": {"command": "…"}}}"#;
    for (text, expected) in [
        ("{}", format!("c.json:1:1: has no `mcpServers`\n  hint: {example}")),
        (
            r#"{"mcpservers": {}}"#,
            "c.json:1:1: has no `mcpServers`\n  hint: `mcpservers` looks like it; write `mcpServers`"
                .to_owned(),
        ),
        (
            r#"{"docs": {"url": "https://h/"}}"#,
            "c.json:1:1: has no `mcpServers`\n  hint: `docs` looks like a server; write {\"mcpServers\": {\"docs\": {…}}}"
                .to_owned(),
        ),
        (r#"{"a b": {"url": "https://h/"}}"#, format!("c.json:1:1: has no `mcpServers`\n  hint: {example}")),
        ("[]", format!("c.json:1:1: must be an object, not a list\n  hint: {example}")),
        (
            r#"{"mcpServers": 1}"#,
            "c.json:1:2: mcpServers: must be an object of servers, not a number".to_owned(),
        ),
        ("", "c.json:1:1: not valid JSON: the file is empty".to_owned()),
        ("// nothing", "c.json:1:1: not valid JSON: the file is empty".to_owned()),
        (r#"{"mcpServers": [}"#, "c.json:1:17: not valid JSON: unexpected close brace".to_owned()),
        (
            r#"{"mcpServers": {"a": {'command': 's3cret'}}}"#,
            "c.json:1:23: not valid JSON: single-quoted strings are not allowed".to_owned(),
        ),
        ("{} {}", "c.json:1:4: not valid JSON: text cannot contain more than one JSON value".to_owned()),
    ] {
        assert_eq!(parse_errors("c.json", text), expected, "{text}");
    }
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    let deep = format!("{{\"mcpServers\": {}", "[".repeat(100_000));
    assert!(parse_errors("c.json", &deep).contains("not valid JSON"));
    let deep = format!("a = {}", "[".repeat(100_000));
    assert!(parse_errors("c.toml", &deep).contains("not valid TOML"));
}
