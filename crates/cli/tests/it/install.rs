//! `bowline install` and `bowline uninstall`: files of hosts before and after.

#[path = "install/files.rs"]
mod files;
#[path = "install/refusals.rs"]
mod refusals;
#[path = "install/servers.rs"]
mod servers;

use std::path::PathBuf;

use serde_json::Value;

use crate::context::Context;

/// A file of each host as its users have it, by the name of the host.
macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../hosts/tests/it/edit_fixtures/", $name))
    };
}

const FIXTURES: [(&str, &str); 15] = [
    ("claude-code", fixture!("claude-code.json")),
    ("claude-desktop", fixture!("claude-desktop.json")),
    ("opencode", fixture!("opencode.jsonc")),
    ("opencode", fixture!("opencode-servers.json")),
    ("codex", fixture!("codex.toml")),
    ("cursor", fixture!("cursor.json")),
    ("vscode", fixture!("vscode.json")),
    ("gemini", fixture!("gemini.json")),
    ("qwen", fixture!("qwen.json")),
    ("goose", fixture!("goose.yaml")),
    ("hermes", fixture!("hermes.yaml")),
    ("zed", fixture!("zed.json")),
    ("windsurf", fixture!("windsurf.json")),
    ("copilot", fixture!("copilot.json")),
    ("mcporter", fixture!("mcporter.jsonc")),
];

const CLAUDE_FILE: &str = "home/.claude.json";

fn claude_fixture() -> &'static str {
    FIXTURES[0].1
}

fn read(context: &Context, below: &str) -> String {
    std::fs::read_to_string(context.path(below)).expect("a file")
}

/// How many records and copies of files there are after `bowline install`.
fn count_records(context: &Context) -> usize {
    let folder = context.path("home/.local/state/bowline/installs");
    std::fs::read_dir(folder).expect("the folder of the records").count()
}

/// Runs `bowline WORDS… --json` and returns what it says about its only host.
#[track_caller]
fn run_json(context: &Context, words: &[&str]) -> Value {
    let output = context.bowline(words).arg("--json").output().expect("bowline starts");
    let shown = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    answer["hosts"][0].clone()
}

/// Runs `bowline WORDS…`, which fails with code 2, and returns stderr.
#[track_caller]
fn run_refused(context: &Context, words: &[&str]) -> String {
    let shown = context.run(context.bowline(words));
    assert!(shown.starts_with("exit: 2\n"), "{shown}");
    shown.split_once("--- stderr\n").expect("a part").1.to_owned()
}

/// The text of the program in entries, which differs between machines.
fn shown_without_program(shown: &str) -> String {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_bowline")).canonicalize().expect("the program");
    shown.replace(&program.display().to_string(), "[BOWLINE]")
}
