//! Tests of keepalive, reconnection and the choice of transport.

use std::time::Duration;

use bowline_config::{Server, Transport};

use crate::{note_lines, parse_errors, parse_valid};

/// Parses a file with one server and returns it with the notes.
#[track_caller]
fn single_server(path: &str, text: &str) -> (Server, String) {
    let config = parse_valid(path, text);
    let notes = note_lines(&config.notes);
    (config.servers.into_values().next().expect("no server"), notes)
}

/// Names the transport of a server, with its fallback.
fn transport_name(server: &Server) -> &'static str {
    match &server.transport {
        Transport::Stdio(_) => "stdio",
        Transport::Http(http) if http.fallback => "http or sse",
        Transport::Http(_) => "http",
        Transport::Sse(_) => "sse",
        other => panic!("{other:?}"),
    }
}

#[test]
fn keepalive_in_seconds_or_with_a_unit() {
    for (written, seconds) in [
        ("20", 20),
        ("20.0", 20),
        ("'20'", 20),
        ("'20s'", 20),
        ("'2m'", 120),
        ("5", 5),
        ("'5000ms'", 5),
        ("86400", 86_400),
    ] {
        let text = format!("[servers.a]\ncommand = 'x'\nkeepalive_interval = {written}");
        let (server, notes) = single_server("c.toml", &text);
        assert_eq!(server.keepalive, Some(Duration::from_secs(seconds)), "{written}");
        assert_eq!(notes, "", "{written}");
    }
}

#[test]
fn keepalive_of_zero_is_off() {
    for written in ["0", "0.0", "'0'", "'0s'", "'0ms'"] {
        let text = format!("[servers.a]\ncommand = 'x'\nkeepalive_interval = {written}");
        let (server, notes) = single_server("c.toml", &text);
        assert_eq!((server.keepalive, notes.as_str()), (None, ""), "{written}");
    }
}

#[test]
fn a_short_keepalive_is_raised_with_a_note() {
    for written in ["1", "4.999", "'10ms'", "0.001"] {
        let text = format!("[servers.a]\ncommand = 'x'\nkeepalive_interval = {written}");
        let (server, notes) = single_server("c.toml", &text);
        assert_eq!(server.keepalive, Some(Server::KEEPALIVE_FLOOR), "{written}");
        let expected = "c.toml:3:22: servers.a.keepalive_interval: used as 5 s, the shortest there is\n  \
                        hint: write 0 to turn it off";
        assert_eq!(notes, expected, "{written}");
    }
}

#[test]
fn a_call_need_not_wait_for_a_connection() {
    for (written, millis) in [("0", 0), ("'0s'", 0), ("0.25", 250), ("'90s'", 90_000)] {
        let text = format!("[servers.a]\ncommand = 'x'\nreconnect_wait = {written}");
        assert_eq!(
            single_server("c.toml", &text).0.reconnect_wait,
            Duration::from_millis(millis),
            "{written}"
        );
    }
}

#[test]
fn nonsense_is_refused_with_an_example() {
    let range = "must be at least 0 and at most 24 hours";
    let form = "not a length of time\n  hint: for example \"20s\", \"500ms\" or \"2m\"";
    for (written, expected) in [
        ("-1", range),
        ("-0.5", range),
        ("nan", range),
        ("inf", range),
        ("-inf", range),
        ("1e99", range),
        ("1e-99", range),
        ("86401", range),
        ("99999999999999999999999999", range),
        ("'25h'", range),
        ("'20 parsecs'", form),
        ("'-20s'", form),
        ("''", form),
        ("'1m30s'", form),
        ("true", "must be a length of time, not a boolean"),
        ("[20]", "must be a length of time, not a list"),
        ("{ s = 20 }", "must be a length of time, not a table"),
        ("2020-01-01", "must be a length of time, not a date"),
    ] {
        for key in ["keepalive_interval", "reconnect_wait"] {
            let text = format!("[servers.a]\ncommand = 'x'\n{key} = {written}");
            let column = key.len() + 4;
            let expected = format!("c.toml:3:{column}: servers.a.{key}: {expected}");
            assert_eq!(parse_errors("c.toml", &text), expected, "{written}");
        }
    }
}

#[test]
fn hosts_files_have_the_same_settings() {
    for (keys, keepalive, wait) in [
        (r#""keepalive_interval": 20, "reconnect_wait": 2"#, Some(20), 2),
        (r#""keepAliveInterval": "20s", "reconnectWait": "2s""#, Some(20), 2),
        (r#""keepAliveInterval": 0, "reconnect_wait": 0"#, None, 0),
        (r#""keepalive_interval": null"#, Some(180), 10),
    ] {
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "x", {keys}}}}}}}"#);
        let (server, notes) = single_server("c.json", &text);
        assert_eq!(server.keepalive, keepalive.map(Duration::from_secs), "{keys}");
        assert_eq!(server.reconnect_wait, Duration::from_secs(wait), "{keys}");
        assert_eq!(notes, "", "{keys}");
    }
}

