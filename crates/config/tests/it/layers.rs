//! Tests of partial parsing and of layering a project over a user's configuration.

use bowline_config::{Config, ProblemKind, Server, Source, parse_partial};

use crate::{environment, note_lines, parse_valid};

fn names(config: &Config) -> Vec<&str> {
    config.servers.keys().map(String::as_str).collect()
}

#[test]
fn broken_entry_keeps_the_other_servers() {
    let text = "[servers.a]\ncommand = 'x'\n[servers.b]\ncommand = '${NOPE}'\n[servers.c]\nurl = 1\n";
    let (config, errors) = parse_partial(&Source::new("c.toml", text), &environment());
    assert_eq!(names(&config), ["a"]);
    assert_eq!(config.left_out.into_iter().collect::<Vec<_>>(), ["b", "c"]);
    let found: Vec<_> =
        errors.into_iter().flatten().map(|problem| (problem.server, problem.kind, problem.line)).collect();
    assert_eq!(
        found,
        [
            (Some("b".to_owned()), ProblemKind::Unresolved, 4),
            (Some("c".to_owned()), ProblemKind::WrongType, 6),
        ]
    );
}

#[test]
fn duplicate_name_defines_no_server() {
    let text = r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}, "b": 1}}"#;
    let (config, errors) = parse_partial(&Source::new("c.json", text), &environment());
    assert!(config.servers.is_empty(), "{config:?}");
    assert_eq!(config.left_out.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(errors.unwrap().problems().len(), 2);
}

#[test]
fn a_disabled_server_needs_no_credentials() {
    let config = parse_valid(
        "c.toml",
        "[servers.a]\nenabled = false\ncommand = 'x'\nenv = { KEY = '${NOPE}' }\n[servers.b]\nenabled = false\ncommand = 'x'",
    );
    assert_eq!(names(&config), ["b"]);
    assert_eq!(config.left_out.iter().collect::<Vec<_>>(), ["a"]);
    assert_eq!(
        note_lines(&config.notes),
        "c.toml:4:15: servers.a.env.KEY: environment variable `NOPE` is not set\n  \
         hint: set it, or give a default: `${NOPE:-value}`"
    );
}

#[test]
fn project_is_layered_over_a_user() {
    let user =
        parse_valid("user.toml", "[servers.a]\ncommand = 'u'\nenv = { A = 'u' }\n[servers.b]\ncommand = 'u'");
    let project = parse_valid(
        "project.json",
        r#"{"mcpServers": {"a": {"command": "p"}, "b": {"command": "${NOPE}", "disabled": true}}}"#,
    );
    let layered = Config::layered(user, project);
    assert_eq!(layered.servers.into_values().collect::<Vec<_>>(), [Server::stdio("a", "p").build().unwrap()]);
    assert_eq!(layered.left_out.into_iter().collect::<Vec<_>>(), ["b"]);
    assert_eq!(layered.sources, ["user.toml", "project.json"].map(std::path::PathBuf::from));
}
