//! Tests of authentication settings in the dialects of hosts.

use bowline_config::{
    AuthSettings, ClientSettings, Grant, HeadersCommand, Program, Redirect, ResourceIndicator, Secret,
};
use bowline_testkit::with;

use crate::auth::http;
use crate::{note_lines, parse_errors, parse_valid};

/// Parses one entry of a host's file and returns it with the notes.
#[track_caller]
fn entry(fields: &str) -> (bowline_config::Http, String) {
    let text = format!(r#"{{"mcpServers": {{"a": {{"url": "https://h/mcp", {fields}}}}}}}"#);
    let config = parse_valid("mcp.json", &text);
    (http(&config, "a").clone(), note_lines(&config.notes))
}

fn client(id: &str, secret: Option<&str>) -> ClientSettings {
    with!(ClientSettings::new(id), secret: secret.map(Secret::new))
}

#[test]
fn logins_of_several_hosts() {
    let scope = |scopes: &[&str]| Some(scopes.iter().map(ToString::to_string).collect());
    for (fields, expected) in [
        (
            r#""oauth": {"clientId": "me", "callbackPort": 8080, "scopes": "a b"}"#,
            with!(AuthSettings::default(), client: Some(client("me", None)), redirect: Redirect::Port(8080), scope: scope(&["a", "b"])),
        ),
        (
            r#""type": "remote", "oauth": {"clientId": "me", "clientSecret": "${TOKEN}", "scope": "a", "redirectUri": "http://127.0.0.1:1/x"}"#,
            with!(AuthSettings::default(), client: Some(client("me", Some("s3cret"))), scope: scope(&["a"]), redirect: Redirect::Uri("http://127.0.0.1:1/x".parse().unwrap())),
        ),
        (
            r#""oauth": {"client_id": "me", "callback_port": 9, "client_secret": null}"#,
            with!(AuthSettings::default(), client: Some(client("me", None)), redirect: Redirect::Port(9)),
        ),
        (
            r#""auth": {"CLIENT_ID": "me", "CLIENT_SECRET": "x", "scopes": ["a", "b"]}"#,
            with!(AuthSettings::default(), client: Some(client("me", Some("x"))), scope: scope(&["a", "b"])),
        ),
        (
            r#""auth": "oauth", "scopes": ["a"], "oauth_resource": "https://h""#,
            with!(AuthSettings::default(), scope: scope(&["a"]), resource: ResourceIndicator::Fixed("https://h".to_owned())),
        ),
        (
            r#""oauth": {"enabled": true, "scopes": ["a"]}, "scopes": ["b"], "authProviderType": "dynamic_discovery""#,
            with!(AuthSettings::default(), scope: scope(&["a"])),
        ),
        (r#""oauth": false"#, with!(AuthSettings::default(), grant: Grant::Off)),
        (r#""oauth": {"enabled": false}"#, with!(AuthSettings::default(), grant: Grant::Off)),
        (r#""oauth": true"#, AuthSettings::default()),
        (r#""auth": null"#, AuthSettings::default()),
        (r#""auth": {"grant": "device"}"#, with!(AuthSettings::default(), grant: Grant::Device)),
    ] {
        let (http, notes) = entry(fields);
        assert_eq!(http.auth, expected, "{fields}");
        // No host names the issuer that a secret is for.
        let secret = expected.client.is_some_and(|client| client.secret.is_some());
        assert_eq!(notes.contains("hint: write `issuer"), secret, "{fields}\n{notes}");
        assert!(secret || notes.is_empty(), "{fields}\n{notes}");
    }
}

#[test]
fn what_only_a_host_understands_is_noted() {
    let at = "mcp.json:1:";
    for (fields, expected) in [
        (r#""auth": "chatgpt""#, "mcpServers.a.auth: not used"),
        (
            r#""oauth": {"authServerMetadataUrl": "https://s3cret"}"#,
            "mcpServers.a.oauth.authServerMetadataUrl: not used",
        ),
        (r#""oauth": {"tokenParamName": "t"}"#, "mcpServers.a.oauth.tokenParamName: not used"),
        (
            r#""authProviderType": "google_credentials""#,
            "mcpServers.a.authProviderType: not used: bowline does not create such credentials",
        ),
        (r#""targetAudience": "x""#, "mcpServers.a.targetAudience: not used"),
    ] {
        let (http, notes) = entry(fields);
        assert_eq!(http.auth, AuthSettings::default());
        assert!(notes.starts_with(at) && notes.contains(expected), "{fields}\n{notes}");
        assert!(!notes.contains("s3cret"), "{notes}");
    }
}

#[test]
fn headers_from_variables() {
    let (http, notes) = entry(
        r#""headers": {"X-A": "1"}, "bearer_token_env_var": "TOKEN", "env_http_headers": {"X-B": "TOKEN"}"#,
    );
    let expected = [("X-A", "1"), ("Authorization", "Bearer s3cret"), ("X-B", "s3cret")];
    assert_eq!(http.headers, expected.map(|(name, value)| (name.to_owned(), Secret::new(value))));
    assert_eq!(notes, "");
}

/// The host runs its command through a shell; a plain line needs none, and any other is passed on
/// whole.
#[test]
fn a_command_line_for_headers() {
    let told = |mut program: Program| {
        for (name, value) in
            [("CLAUDE_CODE_MCP_SERVER_NAME", "a"), ("CLAUDE_CODE_MCP_SERVER_URL", "https://h/mcp")]
        {
            program.env.insert(name.to_owned(), Secret::new(value));
        }
        Some(HeadersCommand::new(program))
    };
    let (http, notes) = entry(r#""headersHelper": "/opt/print-headers --for 'a b'""#);
    assert_eq!(http.headers_command, told(Program::new("/opt/print-headers", ["--for", "a b"])));
    assert_eq!(notes, "");

    let (http, notes) = entry(r#""headersHelper": "~/bin/x \"${HOME}\" | jq .""#);
    assert_eq!(http.headers_command, told(Program::new("sh", ["-c", "~/bin/x \"${HOME}\" | jq ."])));
    assert!(notes.contains("mcpServers.a.headersHelper: is run by `sh`"), "{notes}");

    let (http, notes) = entry(r#""headers_command": ["x", "${TOKEN}"]"#);
    assert_eq!(http.headers_command, Some(HeadersCommand::new(Program::new("x", ["s3cret"]))));
    assert_eq!(notes, "");
}

#[test]
fn mistakes_in_a_file_of_a_host() {
    let text = r#"{"mcpServers": {
    "a": {"url": "https://h/", "oauth": {"clientId": "x", "client_id": "y"}},
    "b": {"url": "https://h/", "oauth": {}, "auth": {}},
    "c": {"url": "https://h/", "bearer_token_env_var": "s3cret-s3cret"},
    "d": {"url": "https://h/", "env_http_headers": {"X": "s3cret s3cret"}},
    "e": {"command": "x", "oauth": {"clientId": "x"}},
    "f": {"url": "https://h/", "oauth": {"clientSecret": "s3cret"}},
    "g": {"url": "https://h/", "bearer_token_env_var": "NOPE"},
    "h": {"url": "https://h/", "oauth": 1},
    "i": {"url": "https://h/", "headersHelper": "x", "headersCommand": "x"},
    "j": {"url": "https://h/", "headers": {"Authorization": "x"}, "bearer_token_env_var": "TOKEN"}
}}"#;
    let expected = r"mcp.json:2:72: mcpServers.a.oauth.client_id: gives `client_id` a second time
mcp.json:3:53: mcpServers.b.auth: configures the login a second time
  hint: keep one of `auth` and `oauth`
mcp.json:4:56: mcpServers.c.bearer_token_env_var: must be the name of an environment variable, made of letters, digits and `_`
  hint: write the name of the variable, not the key itself
mcp.json:5:58: mcpServers.d.env_http_headers.X: must be the name of an environment variable, made of letters, digits and `_`
  hint: write the name of the variable, not the key itself
mcp.json:6:36: mcpServers.e.oauth: belongs to a server with `url`, and this one has a `command`
mcp.json:7:58: mcpServers.f.oauth.clientSecret: requires `client_id`
  hint: set `client_id` to the id of the registered client
mcp.json:8:56: mcpServers.g.bearer_token_env_var: environment variable `NOPE` is not set
  hint: set it, or give a default: `${NOPE:-value}`
mcp.json:9:41: mcpServers.h.oauth: must be false or an object, not a number
mcp.json:10:72: mcpServers.i.headersCommand: gives `headers_command` a second time
mcp.json:11:91: mcpServers.j.bearer_token_env_var: this header is given twice";
    assert_eq!(parse_errors("mcp.json", text), expected);
}
