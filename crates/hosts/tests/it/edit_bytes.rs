//! What exactly is written into a file of each host, and that removing it restores the file.

use bowline_hosts::{EditError, Host, HostDocument, ServerCommand};

pub(crate) fn serve_command() -> ServerCommand {
    command(&["serve", "--stdio"])
}

pub(crate) fn command(args: &[&str]) -> ServerCommand {
    ServerCommand { program: "bowline".to_owned(), args: args.iter().map(ToString::to_string).collect() }
}

/// Adds the entry to a file, and checks that the result is the file with `expected` after `anchor`, and
/// that both ways to remove it restore the file.
#[track_caller]
fn check(host: Host, before: &str, anchor: &str, expected: &str) {
    assert_eq!(before.matches(anchor).count(), 1, "the anchor");
    let document = HostDocument::parse(host, before).unwrap();
    let added = document.insert("bowline", &serve_command()).unwrap();
    let at = before.find(anchor).unwrap() + anchor.len();
    assert_eq!(added.document.text(), format!("{}{expected}{}", &before[..at], &before[at..]));
    assert_eq!(added.inserted, expected);
    assert!(added.document.has_command("bowline", &serve_command()));
    let removed = added.document.remove_inserted("bowline", &added.inserted).unwrap();
    assert_eq!(removed.text(), before);
    assert_eq!(added.document.remove("bowline").unwrap().entry("bowline"), None);
}

/// Checks as [`check`] does, and that the entry can be removed exactly without knowing what was inserted.
#[track_caller]
fn check_both_ways(host: Host, before: &str, anchor: &str, expected: &str) {
    check(host, before, anchor, expected);
    let added = HostDocument::parse(host, before).unwrap().insert("bowline", &serve_command()).unwrap();
    assert_eq!(added.document.remove("bowline").unwrap().text(), before);
}

#[test]
fn claude_code_gets_an_entry_for_the_user() {
    let before = include_str!("edit_fixtures/claude-code.json");
    let entry = "
    \"bowline\": {
      \"type\": \"stdio\",
      \"command\": \"bowline\",
      \"args\": [\"serve\", \"--stdio\"]
    },";
    check_both_ways(Host::ClaudeCode, before, "\n  \"mcpServers\": {", entry);
}

#[test]
fn claude_desktop_gets_an_entry_on_its_one_line() {
    let before = include_str!("edit_fixtures/claude-desktop.json");
    let entry = r#""bowline":{"command":"bowline","args":["serve","--stdio"]},"#;
    check_both_ways(Host::ClaudeDesktop, before, r#""mcpServers":{"#, entry);
}

#[test]
fn opencode_gets_an_entry_between_comments_and_trailing_commas() {
    let before = include_str!("edit_fixtures/opencode.jsonc");
    let entry = "
    \"bowline\": {
      \"type\": \"local\",
      \"command\": [\"bowline\", \"serve\", \"--stdio\"],
      \"enabled\": true
    },";
    check_both_ways(Host::Opencode, before, "\"mcp\": {", entry);
}

#[test]
fn opencode_gets_an_entry_in_its_second_layout() {
    let before = include_str!("edit_fixtures/opencode-servers.json");
    let entry = "\n\t\t\t\"bowline\": {\n\t\t\t\t\"type\": \"local\",\n\t\t\t\t\"command\": [\"bowline\", \"serve\", \"--stdio\"]\n\t\t\t},";
    check_both_ways(Host::Opencode, before, "\"servers\": {", entry);
}

#[test]
fn a_schema_stays_the_first_member() {
    let before = "{\n  \"$schema\": \"https://opencode.ai/config.json\", // checks\n  \"model\": \"m\"\n}\n";
    let entry = "
  \"mcp\": {
    \"bowline\": {
      \"type\": \"local\",
      \"command\": [\"bowline\", \"serve\", \"--stdio\"],
      \"enabled\": true
    }
  },";
    check(Host::Opencode, before, "// checks", entry);
}

#[test]
fn codex_gets_a_table_at_the_end() {
    let before = include_str!("edit_fixtures/codex.toml");
    let entry = "\n[mcp_servers.bowline]\ncommand = \"bowline\"\nargs = [\"serve\", \"--stdio\"]\n";
    check_both_ways(Host::Codex, before, "# odd   spacing\n", entry);
    let windows = before.replace('\n', "\r\n");
    check_both_ways(Host::Codex, &windows, "# odd   spacing\r\n", &entry.replace('\n', "\r\n"));
}

#[test]
fn cursor_gets_an_entry_with_its_indentation() {
    let before = include_str!("edit_fixtures/cursor.json");
    let entry = "
        \"bowline\": {
            \"command\": \"bowline\",
            \"args\": [\"serve\", \"--stdio\"]
        },";
    check_both_ways(Host::Cursor, before, "\"mcpServers\": {", entry);
}

#[test]
fn vscode_gets_an_entry_with_tabs() {
    let before = include_str!("edit_fixtures/vscode.json");
    let entry = "\n\t\t\"bowline\": {\n\t\t\t\"type\": \"stdio\",\n\t\t\t\"command\": \"bowline\",\n\t\t\t\"args\": [\"serve\", \"--stdio\"]\n\t\t},";
    check_both_ways(Host::VsCode, before, "\"servers\": {", entry);
}

