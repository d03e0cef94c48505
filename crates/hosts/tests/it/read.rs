//! What is read from the file of each host.

use std::fmt::Write as _;
use std::path::Path;

use bowline_hosts::{
    ClaudeSettings, FileFormat, FileOrigin, Host, HostServerContent, ServerEntry, read_servers,
    read_servers_with,
};
use bowline_settings::ConfigEditor;
use proptest::prelude::*;

/// The text of the host's file, as it is in a home folder.
pub(crate) fn fixture(host: Host) -> String {
    let ending = match host.file_format() {
        FileFormat::Json => "json",
        FileFormat::Toml => "toml",
        FileFormat::Yaml => "yaml",
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/read_fixtures");
    std::fs::read_to_string(folder.join(format!("{}.{ending}", host.id()))).expect("a fixture")
}

pub(crate) fn render(name: &str, entry: &ServerEntry) -> String {
    let mut editor = ConfigEditor::empty(Path::new("/home/me/.config/bowline/config.toml"));
    editor.set_server(name, &entry.keys());
    editor.text()
}

fn read(host: Host, project: Option<&str>, text: &str) -> String {
    let origin = FileOrigin { path: Path::new("/etc/host/file"), project: project.map(Path::new) };
    let mut out = String::new();
    for server in read_servers(host, origin, text).expect("a readable file") {
        let project = server.project.map(|project| format!(" for {}", project.display())).unwrap_or_default();
        match &server.content {
            HostServerContent::Server { entry, attention } => {
                out.push_str(&render(&server.name, entry));
                writeln!(out, "# {}{project}", entry.describe()).unwrap();
                for sentence in attention {
                    writeln!(out, "# attention: {sentence}").unwrap();
                }
            }
            HostServerContent::LeftOut(reason) => {
                writeln!(out, "# {}{project} is left out: {reason}", server.name).unwrap();
            }
        }
        for note in &server.notes {
            writeln!(out, "# note: {note}").unwrap();
        }
        out.push('\n');
    }
    out
}

/// Every option of `mcp-remote` 0.15 is taken over, has nothing to change, or is named.
#[test]
fn the_options_of_a_relay_are_read() {
    let text = r#"{ "mcpServers": { "docs": { "command": "npx", "args": [
        "-y", "mcp-remote", "https://h/mcp", "9696", "--static-oauth-client-info", "{\"client_id\": \"app\"}",
        "--static-oauth-client-metadata", "{\"scope\": \"a b\"}", "--host", "127.0.0.1", "--callback-path", "/cb",
        "--client-metadata-url", "https://client.example/doc.json", "--client-credentials",
        "--authorize-param", "prompt=consent", "--authorize-param", "audience=x", "--disable-resource-parameter",
        "--ca-file", "/etc/ca.pem", "--header-file", "/etc/headers", "--ignore-tool", "delete*", "--ignore-tool", "drop",
        "--auth-timeout", "60", "--auth-success-url", "https://client.example/", "--headers-timeout", "1",
        "--body-timeout", "0", "--keep-alive", "--ping-interval", "60", "--token-endpoint", "https://a/token",
        "--silent", "--debug", "--enable-proxy", "--device-code", "--ipv4", "--use-id-token" ] } } }"#;
    assert_eq!(
        read(Host::Cursor, None, text),
        "\
[servers.docs]
url = \"https://h/mcp\"
auth = { client_id = \"app\", redirect_uri = \"http://127.0.0.1:9696/cb\", scope = [\"a\", \"b\"], \
client_metadata_url = \"https://client.example/doc.json\", grant = \"client-credentials\", \
authorize_params = { prompt = \"consent\", audience = \"x\" }, resource = false }
ca_file = \"/etc/ca.pem\"
disabled_tools = [\"delete*\", \"drop\"]
# https://h/mcp
# attention: its headers are in another file: set `headers`
# note: `--token-endpoint` is not used
# note: `--ipv4` is not used
# note: `--use-id-token` is not used
# note: it was relayed by a command, and is now reached directly

"
    );
}

/// A command line in one string is searched for secrets as arguments are.
#[test]
fn secrets_of_a_command_line_in_one_string_are_taken() {
    let text = r#"{"mcpServers": {"a": {"command": "python3 x --token hush-1 --key 'hush-2'"}}}"#;
    let origin = FileOrigin { path: Path::new("/etc/host/file"), project: None };
    let mut servers = read_servers(Host::Cursor, origin, text).unwrap();
    let HostServerContent::Server { entry, .. } = &mut servers[0].content else { panic!("a server") };
    let shown = entry.describe();
    assert!(shown.contains("--token [redacted]") && !shown.contains("hush"), "{shown}");
    let taken = entry.take_secrets(&mut |secret| format!("secrets/{}", secret.label));
    let taken: Vec<_> = taken.iter().map(|secret| (&*secret.label, &*secret.value)).collect();
    assert_eq!(taken, [("command", "hush-2"), ("command-2", "hush-1")]);
    let written = render("a", entry);
    assert!(written.contains("--token {file:secrets/command-2} --key '{file:secrets/command}'"), "{written}");
}

/// mcporter splits a command without arguments into words; other hosts start it as one.
#[test]
fn a_command_line_is_split_only_for_mcporter() {
    let of = |host, entry: &str| read(host, None, &r#"{"mcpServers": {"a": ENTRY}}"#.replace("ENTRY", entry));
    let relay = r#"{"command": "npx -y mcp-remote https://m3.example/mcp"}"#;
    let reached = "[servers.a]\nurl = \"https://m3.example/mcp\"\n# https://m3.example/mcp\n\
                   # note: it was relayed by a command, and is now reached directly\n\n";
    assert_eq!(of(Host::Mcporter, relay), reached);
    let named = r#"{"executable": "mcp-server-time"}"#;
    assert_eq!(
        of(Host::Mcporter, named),
        "[servers.a]\ncommand = \"mcp-server-time\"\n# mcp-server-time\n\n"
    );
    let both = r#"{"command": "b", "executable": "c"}"#;
    assert_eq!(of(Host::Mcporter, both), "[servers.a]\ncommand = \"b\"\n# b\n\n");
    let quoted = r#"{"command": "b '/x y' \"--z=1 2\" c\\ d", "args": []}"#;
    let split = "args = [\"/x y\", \"--z=1 2\", \"c d\"]";
    assert!(of(Host::Mcporter, quoted).contains(split), "{}", of(Host::Mcporter, quoted));
    let whole = r#"{"command": "my server", "args": ["x"]}"#;
    assert!(of(Host::Mcporter, whole).contains("command = \"my server\"\nargs = [\"x\"]"));
    let note = "# note: its command has blanks in it, and is started as one word\n";
    for line in ["npx -y pkg", "npx -y @scope/pkg", "python3 '/x/y.py'", "/usr/bin/npx -y pkg"] {
        let shown = of(Host::Cursor, &format!(r#"{{"command": "{line}"}}"#));
        assert!(shown.contains(note), "{shown}");
    }
    for path in ["/opt/My App/server", r"C:\\Program Files\\server.exe"] {
        let shown = of(Host::Cursor, &format!(r#"{{"command": "{path}"}}"#));
        assert!(!shown.contains("note"), "{shown}");
    }
}

/// Times for all servers of a file; an entry's own count first.
#[test]
fn times_for_all_servers_are_taken_over() {
    let opencode = r#"{"mcp": {"timeout": {"startup": 1500, "request": 40000}, "servers": {
        "a": {"type": "local", "command": ["a"]},
        "b": {"type": "local", "command": ["b"], "timeout": {"request": 9000}}}}}"#;
    let expected = "\
[servers.a]
command = \"a\"
connect_timeout = \"1500ms\"
timeout = \"40s\"
# a

[servers.b]
command = \"b\"
timeout = \"9s\"
connect_timeout = \"1500ms\"
# b

";
    assert_eq!(read(Host::Opencode, None, opencode), expected);
    let zed = r#"{"context_server_timeout": 90, "context_servers": {
        "a": {"command": "a"}, "b": {"command": "b", "timeout": 5}}}"#;
    let expected = "\
[servers.a]
command = \"a\"
timeout = \"90s\"
# a

[servers.b]
command = \"b\"
timeout = \"5s\"
# b

";
    assert_eq!(read(Host::Zed, None, zed), expected);
    // A server that is called like the setting.
    let named = r#"{"mcp": {"timeout": {"type": "local", "command": ["a"], "timeout": 7000}}}"#;
    let expected = "[servers.timeout]\ncommand = \"a\"\ntimeout = \"7s\"\n# a\n\n";
    assert_eq!(read(Host::Opencode, None, named), expected);
}

/// Codex has browsers redirected to one port for all servers.
#[test]
fn the_redirect_for_all_servers_of_codex_is_taken_over() {
    let servers = r#"
[mcp_servers.plain]
url = "https://a/mcp"
[mcp_servers.own]
url = "https://b/mcp"
oauth.callback_port = 1
[mcp_servers.token]
url = "https://c/mcp"
bearer_token_env_var = "T"
[mcp_servers.program]
command = "d"
"#;
    let auths = |setting: &str| {
        let shown = read(Host::Codex, None, &format!("{setting}\n{servers}"));
        let lines = shown.lines().filter(|line| line.starts_with("auth") || line.starts_with("# note"));
        lines.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let own = "auth = { redirect_port = 1 }";
    assert_eq!(auths("mcp_oauth_callback_port = 5555"), ["auth = { redirect_port = 5555 }", own]);
    let address = "mcp_oauth_callback_url = 'https://me.example/cb'\nmcp_oauth_callback_port = 5555";
    assert_eq!(auths(address), ["auth = { redirect_uri = \"https://me.example/cb\" }", own]);
    for strange in ["http://devbox/cb", "http://localhost.example/cb", "cursor://x", "https://${A}/"] {
        let note = "# note: `mcp_oauth_callback_url` is not used: it is neither https nor on this machine";
        assert_eq!(auths(&format!("mcp_oauth_callback_url = '{strange}'")), [note, own], "{strange}");
    }
    assert_eq!(auths("mcp_oauth_callback_port = 'x'"), [own]);
    assert_eq!(
        read(
            Host::Cursor,
            None,
            r#"{"mcp_oauth_callback_port": 5, "mcpServers": {"a": {"url": "https://h/"}}}"#
        ),
        "[servers.a]\nurl = \"https://h/\"\n# https://h/\n\n"
    );
}

/// Servers of `.mcp.json` that a person has rejected, and those that an administrator forbids.
#[test]
fn servers_that_claude_code_has_switched_off_are_disabled() {
    let (project, path) = (Path::new("/p"), Path::new("/x"));
    let mut settings = ClaudeSettings::default();
    let state = r#"{"projects": {
        "/p": {"disabledMcpjsonServers": ["rejected", 7], "disabledMcpServers": ["off"], "enabledMcpjsonServers": ["rejected", "used"]},
        "/q": {"disabledMcpjsonServers": ["used"]}}}"#;
    settings.add_project_state(project, path, state).unwrap();
    let file = r#"{"enableAllProjectMcpServers": true, "disabledMcpjsonServers": ["local"], "deniedMcpServers": [
        {"serverName": "denied"}, {"serverCommand": ["npx", "-y", "bad"]}, {"serverUrl": "https://*.bad/*"}, "used", {}]} // kept by hand"#;
    settings.add_settings(path, file).unwrap();
    let text = r#"{"mcpServers": {
        "used": {"command": "npx", "args": ["-y", "good"]},
        "rejected": {"command": "a"}, "local": {"command": "a"}, "off": {"command": "a"}, "denied": {"command": "a"},
        "command": {"command": "npx", "args": ["-y", "bad"]},
        "url": {"type": "http", "url": "https://a.bad/mcp"}}}"#;
    let switched = |host, project| {
        let servers = read_servers_with(host, FileOrigin { path, project }, &settings, text).unwrap();
        let state = |server: bowline_hosts::HostServer| {
            let HostServerContent::Server { entry, .. } = server.content else { panic!("{}", server.name) };
            (server.name, entry.is_enabled(), server.notes)
        };
        servers.into_iter().map(state).collect::<Vec<_>>()
    };
    let line = |name: &str, key: Option<&str>| {
        let note = key.map(|key| format!("Claude Code has it switched off (`{key}`)"));
        (name.to_owned(), key.is_none(), note.into_iter().collect::<Vec<_>>())
    };
    let denied = Some("deniedMcpServers");
    let expected = [
        line("used", None),
        line("rejected", Some("disabledMcpjsonServers")),
        line("local", Some("disabledMcpjsonServers")),
        line("off", Some("disabledMcpServers")),
        line("denied", denied),
        line("command", denied),
        line("url", denied),
    ];
    assert_eq!(switched(Host::ClaudeCode, Some(project)), expected);
    // The choices about `.mcp.json` are not about servers of the user.
    let names = |servers: Vec<(String, bool, Vec<String>)>| {
        servers
            .into_iter()
            .filter(|(_, is_enabled, _)| !is_enabled)
            .map(|(name, ..)| name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(switched(Host::ClaudeCode, None)), ["denied", "command", "url"]);
    assert_eq!(names(switched(Host::Cursor, Some(project))), [""; 0]);
}

