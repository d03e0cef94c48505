//! Tests of `[views.NAME]`: what hosts of `bowline serve` see of the servers.

use bowline_config::{Config, RootFolder, Source, ToolPattern, View, json_schema, parse_partial};
use bowline_testkit::with;
use serde_json::json;

use crate::{environment, note_lines, parse_errors, parse_valid};

const SERVERS: &str = "servers.github.command = 'a'\nservers.docs.command = 'b'\n";

#[test]
fn views_are_read() {
    let text = format!(
        "{SERVERS}[views.review]\n\
         servers = [\"github\", \"docs\"]\n\
         tools = {{ github = [\"get_*\", \"list_*\"] }}\n\
         prompts = false\n\
         resources = false\n\
         [views.All_2]\n"
    );
    let config = parse_valid("c.toml", &text);
    assert_eq!(note_lines(&config.notes), "");
    let servers = ["github", "docs"].map(str::to_owned).into();
    let tools = [("github".to_owned(), ["get_*", "list_*"].map(ToolPattern::new).to_vec())].into();
    let review =
        with!(View::default(), servers: Some(servers), tools: tools, prompts: false, resources: false);
    assert_eq!(config.views, [("All_2".to_owned(), View::default()), ("review".to_owned(), review)].into());
    assert!(parse_valid("c.toml", SERVERS).views.is_empty());
}

#[test]
fn folders_of_hosts_are_read() {
    let text = format!("{SERVERS}[views.v]\nroots = ['/w/*', '/srv/x/']\n");
    let view = &parse_valid("c.toml", &text).views["v"];
    assert_eq!(view.roots, ["/w/*", "/srv/x"].map(RootFolder::new));
    assert!(view.root_closeness("/w/a/b").is_some() && view.root_closeness("/w").is_none());
    assert!(View::default().root_closeness("/w").is_none());
}

#[test]
fn mistakes_are_named_at_their_place() {
    for (view, expected) in [
        (
            "[views.v]\nroots = ['/w', '/w/../etc']",
            "c.toml:4:16: views.v.roots[1]: the folder must be an absolute path without `..`",
        ),
        (
            "[views.v]\nservers = ['docs', 'githb']",
            "c.toml:4:20: views.v.servers[1]: this file has no server of this name\n  hint: did you mean \"github\"?",
        ),
        (
            "[views.v]\ntools = { other = [] }",
            "c.toml:4:11: views.v.tools.other: this file has no server of this name\n  \
             hint: its servers are \"docs\", \"github\"",
        ),
        (
            "[views.v]\nservers = ['docs']\ntools = { github = ['x'] }",
            "c.toml:5:11: views.v.tools.github: the view does not show this server\n  hint: add \"github\" to `servers`",
        ),
        (
            "[views.'a.b']",
            "c.toml:3:8: views.\"a.b\": a view name is 1 to 64 characters of A-Z, a-z, 0-9, `_` and `-`",
        ),
        (
            "[views.v]\nprompt = false",
            "c.toml:4:1: views.v.prompt: unknown key\n  hint: did you mean `prompts`?",
        ),
        (
            "[views.v]\nservers = 'docs'",
            "c.toml:4:11: views.v.servers: must be a list of strings, not a string",
        ),
        (
            "[views.v]\ntools = ['x']",
            "c.toml:4:9: views.v.tools: must be a table of lists of strings, not a list",
        ),
        (
            "[views.v]\ntools = { docs = 'x' }",
            "c.toml:4:11: views.v.tools.docs: must be a list of strings, not a string",
        ),
        (
            "[views.v]\ntools = { docs = ['${NOPE}'] }",
            "c.toml:4:19: views.v.tools.docs[0]: environment variable `NOPE` is not set",
        ),
        ("[views]\nv = true", "c.toml:4:1: views.v: must be a table, not a boolean"),
        ("[view.v]", "c.toml:3:2: view: unknown key\n  hint: did you mean `views`?"),
    ] {
        let shown = parse_errors("c.toml", &format!("{SERVERS}{view}\n"));
        assert_eq!(shown.matches("c.toml:").count(), 1, "one complaint each: {shown}");
        assert!(shown.starts_with(expected), "{view}\n{shown}");
    }
    assert_eq!(
        parse_errors("c.toml", "views = 1"),
        "c.toml:1:1: views: must be a table of views, not a number"
    );
}

/// A view that shows less than was meant would be safe, one that shows more would not.
#[test]
fn a_view_with_a_problem_is_dropped_and_the_others_stay() {
    let text = format!("{SERVERS}[views.bad]\ntools = {{ githb = ['get_*'] }}\n[views.good]\nservers = []\n");
    let (config, errors) = parse_partial(&Source::new("c.toml", text), &environment());
    assert_eq!(config.views.keys().collect::<Vec<_>>(), ["good"]);
    assert!(!config.views["good"].shows_server("docs"), "an empty list is not a missing one");
    assert_eq!((errors.unwrap().problems().len(), config.servers.len()), (1, 2));
}

#[test]
fn a_view_can_name_a_server_that_has_a_problem() {
    let text = "[servers.a]\nurl = 'nope'\n[views.v]\nservers = ['a']\n";
    let (config, errors) = parse_partial(&Source::new("c.toml", text), &environment());
    assert_eq!(config.views["v"].servers, Some(["a".to_owned()].into()));
    assert_eq!(errors.unwrap().problems().len(), 1, "that of the server");
}

/// A project could widen a view by its name.
#[test]
fn a_project_has_no_views() {
    let parse = |path: &str, view: &str| parse_valid(path, &format!("{SERVERS}{view}"));
    let user = parse("user.toml", "[views.v]\nservers = ['docs']\n");
    let project = parse("p/bowline.toml", "[views.v]\n[views.other]\n");
    let layered = Config::layered(user.clone(), project);
    assert_eq!(layered.views, user.views);
    assert_eq!(
        note_lines(&layered.notes),
        "p/bowline.toml:1:1: views: not used: a project cannot define views\n  \
         hint: write it in your own configuration file"
    );
    assert_eq!(user.unused_in_project().len(), 1);
    assert!(parse("user.toml", "").unused_in_project().is_empty());
}

#[test]
fn the_schema_has_views() {
    let validator = jsonschema::validator_for(&json_schema()).unwrap();
    let tools = json!({ "github": ["get_*"] });
    let good = json!({ "servers": ["github"], "tools": tools, "prompts": false, "resources": true });
    for (view, valid) in [
        (json!({ "v": good }), true),
        (json!({ "v": {} }), true),
        (json!({ "v": { "tools": ["x"] } }), false),
        (json!({ "v": { "other": 1 } }), false),
        (json!({ "a.b": {} }), false),
    ] {
        assert_eq!(validator.is_valid(&json!({ "views": view })), valid, "{view}");
    }
}
