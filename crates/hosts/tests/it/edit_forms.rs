//! Other ways to write a file: each is changed exactly, or refused.

use bowline_hosts::{EditError, Host, HostDocument};

use crate::edit_bytes::{command, serve_command};

/// The file with the entry, or `None` if that is refused.
fn insert(host: Host, before: &str) -> Option<String> {
    let added = HostDocument::parse(host, before).unwrap().insert("bowline", &serve_command());
    match added {
        Ok(added) => {
            let removed = added.document.remove_inserted("bowline", &added.inserted).unwrap();
            assert_eq!(removed.text(), before);
            Some(added.document.text().to_owned())
        }
        Err(EditError::Unsupported(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn json_on_one_line_stays_on_one_line() {
    let short = r#"{"command":"bowline","args":["serve","--stdio"]}"#;
    let long = r#"{ "command": "bowline", "args": ["serve", "--stdio"] }"#;
    for (before, after) in [
        (r#"{"a":1}"#, format!(r#"{{"mcpServers":{{"bowline":{short}}},"a":1}}"#)),
        (r#"{"a": 1}"#, format!(r#"{{"mcpServers": {{ "bowline": {long} }}, "a": 1}}"#)),
        (r#"{ "a": 1 }"#, format!(r#"{{ "mcpServers": {{ "bowline": {long} }}, "a": 1 }}"#)),
        (r#"{"mcpServers":{}}"#, format!(r#"{{"mcpServers":{{"bowline":{short}}}}}"#)),
        (
            r#"{"mcpServers": { /* none */ }}"#,
            format!(r#"{{"mcpServers": {{"bowline": {long} /* none */ }}}}"#),
        ),
    ] {
        assert_eq!(insert(Host::Cursor, before).unwrap(), after);
    }
}

#[test]
fn json_without_a_place_for_servers_is_refused() {
    for text in [
        r#"{"mcpServers": null}"#,
        r#"{"mcpServers": []}"#,
        r#"{"mcpServers": {}, "mcpServers": {}}"#,
        r#"{"mcpServers": {"bowline": {}}}"#,
    ] {
        assert_eq!(insert(Host::Cursor, text), None, "{text}");
    }
    assert!(matches!(HostDocument::parse(Host::Cursor, "[]"), Err(EditError::Unsupported(_))));
}

#[test]
fn the_last_json_entry_is_removed_with_the_comma_before_it() {
    let text = "{\n  \"mcpServers\": {\n    \"a\": {\"url\": \"u\"}, // stays\n    \"bowline\": {}\n  }\n}\n";
    let removed = HostDocument::parse(Host::Cursor, text).unwrap().remove("bowline").unwrap();
    assert_eq!(removed.text(), "{\n  \"mcpServers\": {\n    \"a\": {\"url\": \"u\"} // stays\n  }\n}\n");
    let text = "{\"mcpServers\": {\"bowline\": {}, /* b */ \"b\": {}}}";
    let removed = HostDocument::parse(Host::Cursor, text).unwrap().remove("bowline").unwrap();
    assert_eq!(removed.text(), "{\"mcpServers\": {/* b */ \"b\": {}}}");
}

#[test]
fn toml_that_cannot_be_extended_is_refused() {
    for text in [
        "mcp_servers = { a = { command = \"x\" } }\n",
        "mcp_servers = 1\n",
        "[[mcp_servers]]\nname = \"a\"\n",
        "[mcp_servers.bowline]\ncommand = \"x\"\n",
    ] {
        assert_eq!(insert(Host::Codex, text), None, "{text}");
    }
    let dotted = "mcp_servers.a.command = \"x\"\n";
    let unended = "[mcp_servers]\na = { command = \"x\" }";
    let added = "[mcp_servers.bowline]\ncommand = \"bowline\"\nargs = [\"serve\", \"--stdio\"]\n";
    assert_eq!(insert(Host::Codex, unended).unwrap(), format!("{unended}\n\n{added}"));
    assert_eq!(insert(Host::Codex, dotted).unwrap(), format!("{dotted}\n{added}"));
}

#[test]
fn a_toml_entry_is_removed_with_its_tables() {
    let text = "# a\n[mcp_servers.a]\nurl = \"u\" # x\n\n[mcp_servers.bowline]\ncommand = \"bowline\" # y\n[mcp_servers.bowline.env]\nA = \"b\"\n\n# c\n[tui]\n";
    let removed = HostDocument::parse(Host::Codex, text).unwrap().remove("bowline").unwrap();
    assert_eq!(removed.text(), "# a\n[mcp_servers.a]\nurl = \"u\" # x\n\n# c\n[tui]\n");
    let inline =
        "[mcp_servers]\na = { url = \"u\" }\nbowline = { command = \"x\" } # ours\nb = { url = \"u\" }\n";
    let removed = HostDocument::parse(Host::Codex, inline).unwrap().remove("bowline").unwrap();
    assert_eq!(removed.text(), "[mcp_servers]\na = { url = \"u\" }\nb = { url = \"u\" }\n");
    // Two entries on one line cannot be told apart by lines.
    let crowded = "mcp_servers = { a = { url = \"u\" }, bowline = { command = \"x\" } }\n";
    assert!(HostDocument::parse(Host::Codex, crowded).unwrap().remove("bowline").is_err());
}

#[test]
fn yaml_has_many_forms() {
    let block = "  bowline:\n    command: bowline\n    args: [serve, \"--stdio\"]\n";
    let flow = "bowline: {command: bowline, args: [serve, \"--stdio\"]}";
    for (before, after) in [
        ("mcp_servers:\n", format!("mcp_servers:\n{block}")),
        ("mcp_servers:", format!("mcp_servers:\n{block}")),
        ("a: 1", format!("a: 1\n\nmcp_servers:\n{block}")),
        ("# only this\n", format!("# only this\n\nmcp_servers:\n{block}")),
        ("mcp_servers: {}\na: 1\n", format!("mcp_servers: {{{flow}}}\na: 1\n")),
        ("mcp_servers: {b: {url: u}}\n", format!("mcp_servers: {{{flow}, b: {{url: u}}}}\n")),
        ("mcp_servers: # none\na: 1\n", format!("mcp_servers: # none\n{block}a: 1\n")),
        ("---\nmcp_servers:\n\n  # b\n  b: {url: u}\n", {
            format!("---\nmcp_servers:\n{block}\n  # b\n  b: {{url: u}}\n")
        }),
    ] {
        assert_eq!(insert(Host::Hermes, before).unwrap(), after);
    }
}

#[test]
fn yaml_that_lines_do_not_tell_apart_is_refused() {
    for text in [
        "mcp_servers: null\n",
        "mcp_servers: []\n",
        "a: 1\n...\n",
        "  mcp_servers:\n    a: {url: u}\n  b: 1\n",
        "\"mcp_servers\":\n  a: {url: u}\n",
        "mcp_servers:\n  bowline: {}\n",
    ] {
        assert_eq!(insert(Host::Hermes, text), None, "{text}");
    }
}

#[test]
fn a_yaml_entry_is_removed_from_between_others() {
    let text = "mcp_servers:\n  a: {url: u}\n  'bowline':\n    command: bowline\n    # note\n    args:\n    - serve\n\n  # b\n  b: {url: u}\nc: 1\n";
    let removed = HostDocument::parse(Host::Hermes, text).unwrap().remove("bowline").unwrap();
    assert_eq!(removed.text(), "mcp_servers:\n  a: {url: u}\n\n  # b\n  b: {url: u}\nc: 1\n");
    let flow = HostDocument::parse(Host::Hermes, "mcp_servers: {bowline: {command: x}}\n").unwrap();
    assert!(flow.remove("bowline").is_err());
}

#[test]
fn texts_are_quoted_for_each_format() {
    let odd = command(&["connect", "a \"b\"\\", "yes", "é: #", "--config", "/a b/c.toml"]);
    for (host, file) in [(Host::Cursor, "{}"), (Host::Codex, ""), (Host::Goose, ""), (Host::Hermes, "a: 1\n")]
    {
        let document = HostDocument::parse(host, file).unwrap();
        let added = document.insert("yes", &odd).unwrap().document;
        assert!(added.has_command("yes", &odd), "{}", added.text());
        assert!(!added.has_command("yes", &serve_command()));
    }
}

#[test]
fn an_entry_that_was_removed_is_put_back_in_the_same_words() {
    for (host, text, name) in [
        (Host::ClaudeCode, include_str!("edit_fixtures/claude-code.json"), "github"),
        (Host::ClaudeDesktop, include_str!("edit_fixtures/claude-desktop.json"), "files"),
        (Host::Codex, include_str!("edit_fixtures/codex.toml"), "context7"),
        (Host::Goose, include_str!("edit_fixtures/goose.yaml"), "developer"),
        (Host::Hermes, include_str!("edit_fixtures/hermes.yaml"), "docs"),
    ] {
        let before = HostDocument::parse(host, text).unwrap();
        let without = before.remove(name).unwrap();
        assert_eq!(without.entry(name), None);
        let again = without.insert_from(&before, name).unwrap().document;
        assert_eq!(again.entry(name), before.entry(name));
        let twice = again.remove(name).unwrap();
        assert_eq!(twice.text(), without.text());
    }
}