/// What a person switched off in one project, beside the servers of that project.
#[test]
fn local_servers_that_claude_code_has_switched_off_are_disabled() {
    let text = r#"{"mcpServers": {"a": {"command": "a"}}, "projects": {"/p": {
        "mcpServers": {"a": {"command": "b"}, "b": {"command": "c"}}, "disabledMcpServers": ["a"], "disabledMcpjsonServers": ["b"]}}}"#;
    assert_eq!(
        read(Host::ClaudeCode, None, text),
        "\
[servers.a]
command = \"a\"
# a

[servers.a]
command = \"b\"
cwd = \"/p\"
enabled = false
# b (in /p) for /p
# note: Claude Code has it switched off (`disabledMcpServers`)

[servers.b]
command = \"c\"
cwd = \"/p\"
# c (in /p) for /p

"
    );
}

/// The file of a plugin may be the table itself. Claude Code refuses that in the file of a project.
#[test]
fn servers_without_a_table_around_them_are_read_with_a_note() {
    let read_at = |path: &str, text: &str| {
        let origin = FileOrigin { path: Path::new(path), project: Some(Path::new("/p")) };
        let servers = read_servers(Host::ClaudeCode, origin, text).expect("a readable file");
        servers.into_iter().map(|server| (server.name, server.notes)).collect::<Vec<_>>()
    };
    let flat = r#"{"$schema": "x", "a": {"command": "a"}, "settings": {"x": 1}, "b": {"type": "http", "url": "https://h/"}}"#;
    let notes = ["it is not in `mcpServers`: Claude Code accepts that from a plugin, and not from a project"
        .to_owned()];
    let expected = ["a", "b"].map(|name| (name.to_owned(), notes.to_vec()));
    assert_eq!(read_at("/p/.mcp.json", flat), expected);
    assert_eq!(read_at("/p/.claude.json", flat), []);
    let wrapped = r#"{"mcpServers": {}, "a": {"command": "a"}}"#;
    assert_eq!(read_at("/p/.mcp.json", wrapped), []);
}

