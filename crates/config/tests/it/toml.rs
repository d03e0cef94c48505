//! Tests of our own TOML dialect.

use std::path::PathBuf;
use std::time::Duration;

use bowline_config::{Config, Exposure, Protocol, Server, Share, Tls, ToolPattern, Transport};
use bowline_testkit::with;

use crate::{note_lines, parse_errors, parse_valid};

#[test]
fn every_key_is_read() {
    let config = parse_valid(
        "/etc/bowline/config.toml",
        r#"
            [servers.files]
            command = "mcp-files"
            args = ["--root", "${ROOT:-/srv}"]
            env = { TOKEN = "{file:token}", MODE = "fast" }
            cwd = "work"
            timeout = 20
            max_timeout = "2m"
            connect_timeout = 0.5
            probe_timeout = "500ms"
            keepalive_interval = 20
            reconnect_wait = "2s"
            message_limit_mib = 256
            share = "all"
            idle_stop = "30m"
            enabled_tools = ["read_*", "${ROOT:-list}"]
            disabled_tools = ["read_secret"]
            prompts = false
            resources = false
            tool_names = { read_file = "read" }
            tool_descriptions = { read_file = "Reads a file." }
            enabled = false
            protocol = "legacy"

            [servers."se.arch"]
            url = "https://search.example.com/mcp"
            ca_file = "corp.pem"
            client_cert = "~/cert.pem"
            client_key = "/keys/key.pem"
            protocol = "modern"
            [servers."se.arch".headers]
            Z-First = "1"
            Authorization = "Bearer {env:TOKEN}"
        "#,
    );
    let files = Server::stdio("files", "mcp-files")
        .args(["--root", "/srv"])
        .env("TOKEN", "s3cret")
        .env("MODE", "fast")
        .cwd("/etc/bowline/work")
        .idle_timeout(Duration::from_secs(20))
        .timeout(Duration::from_secs(120))
        .connect_timeout(Duration::from_millis(500))
        .probe_timeout(Duration::from_millis(500))
        .protocol(Protocol::Legacy)
        .keepalive(Some(Duration::from_secs(20)))
        .reconnect_wait(Duration::from_secs(2))
        .message_limit(256 * 1024 * 1024)
        .share(Share::All)
        .idle_stop(Some(Duration::from_secs(1800)))
        .exposure(with!(Exposure::default(),
            enabled_tools: Some(["read_*", "list"].map(ToolPattern::new).into()),
            disabled_tools: vec![ToolPattern::new("read_secret")],
            prompts: false,
            resources: false,
            tool_names: [("read_file".into(), "read".into())].into(),
            tool_descriptions: [("read_file".into(), "Reads a file.".into())].into()
        ))
        .build()
        .unwrap()
        .disabled();
    let search = Server::http("se.arch", "https://search.example.com/mcp")
        .header("Z-First", "1")
        .header("Authorization", "Bearer s3cret")
        .tls(with!(Tls::default(), ca_file: Some("/etc/bowline/corp.pem".into()), client_cert: Some("/home/me/cert.pem".into()), client_key: Some("/keys/key.pem".into())))
        .protocol(Protocol::Modern)
        .build()
        .unwrap();
    let mut expected =
        Config::default().with_server(files).and_then(|config| config.with_server(search)).unwrap();
    expected.sources = vec![PathBuf::from("/etc/bowline/config.toml")];
    assert_eq!(config, expected);
}

#[test]
fn defaults_are_those_of_a_server_made_by_a_program() {
    let config = parse_valid("c.toml", "[servers.a]\ncommand = 'x'");
    assert_eq!(config.servers["a"], Server::stdio("a", "x").build().unwrap());
}

#[test]
fn an_empty_file_has_no_servers() {
    assert!(parse_valid("c.toml", "").servers.is_empty());
    assert!(parse_valid("c.toml", "\u{feff}# nothing\n[servers]\n").servers.is_empty());
}

#[test]
fn one_limit_alone_moves_the_default_of_the_other() {
    let config = parse_valid(
        "c.toml",
        "[servers.long]\ncommand = 'x'\ntimeout = '1h'\n[servers.short]\ncommand = 'x'\nmax_timeout = 5",
    );
    let limits = |name: &str| {
        let timeouts = &config.servers[name].timeouts;
        (timeouts.idle.as_secs(), timeouts.total.as_secs())
    };
    assert_eq!(limits("long"), (3600, 3600));
    assert_eq!(limits("short"), (5, 5));
}

