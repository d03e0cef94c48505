//! Tests that no secret is printed.

use bowline_config::{Source, parse_partial};

use crate::environment;

/// Neither a valid nor an invalid configuration shows a value in its `Debug` output.
#[test]
fn nothing_prints_a_secret() {
    let toml = r#"
        [servers.a]
        command = "x"
        args = ["--key", "${TOKEN}"]
        env = { KEY = "${TOKEN}", "s3cret=1" = "x", OTHER = "${X:?s3cret}" }
        [servers.b]
        url = "https://h/${TOKEN}?key=${TOKEN}"
        headers = { Authorization = "Bearer ${TOKEN}" }
        [servers.c]
        url = "nothing ${TOKEN}"
        headers = { "s3cret one" = "x", Cookie = "${BROKEN}", X-A = "${A:-${s3cret}}" }
        protocol = "s3cret"
        timeout = "s3cret"
        [servers.d]
        command = "x"
        transport = "s3cret"
        keepalive_interval = "s3cret"
        [[servers.d.hooks]]
        on = "s3cret"
        webhook = "${TOKEN}://h/"
        headers = { "s3cret one" = "x", Cookie = "${BROKEN}" }
        [[servers.d.hooks]]
        on = ["s3cret"]
        webhook = "https://me:${TOKEN}@h/"
        [servers.e]
        url = "https://h/"
        headers_command = { command = ["x", "${TOKEN}"], env = { A = "${TOKEN}" } }
        [servers.e.auth]
        grant = "enterprise"
        client_id = "me"
        client_secret = "${TOKEN}"
        authorize_params = { key = "${TOKEN}" }
        idp = { token_endpoint = "https://h/t", client_id = "x", client_secret = "${TOKEN}", id_token = { value = "${TOKEN}" } }
        [servers.f]
        url = "https://h/"
        [servers.f.auth]
        grant = "s3cret"
        client_auth = "s3cret"
        client_id = "me"
        private_key = "${TOKEN}"
        issuer = "ftp://${TOKEN}"
        resource = "${TOKEN}"
        redirect_uri = "http://h/${TOKEN}"
        scope = "\"${TOKEN}"
        dpop = "s3cret"
        assertion = "s3cret"
        [servers.g]
        url = "https://h/"
        auth = { grant = "workload", assertion = { command = ["x", "${TOKEN}"] } }
        [store]
        backend = "valkey"
        url = "rediss://:${TOKEN}@h"
        [[hooks]]
        command = "x"
        args = ["${TOKEN}"]
        env = { KEY = "${TOKEN}" }
        [[hooks]]
        webhook = "https://h/${TOKEN}?key=${TOKEN}"
        headers = { Authorization = "${TOKEN}" }
    "#;
    let json = r#"{"mcpServers": {
        "a": {"command": "${TOKEN}\u0000", "args": ["${TOKEN", "s3cret"], "env": {"s3cret=": "x"}},
        "b": {"type": "s3cret", "url": "ftp://h/${TOKEN}", "apiKey": "s3cret"},
        "c": {"url": "https://h/s3cret", "headers": {"X": "s3cret"}, "hooks": {"s3cret": "s3cret"}},
        "d": {"url": "https://h/", "keepalive_interval": "s3cret", "transport": "s3cret"}
    }}"#;
    for (path, text, expected, hooks) in [("c.toml", toml, 25, 2), ("c.json", json, 7, 0)] {
        let (config, errors) = parse_partial(&Source::new(path, text), &environment());
        let errors = errors.unwrap();
        assert_eq!(errors.problems().len(), expected, "{errors}");
        let shown = format!("{config:?} {errors:?} {errors}");
        assert!(!shown.contains("s3cret"), "{shown}");
        assert_eq!(config.hooks.len(), hooks);
    }
}
