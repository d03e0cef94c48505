//! Tests of `[serve.oauth]`: whose tokens `bowline serve` accepts.

use bowline_config::{Config, ServeSettings, Source, json_schema, parse_partial};
use serde_json::json;

use crate::{environment, note_lines, parse_errors, parse_valid};

const GOOD: &str = "[serve.oauth]\nresource = 'https://h/mcp'\nissuers = ['https://i']\n";

#[test]
fn a_resource_is_read() {
    let text = "[views.research]\n[views.ops]\n[serve.oauth]\n\
         resource = 'https://gateway.example.com/mcp'\n\
         issuers = ['https://login.example.com', 'http://127.0.0.1:8080/realms/a']\n\
         scopes = ['mcp']\n\
         [serve.oauth.views]\n'mcp:research' = 'research'\n'api://x/ops' = 'ops'\n";
    let config = parse_valid("c.toml", text);
    assert_eq!(note_lines(&config.notes), "");
    let oauth = config.serve.oauth.unwrap();
    assert_eq!(oauth.resource, "https://gateway.example.com/mcp");
    assert_eq!(oauth.issuers, ["https://login.example.com", "http://127.0.0.1:8080/realms/a"]);
    assert_eq!(oauth.scopes, ["mcp"]);
    let views = [("mcp:research", "research"), ("api://x/ops", "ops")];
    assert_eq!(oauth.view_scopes, views.map(|(scope, view)| (scope.to_owned(), view.to_owned())));

    let oauth = parse_valid("c.toml", GOOD).serve.oauth.unwrap();
    assert_eq!((oauth.scopes.len(), oauth.view_scopes.len()), (0, 0));
    assert_eq!(parse_valid("c.toml", "[serve]").serve, ServeSettings::default());
    let root = parse_valid("c.toml", &GOOD.replace("/mcp", "")).serve.oauth.unwrap();
    assert_eq!(root.resource, "https://h");
}

#[test]
fn mistakes_are_named_at_their_place() {
    let resource =
        "must be a URL as hosts write it: https, or on this machine, without query, fragment and credentials";
    let scope = "a scope is made of visible ASCII characters without quotation marks and backslashes";
    let offline = "is not a scope of a resource: hosts request it from the issuer themselves";
    let of_resource = |url: &str| format!("[serve.oauth]\nresource = '{url}'\nissuers = ['https://i']\n");
    let at_resource = format!("c.toml:2:12: serve.oauth.resource: {resource}");
    let mut rows = Vec::new();
    for url in [
        "h/mcp",
        "ftp://h/mcp",
        "http://h/mcp",
        "https://h/mcp?x=1",
        "https://h/mcp#x",
        "https://u@h/mcp",
        "https://H/mcp",
        "https://h/a b",
        "https:\\\\h\\mcp",
    ] {
        rows.push((of_resource(url), at_resource.clone()));
    }
    for (text, expected) in [
        ("[serve.oauth]\nissuers = ['https://i']", "c.toml:1:8: serve.oauth: needs `resource`"),
        ("[serve.oauth]\nresource = 'https://h/mcp'", "c.toml:1:8: serve.oauth: needs `issuers`"),
        (
            "[serve.oauth]\nresource = 'https://h/mcp'\nissuers = []",
            "c.toml:1:8: serve.oauth: needs `issuers`",
        ),
        (
            "[serve.oauth]\nresource = 'https://h/mcp'\nissuers = ['http://i']",
            "c.toml:3:12: serve.oauth.issuers[0]: must be an https URL, or one on this machine",
        ),
        (
            "[serve.oauth]\naudience = 1",
            "c.toml:2:1: serve.oauth.audience: unknown key\n  hint: did you mean `resource`?",
        ),
        ("[serve]\noauth = true", "c.toml:2:1: serve.oauth: must be a table, not a boolean"),
        ("serve = true", "c.toml:1:1: serve: must be a table, not a boolean"),
    ] {
        rows.push((text.to_owned(), expected.to_owned()));
    }
    for (more, expected) in [
        ("scopes = ['a\"']", format!("c.toml:4:11: serve.oauth.scopes[0]: {scope}")),
        ("scopes = ['offline_access']", format!("c.toml:4:10: serve.oauth.scopes: {offline}")),
        ("views = { 'a b' = 'v' }", format!("serve.oauth.views.\"a b\": {scope}")),
        ("views = { '' = 'v' }", format!("serve.oauth.views.\"\": {scope}")),
        ("views = { offline_access = 'v' }", format!("serve.oauth.views.offline_access: {offline}")),
        (
            "views = { a = 'w' }",
            "c.toml:4:15: serve.oauth.views.a: this file has no view of this name".to_owned(),
        ),
        ("views = {}", "c.toml:4:9: serve.oauth.views: names no scope".to_owned()),
        ("views = ['v']", "c.toml:4:9: serve.oauth.views: must be a table of strings, not a list".to_owned()),
    ] {
        rows.push((format!("{GOOD}{more}\n[views.v]\n"), expected));
    }
    for (text, expected) in rows {
        let shown = parse_errors("c.toml", &text);
        assert!(shown.contains(&expected), "{text}\n{shown}\nexpected:\n{expected}");
        let (config, _) = parse_partial(&Source::new("c.toml", text.clone()), &environment());
        assert_eq!(config.serve, ServeSettings::default(), "nothing of it is used: {text}");
    }
}

#[test]
fn a_view_with_a_problem_is_not_missing() {
    let text = format!("[views.v]\nservers = ['none']\n{GOOD}views = {{ a = 'v' }}\n");
    let (config, errors) = parse_partial(&Source::new("c.toml", text), &environment());
    assert_eq!(errors.unwrap().problems().len(), 1, "that of the view");
    assert_eq!(config.serve.oauth.unwrap().view_scopes, [("a".to_owned(), "v".to_owned())]);
}

/// A project could let others in.
#[test]
fn a_project_does_not_say_who_is_served() {
    let (user, project) = (parse_valid("user.toml", ""), parse_valid("p/bowline.toml", GOOD));
    let layered = Config::layered(user, project);
    assert_eq!(layered.serve, ServeSettings::default());
    assert_eq!(
        note_lines(&layered.notes),
        "p/bowline.toml:1:1: serve: not used: a project cannot configure `bowline serve`\n  \
         hint: write it in your own configuration file"
    );
}

#[test]
fn the_schema_has_the_table() {
    let validator = jsonschema::validator_for(&json_schema()).unwrap();
    let good = json!({
        "resource": "https://h/mcp", "issuers": ["https://i"], "scopes": ["mcp"], "views": { "a": "v" },
    });
    for (oauth, valid) in [
        (good, true),
        (json!({ "resource": "https://h/mcp" }), false),
        (json!({ "issuers": ["https://i"] }), false),
        (json!({ "resource": "https://h/mcp", "issuers": ["https://i"], "other": 1 }), false),
    ] {
        assert_eq!(validator.is_valid(&json!({ "serve": { "oauth": oauth } })), valid, "{oauth}");
    }
}
