//! Files of hosts with escapes of lone surrogates, which JavaScript writes for a string that was cut in
//! the middle of a character: they are read, and every byte of them stays.

use crate::context::Context;

const CLAUDE_FILE: &str = "home/.claude.json";

/// Lone high and low surrogates in both cases of digits, a pair, a pair that is split, and an escaped
/// backslash that only looks like an escape.
const TEXT: &str = r#"{
  "history": ["cut \ud83d", "\uDE00 low", "\ud83d and \ude00", "\ud83d\ude00", "C:\\ud83d"],
  "mcpServers": {
    "files": {
      "command": "files",
      "env": { "LABEL": "\uD83D" }
    }
  },
  "tail\udfff": "\ud83d"
}
"#;

#[track_caller]
fn run(context: &Context, words: &[&str]) -> String {
    let shown = context.run(context.bowline(words));
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    shown
}

fn read(context: &Context) -> String {
    std::fs::read_to_string(context.path(CLAUDE_FILE)).expect("a file")
}

#[test]
fn file_with_lone_surrogates_is_imported() {
    let context = Context::new();
    context.write(CLAUDE_FILE, TEXT);
    let shown = run(&context, &["import", "claude-code", "--yes"]);
    assert!(!shown.contains("not valid"), "{shown}");
    let config = std::fs::read_to_string(context.path("home/.config/bowline/config.toml")).unwrap();
    assert!(config.starts_with("[servers.files]\ncommand = \"files\"\n"), "{config}");
    assert_eq!(read(&context), TEXT);
}

#[test]
fn install_and_uninstall_keep_lone_surrogates() {
    let context = Context::new();
    context.write(CLAUDE_FILE, TEXT);
    let install = ["install", "claude-code", "--yes"];
    let uninstall = ["uninstall", "claude-code", "--yes"];
    run(&context, &install);
    let installed = read(&context);
    let (head, tail) = TEXT.split_at(TEXT.find("\n    \"files\"").unwrap());
    assert!(installed.starts_with(head) && installed.ends_with(tail), "{installed}");
    assert!(installed.len() > TEXT.len() && installed.contains("--stdio"), "{installed}");
    run(&context, &uninstall);
    assert_eq!(read(&context), TEXT);
    // The host writes its file in between, so that the entry is removed from the new text.
    run(&context, &install);
    let (before, after) = ("cut \\ud83d", "cut \\ud83d again \\udc00");
    context.write(CLAUDE_FILE, read(&context).replace(before, after));
    run(&context, &uninstall);
    assert_eq!(read(&context), TEXT.replace(before, after));
}