#[test]
fn unknown_keys_are_errors_with_a_suggestion() {
    let text = "\
[server.a]
command = 'x'

[servers.b]
comand = 'x'
disabled = true
foo = 1
keepAliveInterval = 20
keepalive = 20

[servers.git.hub]
url = 'http://h'

[proxy]
[[hook]]
";
    let expected = r#"bowline.toml:1:2: server: unknown key
  hint: did you mean `servers`?
bowline.toml:5:1: servers.b.comand: unknown key
  hint: did you mean `command`?
bowline.toml:6:1: servers.b.disabled: unknown key
  hint: write `enabled = false`
bowline.toml:7:1: servers.b.foo: unknown key
bowline.toml:8:1: servers.b.keepAliveInterval: unknown key
  hint: did you mean `keepalive_interval`?
bowline.toml:9:1: servers.b.keepalive: unknown key
  hint: did you mean `keepalive_interval`?
bowline.toml:11:14: servers.git.hub: unknown key
  hint: a name with a dot in it is quoted: `[servers."git.hub"]`
bowline.toml:14:2: proxy: unknown key
  hint: servers are written as `[servers.NAME]`
bowline.toml:15:3: hook: unknown key
  hint: did you mean `hooks`?"#;
    assert_eq!(parse_errors("bowline.toml", text), expected);
}

#[test]
fn a_server_is_started_or_reached_and_has_the_keys_of_that() {
    let text = r#"[servers.both]
command = "x"
url = "http://h/"
[servers.neither]
enabled = true
[servers.reached]
url = "https://h/"
args = ["a"]
env = { A = "b" }
cwd = "/"
[servers.started]
command = "x"
headers = { A = "b" }
ca_file = "c.pem"
client_cert = "c.pem"
client_key = "c.pem"
[servers.half]
url = "https://h/"
client_cert = "c.pem"
"#;
    let expected = "\
c.toml:1:10: servers.both: has both `command` and a URL
  hint: a server is either started or reached by URL; make it two entries
c.toml:4:10: servers.neither: needs `command` or `url`
c.toml:8:8: servers.reached.args: belongs to a server with `command`, and this one has a `url`
c.toml:9:7: servers.reached.env: belongs to a server with `command`, and this one has a `url`
c.toml:10:7: servers.reached.cwd: belongs to a server with `command`, and this one has a `url`
c.toml:13:11: servers.started.headers: belongs to a server with `url`, and this one has a `command`
c.toml:14:11: servers.started.ca_file: belongs to a server with `url`, and this one has a `command`
c.toml:15:15: servers.started.client_cert: belongs to a server with `url`, and this one has a `command`
c.toml:16:14: servers.started.client_key: belongs to a server with `url`, and this one has a `command`
c.toml:19:15: servers.half.client_cert: `client_cert` and `client_key` are needed together";
    assert_eq!(parse_errors("c.toml", text), expected);
}

#[test]
fn every_problem_of_an_entry_is_reported() {
    let text = r#"[servers."bad name"]
command = "${NOPE} {file:gone}"
args = ["ok", 7, "${ALSO_NOPE}", "nul\u0000"]
env = { PORT = 8080, "A=B" = "x" }
cwd = ""
[servers.times]
command = ""
timeout = "5 days"
max_timeout = "20 days"
connect_timeout = true
probe_timeout = 1e9
[servers.more]
command = "x"
timeout = "2m"
max_timeout = "1m"
protocol = "moden"
enabled = "yes"
"#;
    let expected = r#"c.toml:1:10: servers."bad name": a server name is 1 to 64 characters of A-Z, a-z, 0-9, `_`, `.` and `-`
  hint: rename it; `bowline import` takes over servers of hosts under valid names
c.toml:2:11: servers."bad name".command: environment variable `NOPE` is not set
  hint: set it, or give a default: `${NOPE:-value}`
c.toml:2:11: servers."bad name".command: cannot read the file `gone`: no such file
c.toml:3:15: servers."bad name".args[1]: must be a string, not a number
  hint: put the value in quotes
c.toml:3:18: servers."bad name".args[2]: environment variable `ALSO_NOPE` is not set
  hint: set it, or give a default: `${ALSO_NOPE:-value}`
c.toml:3:34: servers."bad name".args[3]: contains a NUL character
c.toml:4:16: servers."bad name".env.PORT: must be a string, not a number
  hint: put the value in quotes
c.toml:4:22: servers."bad name".env: an environment name is not empty and has no `=` and no NUL character
c.toml:5:7: servers."bad name".cwd: the path is empty
c.toml:7:11: servers.times.command: the command is empty
c.toml:8:11: servers.times.timeout: not a length of time
  hint: for example "20s", "500ms" or "2m"
c.toml:9:15: servers.times.max_timeout: not a length of time
  hint: for example "20s", "500ms" or "2m"
c.toml:10:19: servers.times.connect_timeout: must be a length of time, not a boolean
c.toml:11:17: servers.times.probe_timeout: must be more than 0 and at most 24 hours
c.toml:15:15: servers.more.max_timeout: is shorter than `timeout`
c.toml:16:12: servers.more.protocol: must be "auto", "legacy" or "modern"
  hint: did you mean "modern"?
c.toml:17:11: servers.more.enabled: must be true or false, not a string"#;
    assert_eq!(parse_errors("c.toml", text), expected);
}

