use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};

use super::*;

fn cursor(name: &str, config: &str) -> String {
    let config = BASE64_STANDARD.encode(config);
    format!("cursor://anysphere.cursor-deeplink/mcp/install?name={name}&config={config}")
}

fn vscode(config: &str) -> String {
    let config: String = form_urlencoded::byte_serialize(config.as_bytes()).collect();
    format!("vscode:mcp/install?{}", config.replace('+', "%20"))
}

fn read(link: &str) -> InstallLink {
    InstallLink::parse(link).expect("a link").unwrap_or_else(|_| panic!("{link} can be read"))
}

fn refusal(link: &str) -> String {
    let Failure::Report(report) = InstallLink::parse(link).expect("a link").unwrap_err() else {
        panic!("{link}: another failure");
    };
    let start = "the install link cannot be used: ";
    report.message.strip_prefix(start).unwrap_or_else(|| panic!("{}", report.message)).to_owned()
}

#[test]
fn links_of_both_hosts_become_entries() {
    let link = read(&cursor("My%20files", r#"{"command": "npx", "args": ["-y", "a b"], "env": {"A": "1"}}"#));
    assert_eq!(link.name, "My files");
    assert_eq!(link.describe(), "A=1 npx -y 'a b'");
    assert!(!link.is_url());
    let link = read(&vscode(
        r#"{"name": "docs", "type": "http", "url": "https://h/mcp?a=b+c&d", "headers": {"X": "1 é", "Y": "${env:T}"}}"#,
    ));
    assert_eq!(link.name, "docs");
    assert_eq!(link.describe(), "https://h/mcp?a=b+c&d ('X: 1 é') ('Y: ${T}')");
    assert!(link.is_url());
    // Slashes, capital letters, and what is not encoded.
    for link in [
        r#"VSCode-Insiders://mcp/install?{"name":"docs","url":"https://h/a+b&c"}"#,
        r#"vscode:mcp/install/?{"servers":{"docs":{"url":"https://h/a+b&c"}}}"#,
    ] {
        let read = read(link);
        assert_eq!((&*read.name, &*read.describe()), ("docs", "https://h/a+b&c"), "{link}");
    }
}

#[test]
fn every_form_of_a_configuration_is_read() {
    for config in [
        r#"{"command": "x"}"#,
        r#"{"inner": {"command": "x"}}"#,
        r#"{"mcpServers": {"inner": {"command": "x"}}}"#,
        r#"{"name": "own", "command": "x", "description": "d", "gallery": true}"#,
    ] {
        let link = read(&cursor("outer", config));
        assert_eq!((&*link.name, &*link.describe()), ("outer", "x"), "{config}");
    }
    assert_eq!(read(&cursor("", r#"{"inner": {"command": "x"}}"#)).name, "inner");
    assert_eq!(read(&cursor("", r#"{"name": "own", "command": "x"}"#)).name, "own");
    // Text whose base64 has characters that differ between alphabets, in either, encoded or not.
    let config = r#"{"command": "x", "args": ["~~~???>>>ÿÿÿ!"]}"#;
    let standard = BASE64_STANDARD.encode(config);
    assert!(standard.contains('+') && standard.contains('/') && standard.contains('='), "{standard}");
    let encoded = standard.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    for config in [standard, encoded, BASE64_URL_SAFE_NO_PAD.encode(config)] {
        let link = format!("cursor://anysphere.cursor-deeplink/mcp/install?config={config}&name=a");
        assert_eq!(read(&link).describe(), "x '~~~???>>>ÿÿÿ!'", "{link}");
    }
}

#[test]
fn values_that_a_host_asks_for_become_variables() {
    let config = r#"{"name": "a", "command": "x", "env": {"KEY": "${input:api-key}"}, "inputs": [{"id": "api-key", "type": "promptString"}]}"#;
    let link = read(&vscode(config));
    assert_eq!(link.describe(), "'KEY=${API_KEY}' x");
    assert_eq!(link.notes, ["VS Code asks for `api-key`: set API_KEY to it"]);
}

#[test]
fn se_04_nothing_of_an_entry_is_hidden() {
    let config = r#"{"command": "sh", "args": ["-c", "eval $API_TOKEN", "--token", "x; y"], "env": {"API_TOKEN": "rm -rf ~"}, "cwd": "/srv"}"#;
    let shown = read(&cursor("a", config)).describe();
    assert_eq!(shown, "'API_TOKEN=rm -rf ~' sh -c 'eval $API_TOKEN' --token 'x; y' (in /srv)");
    let config = r#"{"url": "https://h/?token=abc", "headers": {"Authorization": "Bearer ${env:GITHUB_TOKEN}"}, "auth": {"CLIENT_ID": "c", "CLIENT_SECRET": "s", "scopes": ["a", "b"]}}"#;
    let shown = read(&cursor("a", config)).describe();
    assert_eq!(
        shown,
        "https://h/?token=abc ('Authorization: Bearer ${GITHUB_TOKEN}') \
         (auth: client_id = c, client_secret = s, scope = a, b)"
    );
}

/// SE-04: the URL is shown as it is requested, and headers cannot be taken for others.
#[test]
fn se_04_what_is_shown_is_what_is_reached() {
    for (url, shown) in [
        ("https://g\u{43e}\u{43e}d.example/mcp", "https://xn--gd-fmca.example/mcp"),
        ("http://2130706433:80/mcp", "http://127.0.0.1/mcp"),
        ("HTTPS://User@H.example:443/a/../mcp", "https://User@h.example/mcp"),
    ] {
        assert_eq!(read(&cursor("a", &json!({ "url": url }).to_string())).describe(), shown);
    }
    for url in ["https://evil.test\n.good.example/", "http://127.0.0.1\\@good.example/", "https://a b/"] {
        let why = refusal(&cursor("a", &json!({ "url": url }).to_string()));
        assert_eq!(why, "its URL has blanks, control characters or backslashes", "{url:?}");
    }
    assert_eq!(refusal(&cursor("a", r#"{"url": "https://g\u043e${X}/"}"#)), "its URL is not ASCII");
    assert_eq!(
        refusal(&cursor("a", r#"{"url": "unix:///var/run/docker.sock"}"#)),
        "it names a socket of this machine"
    );
    let headers =
        |headers: Value| read(&cursor("a", &json!({"url": "https://h/", "headers": headers}).to_string()));
    assert_eq!(headers(json!({"A": "x) (B: y"})).describe(), "https://h/ ('A: x) (B: y')");
    assert_eq!(headers(json!({"A": "x", "B": "y"})).describe(), "https://h/ ('A: x') ('B: y')");
}

#[test]
fn arguments_take_the_place_of_values() {
    let mut link = read(&cursor("a", r#"{"command": "x", "env": {"A": "1", "B": "2"}}"#));
    link.replace(&[], &["A=3".to_owned()]);
    assert_eq!(link.describe(), "B=2 x");
    link.replace(&[], &["B".to_owned()]);
    assert_eq!(link.describe(), "x");
    let mut link = read(&cursor("a", r#"{"url": "https://h/", "headers": {"X-Key": "1"}}"#));
    link.replace(&[("x-key".to_owned(), "2".to_owned())], &[]);
    assert_eq!(link.describe(), "https://h/");
}

#[test]
fn hostile_links_are_refused() {
    let long = format!(r#"{{"command": "{}"}}"#, "x".repeat(MAX_LINK_BYTES));
    let deep = format!(r#"{{"command": "x", "args": {}{}}}"#, "[".repeat(2000), "]".repeat(2000));
    for (link, why) in [
        (cursor("a", &long), "it is longer than 16 KiB"),
        (cursor("a", &deep), "its configuration is not JSON: recursion limit exceeded at line 1 column 152"),
        (
            "cursor://anysphere.cursor-retrieval/oauth?x".to_owned(),
            "Cursor installs servers by links with `anysphere.cursor-deeplink/mcp/install`",
        ),
        ("vscode:extension/some.thing".to_owned(), "VS Code installs servers by links with `mcp/install`"),
        ("cursor://anysphere.cursor-deeplink/mcp/install?name=a".to_owned(), "it has no `config`"),
        (
            "cursor://anysphere.cursor-deeplink/mcp/install?name=a&config=*".to_owned(),
            "its `config` is not base64",
        ),
        (
            "cursor://anysphere.cursor-deeplink/mcp/install?name=a&config=/w==".to_owned(),
            "its `config` is not text",
        ),
        ("vscode:mcp/install".to_owned(), "it has no configuration"),
        (
            "vscode:mcp/install?%7B".to_owned(),
            "its configuration is not JSON: EOF while parsing an object at line 1 column 1",
        ),
        (vscode("[]"), "its configuration is not an object"),
        (vscode("{}"), "it has neither a command nor a URL"),
        (vscode(r#"{"name": "a"}"#), "it has neither a command nor a URL"),
        (vscode(r#"{"a": {"command": "x"}, "b": {"command": "y"}}"#), "it has 2 entries, and not one server"),
        (vscode(r#"{"servers": []}"#), "its servers are not an object"),
        (
            cursor("a", r#"{"command": "x", "headersHelper": "y"}"#),
            "it has the field `headersHelper`, which bowline does not know",
        ),
        (cursor("a", r#"{"command": "x", "args": [{}]}"#), "`args` cannot be read"),
        (cursor("a", r#"{"command": "x", "url": "https://h/"}"#), "it has both a command and a URL"),
        (cursor("a", r#"{"type": "stdio"}"#), "it has no command"),
        (cursor("a", r#"{"command": "bowline", "args": ["serve", "--stdio"]}"#), "it is bowline itself"),
        (
            cursor("a", r#"{"command": "x", "cwd": "here"}"#),
            "its folder is relative to the one that Cursor is started in",
        ),
        (
            cursor("a", r#"{"url": "https://h/", "headers": {"X": "${file:~/.ssh/id_rsa}"}}"#),
            "it names a file of this machine, whose content the server would get",
        ),
    ] {
        assert_eq!(refusal(&link), why, "{}", cut(&link));
    }
}

#[test]
fn other_texts_are_no_links() {
    for text in ["https://h/", "npm:cursor", "cursor", "C:\\vscode", "windsurf://x"] {
        assert!(InstallLink::parse(text).is_none(), "{text}");
    }
}