/// Gemini CLI makes a server named `mcp` of it, in place of one of that name.
#[test]
fn the_global_command_of_gemini_is_a_server() {
    let of = |line: &str| {
        let text = r#"{"mcp": {"serverCommand": LINE}, "mcpServers": {"mcp": {"command": "a"}}}"#;
        read(Host::GeminiCli, None, &text.replace("LINE", line))
    };
    let note = "# note: it is the command line in `mcp.serverCommand`\n\n";
    assert_eq!(
        of(r#""b --x 'y z'""#),
        format!("[servers.mcp]\ncommand = \"b\"\nargs = [\"--x\", \"y z\"]\n# b --x 'y z'\n{note}")
    );
    assert_eq!(of(r#""b | c""#), format!("# mcp is left out: `serverCommand` cannot be read\n{note}"));
    for none in [r#""""#, "null", "{}"] {
        assert_eq!(of(none), "[servers.mcp]\ncommand = \"a\"\n# a\n\n", "{none}");
    }
}

/// opencode has whole numbers of milliseconds under two keys, for a server or for all of them.
#[test]
fn only_the_times_that_opencode_documents_are_read() {
    let of_all = |times: &str| {
        let text = r#"{"mcp": {"timeout": TIMES, "servers": {"a": {"type": "local", "command": ["a"]}}}}"#;
        read(Host::Opencode, None, &text.replace("TIMES", times))
    };
    let untimed = "[servers.a]\ncommand = \"a\"\n";
    for strange in [r#"{"x": "12"}"#, r#"{"x": 12}"#, r#"{"request": "12"}"#, "12", r#""12""#, "[12]", "{}"] {
        assert_eq!(of_all(strange), format!("{untimed}# a\n\n"), "{strange}");
    }
    assert_eq!(of_all(r#"{"request": 12, "x": 13}"#), format!("{untimed}timeout = \"12ms\"\n# a\n\n"));
    let own = |times: &str| {
        let text = r#"{"mcp": {"a": {"type": "local", "command": ["a"], "timeout": TIMES}}}"#;
        read(Host::Opencode, None, &text.replace("TIMES", times))
    };
    assert_eq!(own("12"), format!("{untimed}timeout = \"12ms\"\n# a\n\n"));
    let unread = format!("{untimed}# a\n# note: its `timeout.x` cannot be read\n\n");
    assert_eq!(own(r#"{"x": "12"}"#), unread);
}

#[test]
#[cfg(unix)]
fn every_host_is_read() {
    for host in Host::ALL {
        insta::assert_snapshot!(host.id(), read(host, None, &fixture(host)));
    }
}

#[test]
#[cfg(unix)]
fn files_of_a_project_know_its_folder() {
    for host in [Host::Cursor, Host::VsCode, Host::Codex] {
        insta::assert_snapshot!(
            format!("{}-project", host.id()),
            read(host, Some("/work/p"), &fixture(host))
        );
    }
}

#[test]
fn a_file_that_cannot_be_read_says_where() {
    for (host, text, place) in [
        (Host::Cursor, "{\n  \"mcpServers\": [", "x:2:"),
        (Host::Codex, "[mcp_servers.a]\nurl = \"secret", "x:2:"),
        (Host::Goose, "extensions:\n  a: [secret\n b: }", "x:3:"),
        (Host::Zed, "[]", "x:1:1: the file is not an object"),
    ] {
        let origin = FileOrigin { path: Path::new("x"), project: None };
        let problem = read_servers(host, origin, text).unwrap_err().to_string();
        assert!(problem.starts_with(place), "{}: {problem}", host.id());
        assert!(!problem.contains("secret"), "{problem}");
    }
}

#[test]
fn empty_files_name_no_servers() {
    for host in Host::ALL {
        for text in ["", "  \n", "\u{feff}"] {
            let origin = FileOrigin { path: Path::new("x"), project: None };
            assert_eq!(read_servers(host, origin, text).unwrap().len(), 0, "{}", host.id());
        }
    }
}

#[test]
fn a_file_with_too_many_servers_is_refused() {
    let entries: Vec<String> = (0..1001).map(|n| format!("\"s{n}\": {{\"command\": \"x\"}}")).collect();
    let text = format!("{{\"mcpServers\": {{{}}}}}", entries.join(","));
    let origin = FileOrigin { path: Path::new("x"), project: None };
    let problem = read_servers(Host::Cursor, origin, &text).unwrap_err();
    assert_eq!(problem.message, "the file names more than 1000 servers");
}

/// Text that resembles the files of hosts.
fn any_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("mcpServers"),
        Just("servers"),
        Just("mcp"),
        Just("extensions"),
        Just("mcp_servers"),
        Just("context_servers"),
        Just("projects"),
        Just("command"),
        Just("args"),
        Just("env"),
        Just("url"),
        Just("headers"),
        Just("type"),
        Just("stdio"),
        Just("oauth"),
        Just("timeout"),
        Just("npx"),
        Just("mcp-remote"),
        Just("https://h/?token=x"),
        Just("${A:-b}"),
        Just("{env:A}"),
        Just("$"),
        Just("${workspaceFolder}"),
        Just("é"),
        Just("--header"),
        Just("bowline"),
        Just("connect"),
    ];
    let word = word.prop_map(ToOwned::to_owned);
    let leaf = prop_oneof![
        word.clone().prop_map(|word| format!("{word:?}")),
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("-1e400".to_owned()),
        Just("12".to_owned()),
    ];
    leaf.prop_recursive(6, 64, 5, move |inner| {
        let pair = (word.clone(), inner.clone()).prop_map(|(key, value)| format!("{key:?}: {value}"));
        prop_oneof![
            proptest::collection::vec(inner, 0..5).prop_map(|all| format!("[{}]", all.join(", "))),
            proptest::collection::vec(pair, 0..5).prop_map(|all| format!("{{{}}}", all.join(", "))),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>(), likely in any_text(), project in any::<bool>()) {
        let project = project.then_some(Path::new("/p"));
        for host in Host::ALL {
            for text in [&text, &likely] {
                for server in read_servers(host, FileOrigin { path: Path::new("/x/y"), project }, text).into_iter().flatten() {
                    if let HostServerContent::Server { mut entry, .. } = server.content {
                        let _ = (render(&server.name, &entry), entry.describe());
                        entry.take_secrets(&mut |secret| secret.label.clone());
                    }
                }
            }
        }
    }
}