#[test]
fn urls_and_headers_are_checked_after_filling() {
    let text = r#"[servers.a]
url = "https://me:${TOKEN}@h/"
[servers.a.headers]
"Bearer s3cret" = "x"
Authorization = "${BROKEN}"
X-Key = "x"
x-key = "y"
mcp-session-id = "z"
[servers.b]
url = "${TOKEN}"
[servers.c]
url = "file:///s3cret"
"#;
    let expected = r#"c.toml:2:7: servers.a.url: the URL contains credentials
  hint: send them as a header, such as `Authorization`, with the value in an environment variable
c.toml:4:1: servers.a.headers: a header name is made of letters, digits and !#$%&'*+-.^_`|~
c.toml:5:17: servers.a.headers.Authorization: contains a control character, which is not allowed in a header value
  hint: is there a line break in the variable or file it comes from?
c.toml:7:9: servers.a.headers.x-key: this header is given twice
c.toml:8:18: servers.a.headers.mcp-session-id: this header is set by the transport and cannot be configured
c.toml:10:7: servers.b.url: not a valid URL: relative URL without a base
  hint: for example "https://mcp.example.com/mcp"
c.toml:12:7: servers.c.url: the URL must begin with http:// or https://
  hint: for example "https://mcp.example.com/mcp""#;
    assert_eq!(parse_errors("c.toml", text), expected);
}

#[test]
fn types_are_named_without_their_values() {
    assert_eq!(
        parse_errors("c.toml", "servers = 's3cret'"),
        "c.toml:1:1: servers: must be a table of servers, not a string"
    );
    let text = "\
[servers]
a = 's3cret'
b = 2020-01-01
[servers.c]
command = ['s3cret']
[servers.d]
url = 1
headers = 's3cret'
";
    let expected = "\
c.toml:2:1: servers.a: must be a table with `command` or `url`, not a string
c.toml:3:1: servers.b: must be a table with `command` or `url`, not a date
c.toml:5:11: servers.c.command: must be a string, not a list
c.toml:7:7: servers.d.url: must be a string, not a number
  hint: put the value in quotes
c.toml:8:11: servers.d.headers: must be a table of strings, not a string";
    assert_eq!(parse_errors("c.toml", text), expected);
}

#[test]
fn syntax_errors_have_a_place_and_quote_nothing() {
    for (text, place) in [
        ("[servers.a]\ncommand = \n", "c.toml:2:11: "),
        ("[servers.a]\nheaders = { Authorization = Bearer s3cret }", "c.toml:2:29: "),
        ("[servers.a]\ncommand = 's3cret\n", "c.toml:2:18: "),
        ("a = 's3cret'\na = 's3cret'", "c.toml:2:1: "),
        ("s3cret", "c.toml:1:7: "),
    ] {
        let shown = parse_errors("c.toml", text);
        assert!(shown.starts_with(&format!("{place}not valid TOML: ")), "{shown}");
    }
}

