//! Tests that the JSON schema accepts what the parser accepts, and explains every key.

use bowline_config::{Source, json_schema, parse_partial};
use serde_json::{Value, json};

use crate::environment;

/// Asserts that the schema and the parser agree about an entry.
#[track_caller]
fn assert_agreement(entry: &Value, valid: bool) {
    let document = json!({ "servers": { "a": entry } });
    let validator = jsonschema::validator_for(&json_schema()).unwrap();
    assert_eq!(validator.is_valid(&document), valid, "schema: {document}");
    let text = format!("servers.a = {}", inline_toml(entry));
    let (_, errors) = parse_partial(&Source::new("c.toml", text.clone()), &environment());
    assert_eq!(errors.is_none(), valid, "parser: {text} {errors:?}");
}

/// Formats JSON as an inline TOML value.
pub(crate) fn inline_toml(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{key} = {}", inline_toml(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline_toml).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

#[test]
fn the_schema_accepts_what_the_parser_accepts() {
    for entry in [
        json!({ "command": "x" }),
        json!({ "command": "x", "args": ["a"], "env": { "A": "b" }, "cwd": "/" }),
        json!({ "url": "http://h/", "headers": { "A": "b" }, "ca_file": "c" }),
        json!({ "url": "http://h/", "client_cert": "c", "client_key": "k" }),
        json!({ "command": "x", "timeout": 1, "max_timeout": "2m", "connect_timeout": 0.5 }),
        json!({ "command": "x", "probe_timeout": "500ms", "enabled": false, "protocol": "modern" }),
        json!({ "command": "x", "keepalive_interval": 0, "reconnect_wait": 0 }),
        json!({ "command": "x", "keepalive_interval": "20s", "reconnect_wait": 0.5 }),
        json!({ "command": "x", "transport": "stdio" }),
        json!({ "url": "http://h/", "transport": "http" }),
        json!({ "url": "http://h/", "type": "streamable-http" }),
        json!({ "url": "http://h/", "type": "sse", "transport": "sse" }),
        json!({ "url": "http://h/", "auth": false, "headers_command": "x" }),
        json!({ "url": "http://h/", "headers_command": ["x", "y"] }),
        json!({ "url": "http://h/", "headers_command": { "command": "x", "args": ["y"], "timeout": 1, "ttl": "1h" } }),
        json!({ "url": "http://h/", "auth": {} }),
        json!({ "url": "http://h/", "auth": {
            "client_id": "x", "client_secret": "y", "client_auth": "client_secret_basic", "scope": "a b",
            "resource": false, "issuer": "https://h", "account": "me", "redirect_port": 1, "dpop": "auto",
            "authorize_params": { "prompt": "login" }, "client_metadata_url": "https://h/c",
        } }),
        json!({ "url": "http://h/", "auth": { "grant": "device", "scope": ["a"], "resource": "https://h", "dpop": true } }),
        json!({ "url": "http://h/", "auth": { "grant": "workload", "assertion": { "command": ["x"], "cwd": "/" } } }),
        json!({ "url": "http://h/", "auth": { "grant": "enterprise", "idp": {
            "token_endpoint": "https://h/t", "client_id": "x", "id_token": { "file": "x" },
        } } }),
        json!({ "command": "x", "hooks": [] }),
        json!({ "command": "x", "hooks": [
            { "command": "x", "args": ["a"], "env": { "A": "b" }, "cwd": "/", "timeout": "5s" },
            { "webhook": "http://h/", "headers": { "A": "b" }, "on": "failed" },
            { "command": "x", "on": ["session_lost", "recovered"] },
        ] }),
    ] {
        assert_agreement(&entry, true);
    }
}

#[test]
fn the_schema_refuses_what_the_parser_refuses() {
    for entry in [
        json!({}),
        json!({ "command": "x", "url": "http://h/" }),
        json!({ "command": "x", "headers": {} }),
        json!({ "url": "http://h/", "args": [] }),
        json!({ "url": "http://h/", "client_cert": "c" }),
        json!({ "command": "x", "comand": "x" }),
        json!({ "command": 1 }),
        json!({ "command": "x", "env": { "A": 1 } }),
        json!({ "command": "x", "timeout": 0 }),
        json!({ "command": "x", "timeout": "soon" }),
        json!({ "command": "x", "timeout": 86401 }),
        json!({ "command": "x", "protocol": "old" }),
        json!({ "command": "x", "enabled": "no" }),
        json!({ "command": "x", "keepalive_interval": -1 }),
        json!({ "command": "x", "keepalive_interval": "20 parsecs" }),
        json!({ "command": "x", "reconnect_wait": 86401 }),
        json!({ "command": "x", "message_limit_mib": 0 }),
        json!({ "command": "x", "reconnect_wait": true }),
        json!({ "command": "x", "transport": "ws" }),
        json!({ "command": "x", "transport": "http" }),
        json!({ "url": "http://h/", "type": "stdio" }),
        json!({ "command": "x", "auth": false }),
        json!({ "command": "x", "headers_command": "x" }),
        json!({ "url": "http://h/", "auth": true }),
        json!({ "url": "http://h/", "auth": { "client_secret": "x" } }),
        json!({ "url": "http://h/", "auth": { "client_id": "x", "client_auth": "private_key_jwt" } }),
        json!({ "url": "http://h/", "auth": { "client_id": "x", "client_auth": "client_secret_post" } }),
        json!({ "url": "http://h/", "auth": { "client_id": "x", "key_id": "y" } }),
        json!({ "url": "http://h/", "auth": { "client_id": " " } }),
        json!({ "url": "http://h/", "auth": { "grant": "enterprise" } }),
        json!({ "url": "http://h/", "auth": { "grant": "workload" } }),
        json!({ "url": "http://h/", "auth": { "grant": "workload", "assertion": { "file": "x", "value": "y" } } }),
        json!({ "url": "http://h/", "auth": { "grant": "workload", "assertion": { "file": "x", "cwd": "y" } } }),
        json!({ "url": "http://h/", "auth": { "grant": "enterprise", "idp": { "client_id": "x" } } }),
        json!({ "url": "http://h/", "auth": { "grant": "client-credentials" } }),
        json!({ "url": "http://h/", "auth": { "redirect_port": 0 } }),
        json!({ "url": "http://h/", "auth": { "redirect_port": 1, "redirect_uri": "http://localhost/" } }),
        json!({ "url": "http://h/", "auth": { "resource": true } }),
        json!({ "url": "http://h/", "auth": { "dpop": "no" } }),
        json!({ "url": "http://h/", "auth": { "algorithm": "HS256", "client_id": "x", "private_key": "y" } }),
        json!({ "url": "http://h/", "auth": { "scopes": "x" } }),
        json!({ "url": "http://h/", "headers_command": [] }),
        json!({ "url": "http://h/", "headers_command": { "ttl": 1 } }),
        json!({ "url": "http://h/", "headers_command": { "command": "x", "ttl": 0 } }),
        json!({ "command": "x", "hooks": {} }),
        json!({ "command": "x", "hooks": ["x"] }),
        json!({ "command": "x", "hooks": [{}] }),
        json!({ "command": "x", "hooks": [{ "command": "x", "webhook": "http://h/" }] }),
        json!({ "command": "x", "hooks": [{ "command": "x", "headers": {} }] }),
        json!({ "command": "x", "hooks": [{ "webhook": "http://h/", "args": [] }] }),
        json!({ "command": "x", "hooks": [{ "command": "x", "on": [] }] }),
        json!({ "command": "x", "hooks": [{ "command": "x", "on": "lost" }] }),
        json!({ "command": "x", "hooks": [{ "command": "x", "timeout": 0 }] }),
        json!({ "command": "x", "hooks": [{ "command": "x", "event": "failed" }] }),
    ] {
        assert_agreement(&entry, false);
    }
}

#[test]
fn every_key_is_explained_and_defaults_are_given() {
    let schema = json_schema();
    let server = &schema["properties"]["servers"]["additionalProperties"]["properties"];
    let server = server.as_object().unwrap();
    for (key, schema) in server {
        assert!(schema["description"].is_string(), "{key}");
    }
    let default = |key: &str| server[key]["default"].clone();
    assert_eq!(default("timeout"), 60);
    assert_eq!(default("max_timeout"), 600);
    assert_eq!(default("connect_timeout"), 30);
    assert_eq!(default("probe_timeout"), 3);
    assert_eq!(default("enabled"), true);
    assert_eq!(default("protocol"), "auto");
    assert_eq!(default("keepalive_interval"), 180);
    assert_eq!(default("reconnect_wait"), 10);
    assert_eq!(default("message_limit_mib"), 64);
}

/// The schema and the parser agree about `[auth]` and `[store]`.
#[test]
fn the_schema_agrees_about_logins() {
    let validator = jsonschema::validator_for(&json_schema()).unwrap();
    for (document, valid) in [
        (json!({ "auth": {} }), true),
        (json!({ "auth": { "client_name": "x", "client_metadata_url": "https://h/c" } }), true),
        (json!({ "auth": { "client_name": "" } }), false),
        (json!({ "auth": false }), false),
        (json!({ "auth": { "grant": "off" } }), false),
        (json!({ "store": {} }), true),
        (json!({ "store": { "path": "x", "key": "file" } }), true),
        (json!({ "store": { "backend": "valkey", "url": "redis://h" } }), true),
        (json!({ "store": { "backend": "valkey" } }), false),
        (json!({ "store": { "backend": "valkey", "url": "redis://h", "path": "x" } }), false),
        (json!({ "store": { "url": "redis://h" } }), false),
        (json!({ "store": { "backend": "redis", "url": "redis://h" } }), false),
        (json!({ "store": { "key": "none" } }), false),
        (json!({ "store": { "path": "" } }), false),
    ] {
        assert_eq!(validator.is_valid(&document), valid, "schema: {document}");
        let text: String = document
            .as_object()
            .unwrap()
            .iter()
            .fold(String::new(), |text, (key, value)| format!("{text}{key} = {}\n", inline_toml(value)));
        let (_, errors) = parse_partial(&Source::new("c.toml", text.clone()), &environment());
        assert_eq!(errors.is_none(), valid, "parser: {text} {errors:?}");
    }
}

#[test]
fn every_key_about_logins_is_explained() {
    let schema = json_schema();
    let top = &schema["properties"];
    let server = &top["servers"]["additionalProperties"]["properties"];
    let auth = &server["auth"]["anyOf"][1];
    let command = &server["headers_command"]["anyOf"][1];
    let (idp, supply) = (&auth["properties"]["idp"], &auth["properties"]["assertion"]);
    for table in [auth, command, idp, supply, &top["auth"], &top["store"]] {
        for (key, schema) in table["properties"].as_object().unwrap() {
            assert!(schema["description"].is_string(), "{key}");
        }
    }
    assert_eq!(command["properties"]["timeout"]["default"], 10);
    assert_eq!(command["properties"]["ttl"]["default"], 300);
}

#[test]
fn a_hook_is_the_same_everywhere() {
    let schema = json_schema();
    let common = &schema["properties"]["hooks"]["items"];
    let own = &schema["properties"]["servers"]["additionalProperties"]["properties"]["hooks"]["items"];
    assert_eq!(common, own);
    let keys = common["properties"].as_object().unwrap();
    for (key, schema) in keys {
        assert!(schema["description"].is_string(), "{key}");
    }
    assert_eq!(keys["timeout"]["default"], 10);
    assert!(keys.contains_key("on") && !keys.contains_key("action_garbled"), "{keys:?}");
}