/// All other durations in such a file are in milliseconds.
#[test]
fn large_interval_in_a_hosts_file_is_noted() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "keepAliveInterval": 20000}}}"#;
    let (server, notes) = single_server("c.json", text);
    assert_eq!(server.keepalive, Some(Duration::from_secs(20_000)));
    let expected = "c.json:1:60: mcpServers.a.keepAliveInterval: read as 20000 seconds\n  \
                    hint: write \"20000ms\" if it was meant in milliseconds";
    assert_eq!(notes, expected);
}

#[test]
fn fallback_is_allowed_unless_transport_is_declared() {
    for (keys, expected) in [
        ("command = 'x'", "stdio"),
        ("command = 'x'\ntransport = 'stdio'", "stdio"),
        ("command = 'x'\ntype = 'stdio'", "stdio"),
        ("url = 'http://h/'", "http or sse"),
        ("url = 'http://h/'\ntransport = 'http'", "http"),
        ("url = 'http://h/'\ntransport = 'streamable-http'", "http"),
        ("url = 'http://h/'\ntype = 'http'", "http"),
        ("url = 'http://h/'\ntransport = 'sse'", "sse"),
        ("url = 'http://h/'\ntype = 'sse'", "sse"),
        ("url = 'http://h/'\ntype = 'http'\ntransport = 'streamable-http'", "http"),
    ] {
        let (server, notes) = single_server("c.toml", &format!("[servers.a]\n{keys}"));
        assert_eq!((transport_name(&server), notes.as_str()), (expected, ""), "{keys}");
    }
}

#[test]
fn the_words_of_hosts_for_a_transport() {
    for (keys, expected) in [
        (r#""command": "x", "type": "local""#, "stdio"),
        (r#""url": "http://h/""#, "http or sse"),
        (r#""serverUrl": "http://h/""#, "http or sse"),
        (r#""url": "http://h/", "type": "remote""#, "http or sse"),
        (r#""url": "http://h/", "type": null"#, "http or sse"),
        (r#""httpUrl": "http://h/""#, "http"),
        (r#""url": "http://h/", "type": "http""#, "http"),
        (r#""url": "http://h/", "type": "streamable-http""#, "http"),
        (r#""url": "http://h/", "type": "streamableHttp""#, "http"),
        (r#""url": "http://h/", "transportType": "streamable_http""#, "http"),
        (r#""url": "http://h/", "type": "sse""#, "sse"),
        (r#""url": "http://h/", "transport": "SSE""#, "sse"),
        (r#""httpUrl": "http://h/", "type": "sse""#, "sse"),
        (r#""url": "http://h/", "type": "remote", "transport": "sse""#, "sse"),
        (r#""url": "http://h/", "transport": "remote", "type": "http""#, "http"),
    ] {
        let (server, notes) = single_server("c.json", &format!(r#"{{"mcpServers": {{"a": {{{keys}}}}}}}"#));
        assert_eq!((transport_name(&server), notes.as_str()), (expected, ""), "{keys}");
    }
}

#[test]
fn an_sse_server_has_the_keys_of_a_url() {
    let text =
        "[servers.a]\nurl = 'https://h/sse'\ntransport = 'sse'\nheaders = { A = '${TOKEN}' }\ntimeout = 5";
    let expected = Server::sse("a", "https://h/sse")
        .header("A", "s3cret")
        .idle_timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    assert_eq!(single_server("c.toml", text).0, expected);
}

#[test]
fn contradicting_transport_is_refused() {
    let text = r#"[servers.a]
url = "http://h/"
transport = "stdio"
[servers.b]
command = "x"
transport = "sse"
[servers.c]
command = "x"
type = "http"
[servers.d]
url = "http://h/"
transport = "htp"
[servers.e]
url = "http://h/"
transport = "websocket"
[servers.f]
url = "http://h/"
type = "http"
transport = "sse"
[servers.g]
url = "http://h/"
transport = true
[servers.h]
url = "http://h/"
transport = "sse"
args = []
"#;
    let expected = r#"c.toml:3:13: servers.a.transport: says that the server is started, but the entry has a URL and no `command`
c.toml:6:13: servers.b.transport: says that the server is reached by URL, but the entry has a `command` and no `url`
c.toml:9:8: servers.c.type: says that the server is reached by URL, but the entry has a `command` and no `url`
c.toml:12:13: servers.d.transport: must be "stdio", "http" or "sse"
  hint: did you mean "http"?
c.toml:15:13: servers.e.transport: must be "stdio", "http" or "sse"
c.toml:18:8: servers.f.type: contradicts `transport`
  hint: they are one setting; keep one of them
c.toml:22:13: servers.g.transport: must be a string, not a boolean
  hint: put the value in quotes
c.toml:26:8: servers.h.args: belongs to a server with `command`, and this one has a `url`"#;
    assert_eq!(parse_errors("c.toml", text), expected);
}