#[test]
fn gemini_and_qwen_get_a_list_of_servers() {
    let entry = "
  \"mcpServers\": {
    \"bowline\": {
      \"command\": \"bowline\",
      \"args\": [\"serve\", \"--stdio\"]
    }
  },";
    for (host, before) in [
        (Host::GeminiCli, include_str!("edit_fixtures/gemini.json")),
        (Host::QwenCode, include_str!("edit_fixtures/qwen.json")),
    ] {
        let rest = &before["{".len()..];
        let document = HostDocument::parse(host, before).unwrap();
        let added = document.insert("bowline", &serve_command()).unwrap();
        assert_eq!(added.document.text(), format!("{{{entry}{rest}"));
        assert_eq!(added.document.remove_inserted("bowline", &added.inserted).unwrap().text(), before);
        // Without knowing what was inserted, the empty list stays.
        let removed = added.document.remove("bowline").unwrap();
        assert_eq!(removed.text(), format!("{{\n  \"mcpServers\": {{}},{rest}"));
    }
}

#[test]
fn goose_gets_an_extension() {
    let before = include_str!("edit_fixtures/goose.yaml");
    let entry = "  bowline:
    enabled: true
    type: stdio
    name: bowline
    description: \"MCP servers, through bowline\"
    cmd: bowline
    args: [serve, \"--stdio\"]
    timeout: 300
";
    check_both_ways(Host::Goose, before, "extensions:\n", entry);
    let windows = before.replace('\n', "\r\n");
    check_both_ways(Host::Goose, &windows, "extensions:\r\n", &entry.replace('\n', "\r\n"));
}

#[test]
fn hermes_gets_an_entry_with_its_indentation() {
    let before = include_str!("edit_fixtures/hermes.yaml");
    let entry = "    bowline:\n      command: bowline\n      args: [serve, \"--stdio\"]\n";
    check_both_ways(Host::Hermes, before, "mcp_servers:   # tools\n", entry);
}

#[test]
fn zed_gets_an_entry_in_an_empty_object() {
    let before = include_str!("edit_fixtures/zed.json");
    let entry = "
    \"bowline\": {
      \"command\": \"bowline\",
      \"args\": [\"serve\", \"--stdio\"]
    }
  ";
    check_both_ways(Host::Zed, before, "\"context_servers\": {", entry);
}

#[test]
fn windsurf_keeps_its_byte_order_mark_and_line_ends() {
    let before = include_str!("edit_fixtures/windsurf.json");
    let entry = "\r\n    \"bowline\": {\r\n      \"command\": \"bowline\",\r\n      \"args\": [\"serve\", \"--stdio\"]\r\n    },";
    check_both_ways(Host::Windsurf, before, "\"mcpServers\": {", entry);
}

#[test]
fn copilot_gets_an_entry_with_all_tools() {
    let before = include_str!("edit_fixtures/copilot.json");
    let entry = "
    \"bowline\": {
      \"type\": \"local\",
      \"command\": \"bowline\",
      \"args\": [\"serve\", \"--stdio\"],
      \"tools\": [\"*\"]
    }";
    check(Host::CopilotCli, before, "\"mcpServers\": {", entry);
}

#[test]
fn mcporter_gets_an_entry_after_the_comment_of_the_line() {
    let before = include_str!("edit_fixtures/mcporter.jsonc");
    let entry = "
    \"bowline\": {
      \"command\": \"bowline\",
      \"args\": [\"serve\", \"--stdio\"]
    },";
    check_both_ways(Host::Mcporter, before, "// mine", entry);
}

#[test]
fn a_file_that_is_empty_gets_a_whole_document() {
    for host in Host::ALL {
        let document = HostDocument::parse(host, "").unwrap();
        let added = document.insert("bowline", &serve_command()).unwrap();
        assert_eq!(added.document.text(), document.describe_entry("bowline", &serve_command()));
        assert_eq!(added.inserted, added.document.text());
        assert!(added.document.remove("bowline").unwrap().is_empty(), "{}", host.id());
    }
    let claude = HostDocument::parse(Host::ClaudeCode, "").unwrap();
    let text = "{\n  \"mcpServers\": {\n    \"bowline\": {\n      \"type\": \"stdio\",\n      \"command\": \"bowline\",\n      \"args\": [\"serve\", \"--stdio\"]\n    }\n  }\n}\n";
    assert_eq!(claude.describe_entry("bowline", &serve_command()), text);
}

#[test]
fn an_invalid_file_is_refused_without_quoting_it() {
    let unread = |host, text| match HostDocument::parse(host, text) {
        Err(EditError::Syntax(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        unread(Host::Cursor, "{\n  \"mcpServers\": secret\n}"),
        "it is not valid JSON in line 2: Unexpected word"
    );
    assert_eq!(unread(Host::Codex, "a = 1\nb = secret"), "it is not valid TOML in line 2");
    assert_eq!(unread(Host::Goose, "a: 1\nb: [secret"), "it is not valid YAML in line 2");
}

#[test]
fn lone_surrogates_stay_as_they_are_written() {
    for mark in ["", "\u{feff}"] {
        let before = format!(
            "{mark}{}",
            r#"{"a": ["cut \ud83d", "\uDE00", "\ud83d\ude00", "\\ud83d"], "mcpServers": {"é\uD83D": {"command": "x\udc00"}}, "\ud83d": 1}"#
        );
        let entry = r#""bowline": { "type": "stdio", "command": "bowline", "args": ["serve", "--stdio"] }, "#;
        check_both_ways(Host::ClaudeCode, &before, r#""mcpServers": {"#, entry);
        // The entry of another server is moved in its own words.
        let document = HostDocument::parse(Host::ClaudeCode, &before).unwrap();
        assert_eq!(document.entry("é\u{fffd}").unwrap()["command"], "x\u{fffd}");
        let without = document.remove("é\u{fffd}").unwrap();
        assert_eq!(without.text(), before.replace(r#""é\uD83D": {"command": "x\udc00"}"#, ""));
        assert_eq!(without.insert_from(&document, "é\u{fffd}").unwrap().document.text(), before);
    }
}