#[test]
fn credentials_go_over_plain_http_only_if_an_entry_says_so() {
    let config = parse_valid(
        "c.toml",
        "[servers.a]\nurl = 'http://h/'\n[servers.b]\nurl = 'http://h/'\nallow_http = true\n\
         [servers.c]\nurl = 'http://h/'\nallow_http = false",
    );
    let allows = ["a", "b", "c"].map(|name| crate::auth::http(&config, name).allow_http);
    assert_eq!(allows, [false, true, false]);
    let made = Server::http("b", "http://h/").allow_http(true).build().unwrap();
    let read = parse_valid("c.toml", "[servers.b]\nurl = 'http://h/'\nallow_http = true\ntransport = 'http'");
    assert!(matches!(&made.transport, Transport::Http(http) if http.allow_http));
    assert!(crate::auth::http(&read, "b").allow_http);
    let expected = "\
c.toml:3:14: servers.a.allow_http: belongs to a server with `url`, and this one has a `command`
c.toml:6:14: servers.b.allow_http: must be true or false, not a string";
    let text =
        "[servers.a]\ncommand = 'x'\nallow_http = true\n[servers.b]\nurl = 'http://h/'\nallow_http = 'yes'";
    assert_eq!(parse_errors("c.toml", text), expected);
    let json = r#"{"mcpServers": {"a": {"url": "http://h/", "allow_http": true}}}"#;
    assert!(crate::auth::http(&parse_valid("c.json", json), "a").allow_http);
}

#[test]
#[cfg(unix)]
fn a_server_is_reached_on_a_socket() {
    let text = "[servers.a]\nurl = 'http://h/'\nsocket = '/run/${USER:-u}/a.sock'\n\
                [servers.b]\nurl = 'http://h/'\nsocket = '~/b.sock'\n[servers.c]\nurl = 'http://h/'";
    let config = parse_valid("/etc/c.toml", text);
    let sockets = ["a", "b", "c"].map(|name| crate::auth::http(&config, name).socket.clone());
    assert_eq!(sockets, [Some("/run/u/a.sock".into()), Some("/home/me/b.sock".into()), None]);
    let expected = "\
c.toml:3:10: servers.a.socket: belongs to a server with `url`, and this one has a `command`
c.toml:6:10: servers.b.socket: a server on a socket needs a URL that begins with http://
  hint: a socket stays on this machine, so it needs no encryption
c.toml:9:10: servers.c.socket: the path of a socket must be absolute
c.toml:12:10: servers.d.socket: the path is empty";
    let text = "[servers.a]\ncommand = 'x'\nsocket = '/s'\n[servers.b]\nurl = 'https://h/'\nsocket = '/s'\n\
                [servers.c]\nurl = 'http://h/'\nsocket = 's'\n[servers.d]\nurl = 'http://h/'\nsocket = ''";
    assert_eq!(parse_errors("c.toml", text), expected);
}

/// Words of other programs come before guesses by spelling: `cmd` resembles `cwd` most.
#[test]
fn foreign_words_lead_to_the_key_that_is_meant() {
    let text =
        "[servers.a]\ncmd = 'x'\n[servers.b]\nendpoint = 'http://h/'\nclient_id = 'x'\n[[hooks]]\ncmd = 'x'";
    let expected = "c.toml:2:1: servers.a.cmd: unknown key\n  hint: did you mean `command`?\n\
                    c.toml:4:1: servers.b.endpoint: unknown key\n  hint: did you mean `url`?\n\
                    c.toml:5:1: servers.b.client_id: unknown key\n  hint: it goes into `[servers.NAME.auth]`\n\
                    c.toml:7:1: hooks[0].cmd: unknown key\n  hint: did you mean `command`?";
    assert_eq!(parse_errors("c.toml", text), expected);
}

/// No shell splits the command. A path may have spaces.
#[test]
fn a_command_with_its_arguments_in_one_string_is_doubtful() {
    let config = parse_valid(
        "/c.toml",
        "[servers.a]\ncommand = 'npx -y foo'\n[servers.b]\ncommand = '/opt/My App/run'\n",
    );
    assert_eq!(
        note_lines(&config.notes),
        "/c.toml:2:11: servers.a.command: contains spaces and is used as one program name\n  hint: \
         write command = \"npx\" and args = [\"-y\", \"foo\"]"
    );
    let with_args = parse_valid("/c.toml", "[servers.a]\ncommand = 'npx -y'\nargs = ['foo']\n");
    assert_eq!(note_lines(&with_args.notes), "");
}
