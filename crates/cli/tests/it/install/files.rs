//! What becomes of the files: exact bytes after `install` and after `uninstall`.

use bowline_testkit::canary::test_secret;
use serde_json::{Value, json};

use super::{CLAUDE_FILE, FIXTURES, claude_fixture, read, run_json, shown_without_program};
use crate::context::{Context, snapshot};

#[test]
fn every_host_gets_an_entry_and_its_file_back() {
    for (host, before) in FIXTURES {
        let context = Context::new();
        let file = context.write("home/file", before);
        let file = file.to_str().unwrap();
        let installed = run_json(&context, &["install", host, "--yes", "--file", file]);
        assert_eq!((&installed["host"], &installed["state"]), (&json!(host), &json!("installed")));
        assert_eq!(installed["entries"], json!(["bowline"]));
        let after = read(&context, "home/file");
        assert!(after.len() > before.len() && after.contains("--stdio"), "{host}: {after}");
        let backup = installed["backup"].as_str().expect("a backup");
        assert_eq!(std::fs::read_to_string(backup).unwrap(), before);
        let again = run_json(&context, &["install", host, "--yes", "--file", file]);
        assert_eq!((&again["state"], &again["diff"]), (&json!("already_installed"), &json!([])), "{host}");
        assert_eq!(read(&context, "home/file"), after);
        let removed = run_json(&context, &["uninstall", host, "--yes", "--file", file]);
        assert_eq!(
            (&removed["state"], &removed["entries"]),
            (&json!("restored"), &json!(["bowline"])),
            "{host}"
        );
        assert_eq!(read(&context, "home/file"), before, "{host}");
        assert!(!std::path::Path::new(backup).exists());
        let none = run_json(&context, &["uninstall", host, "--yes", "--file", file]);
        assert_eq!(none["state"], "not_installed");
    }
}

#[test]
fn every_host_has_a_file_created_and_deleted_again() {
    for (host, _) in FIXTURES {
        let context = Context::new();
        let path = context.path("home/new/file");
        let file = path.to_str().unwrap();
        let installed = run_json(&context, &["install", host, "--yes", "--file", file]);
        assert_eq!(
            (&installed["state"], &installed["backup"]),
            (&json!("installed"), &Value::Null),
            "{host}"
        );
        assert!(read(&context, "home/new/file").contains("--stdio"));
        assert_eq!(run_json(&context, &["uninstall", host, "--yes", "--file", file])["state"], "restored");
        assert!(!path.exists(), "{host}");
    }
}

/// The values in the file are not shown, as they may be secrets.
#[cfg(unix)]
#[test]
fn the_change_is_shown_and_not_made_without_a_yes() {
    let context = Context::new();
    context.write(CLAUDE_FILE, claude_fixture());
    for words in [&["install", "claude-code"][..], &["install", "claude-code", "--dry-run"]] {
        let shown = shown_without_program(&context.run(context.bowline(words)));
        let (head, stderr) = shown.split_once("--- stderr\n").unwrap();
        let is_dry = words.contains(&"--dry-run");
        assert!(head.starts_with(if is_dry { "exit: 0\n" } else { "exit: 2\n" }), "{shown}");
        let unasked = "error: nothing was changed, as there is no terminal to ask you on\n\nhint: look at the change with --dry-run, then use --yes\n";
        assert_eq!(stderr.contains(unasked), !is_dry, "{shown}");
        let diff = head.split_once("--- stdout\n").unwrap().1;
        assert_eq!(
            diff,
            r#"--- [TMP]/home/.claude.json
+++ [TMP]/home/.claude.json
@@ -30,6 +30,11 @@
     }
   },
   "mcpServers": {
+    "bowline": {
+      "type": "stdio",
+      "command": "[BOWLINE]",
+      "args": ["serve", "--stdio"]
+    },
     "github": {
       "type": …,
       "url": …,
"#
        );
        assert_eq!(read(&context, CLAUDE_FILE), claude_fixture());
    }
}

/// Only the part that changes is shown, and a few characters around it.
#[test]
fn the_change_of_a_file_of_one_line_is_shown() {
    let context = Context::new();
    let by_hand = r#""mine":{"command":"bowline","args":["serve","--stdio"]},"#;
    let text = |entry: &str| format!(r#"{{"mcpServers":{{{entry}"a":{{"url":"hush"}}}},"x":["hush",1]}}"#);
    let file = context.write("home/file", text(""));
    let file = file.to_str().unwrap();
    let (head, tail) = (r#"{"mcpServers":{"#, r#""a":{"url":…}},"x":[…,…]}"#);
    let shown = context.run(context.bowline(["install", "cursor", "--dry-run", "--file", file]));
    assert!(shown.contains(&format!("\n@@ -1,1 +1,1 @@\n-{head}{tail}\n+{head}\"bowline\":{{")), "{shown}");
    assert!(shown.contains(&format!("\"args\":[\"serve\",\"--stdio\"]}},{tail}\n")), "{shown}");
    context.write("home/file", text(by_hand));
    let shown = context.run(context.bowline(["uninstall", "cursor", "--dry-run", "--file", file]));
    let diff = format!("\n-{head}\"mine\":{{\"command\":…,\"args\":[…,…]}},{tail}\n+{head}{tail}\n");
    assert!(shown.contains(&diff), "{shown}");
}

#[cfg(unix)]
#[test]
fn what_was_written_is_said_with_the_next_step() {
    let context = Context::new();
    context.write(CLAUDE_FILE, "{}");
    let shown = shown_without_program(&context.run(context.bowline(["install", "claude-code", "--yes"])));
    snapshot!(shown, @r#"
    exit: 0
    --- stdout
    --- [TMP]/home/.claude.json
    +++ [TMP]/home/.claude.json
    @@ -1,1 +1,9 @@
    -{}
    +{
    +  "mcpServers": {
    +    "bowline": {
    +      "type": "stdio",
    +      "command": "[BOWLINE]",
    +      "args": ["serve", "--stdio"]
    +    }
    +  }
    +}
    --- stderr
    note: the entry names [BOWLINE], since PATH does not lead to this program; install it again if bowline is moved
    note: wrote `bowline` to [TMP]/home/.claude.json; `bowline uninstall claude-code` restores the file
    note: see it with `claude mcp list`
    note: bowline has no servers yet: `bowline import` or `bowline add` adds some
    ---
    "#);
    snapshot!(context.run(context.bowline(["install", "claude-code"])), @"
    exit: 0
    --- stdout
    --- stderr
    note: bowline is already installed in Claude Code: [TMP]/home/.claude.json has the entry `bowline`
    ---
    ");
    snapshot!(context.run(context.bowline(["uninstall", "claude-code", "--yes", "-q"])).lines().next().unwrap(), @"exit: 0");
    assert_eq!(read(&context, CLAUDE_FILE), "{}");
}

/// Hosts write to their files all the time; what they wrote is kept.
#[cfg(unix)]
#[test]
fn a_file_that_has_changed_loses_only_the_entry() {
    let context = Context::new();
    context.write(CLAUDE_FILE, claude_fixture());
    run_json(&context, &["install", "claude-code", "--yes"]);
    let change = |text: &str| text.replace("\"numStartups\": 214", "\"numStartups\": 215");
    let changed = change(&read(&context, CLAUDE_FILE));
    context.write(CLAUDE_FILE, &changed);
    let shown = context.run(context.bowline(["uninstall", "claude-code", "--yes"]));
    let note = "note: [TMP]/home/.claude.json has changed since `bowline install`, so only the entries of bowline are removed; the rest stays as it is now\n";
    assert!(shown.contains(note), "{shown}");
    assert!(shown.contains("note: removed `bowline` from [TMP]/home/.claude.json\n"), "{shown}");
    assert_eq!(read(&context, CLAUDE_FILE), change(claude_fixture()));
    // A host that formats the file in its own way changes the entry as well.
    context.write(CLAUDE_FILE, claude_fixture());
    run_json(&context, &["install", "claude-code", "--yes"]);
    let value: Value = serde_json::from_str(&read(&context, CLAUDE_FILE)).unwrap();
    context.write(CLAUDE_FILE, serde_json::to_string_pretty(&value).unwrap());
    assert_eq!(run_json(&context, &["uninstall", "claude-code", "--yes"])["state"], "removed");
    let left: Value = serde_json::from_str(&read(&context, CLAUDE_FILE)).unwrap();
    assert_eq!(left, serde_json::from_str::<Value>(claude_fixture()).unwrap());
}

/// A host that reads JSON alone would refuse the file.
#[test]
fn a_server_that_was_put_before_the_entry_keeps_no_comma() {
    for before in ["{\"mcpServers\":{}}", "{\n  \"mcpServers\": {}\n}\n"] {
        let context = Context::new();
        context.write("home/.claude.json", before);
        run_json(&context, &["install", "claude-code", "--yes"]);
        let path = context.path("home/.claude.json");
        let other = r#""other":{"command":"z"}"#;
        let installed = std::fs::read_to_string(&path).unwrap();
        let edited = installed.replacen("\"bowline\"", &format!("{other},\"bowline\""), 1);
        std::fs::write(&path, edited).unwrap();
        assert_eq!(run_json(&context, &["uninstall", "claude-code", "--yes"])["state"], "removed");
        let left = std::fs::read_to_string(&path).unwrap();
        let expected = serde_json::json!({"mcpServers": {"other": {"command": "z"}}});
        assert_eq!(serde_json::from_str::<Value>(&left).unwrap(), expected, "{left}");
    }
}

#[test]
fn an_entry_that_was_written_by_hand_is_removed() {
    let context = Context::new();
    let text = "{\"mcpServers\": {\"a\": {\"url\": \"u\"}, \"mine\": {\"command\": \"bowline\", \"args\": [\"serve\", \"--stdio\"]}}}";
    let file = context.write("home/file", text);
    let file = file.to_str().unwrap();
    let removed = run_json(&context, &["uninstall", "cursor", "--yes", "--file", file]);
    assert_eq!((&removed["state"], &removed["entries"]), (&json!("removed"), &json!(["mine"])));
    assert_eq!(read(&context, "home/file"), "{\"mcpServers\": {\"a\": {\"url\": \"u\"}}}");
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link_and_the_mode_stays() {
    use std::os::unix::fs::PermissionsExt as _;
    let context = Context::new();
    std::fs::create_dir_all(context.path("home/dotfiles")).unwrap();
    let target = context.write("home/dotfiles/claude.json", claude_fixture());
    context.set_mode("home/dotfiles/claude.json", 0o640);
    let link = context.path(CLAUDE_FILE);
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let check = |has_entry: bool| {
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_to_string(&target).unwrap() != claude_fixture(), has_entry);
    };
    let installed = run_json(&context, &["install", "claude-code", "--yes"]);
    check(true);
    let backup = installed["backup"].as_str().unwrap();
    assert_eq!(std::fs::metadata(backup).unwrap().permissions().mode() & 0o777, 0o600);
    run_json(&context, &["uninstall", "claude-code", "--yes"]);
    check(false);
}

#[test]
fn an_entry_that_was_written_by_hand_outlives_an_installation() {
    let context = Context::new();
    let by_hand = r#""mine":{"command":"bowline","args":["connect","https://example.com/mcp"]}"#;
    let file = context.write("home/file", format!(r#"{{"mcpServers":{{{by_hand}}}}}"#));
    let file = file.to_str().unwrap();
    run_json(&context, &["install", "cursor", "--yes", "--file", file]);
    let changed = read(&context, "home/file").replace(by_hand, &format!(r#"{by_hand},"b":{{}}"#));
    context.write("home/file", &changed);
    let removed = run_json(&context, &["uninstall", "cursor", "--yes", "--file", file]);
    assert_eq!((&removed["state"], &removed["entries"]), (&json!("removed"), &json!(["bowline"])));
    assert_eq!(read(&context, "home/file"), format!(r#"{{"mcpServers":{{{by_hand},"b":{{}}}}}}"#));
}

/// A token in the file is neither printed nor left in a copy.
#[test]
fn secrets_of_the_file_stay_in_the_file() {
    let context = Context::new();
    let secret = test_secret("host");
    let text = format!(
        "{{\"mcpServers\": {{\n\"a\": {{\"headers\": {{\"Authorization\": \"Bearer {secret}\"}}}},\n\"b\": {{}} }}}}"
    );
    let file = context.write("home/file", &text);
    let file = file.to_str().unwrap();
    for words in [
        &["install", "cursor", "--yes", "--file", file][..],
        &["uninstall", "cursor", "--yes", "--file", file],
        &["install", "cursor", "--yes", "--json", "--file", file],
        &["uninstall", "cursor", "--dry-run", "--file", file],
        &["uninstall", "cursor", "--yes", "--json", "--file", file],
    ] {
        let shown = context.run(context.bowline(words));
        assert!(shown.starts_with("exit: 0"), "{shown}");
    }
    assert_eq!(read(&context, "home/file"), text);
}

#[cfg(unix)]
#[test]
fn hosts_that_were_found_are_listed() {
    let context = Context::new();
    assert_eq!(
        context.run(context.bowline(["install"])).lines().find(|line| line.starts_with("note:")).unwrap(),
        "note: no file of a host was found; `bowline install HOST` creates one for claude-code, claude-desktop, opencode, codex, cursor, vscode, gemini, qwen, goose, hermes, zed, windsurf, copilot, mcporter"
    );
    context.write(CLAUDE_FILE, claude_fixture());
    std::fs::create_dir_all(context.path("home/.cursor")).unwrap();
    context.write("home/.cursor/mcp.json", "{");
    context.write("project/below/.mcp.json", "{}");
    run_json(&context, &["install", "claude-code", "--yes"]);
    snapshot!(context.run(context.bowline(["install"])), @"
    exit: 0
    --- stdout
    Claude Code	installed	bowline uninstall claude-code	[TMP]/home/.claude.json
    Claude Code	no	bowline install claude-code --scope project	[TMP]/project/below/.mcp.json
    Cursor	unreadable	bowline install cursor	[TMP]/home/.cursor/mcp.json
    --- stderr
    ---
    ");
    assert_eq!(run_json(&context, &["install"])["entries"], json!(["bowline"]));
    run_json(&context, &["install", "claude-code", "--scope", "project", "--yes"]);
    assert!(read(&context, "project/below/.mcp.json").contains("\"serve\""));
    run_json(&context, &["uninstall", "claude-code", "--scope", "project", "--yes"]);
    assert_eq!(read(&context, "project/below/.mcp.json"), "{}");
    assert!(read(&context, CLAUDE_FILE).contains("\"bowline\""));
}

/// A killed process may leave a file that it was about to give the name of the host's file.
#[test]
fn drafts_of_a_killed_process_are_removed() {
    use std::time::{Duration, SystemTime};
    let context = Context::new();
    let file = context.write("home/file.json", "{}");
    let file = file.to_str().unwrap();
    let put = |name: &str, age: u64| {
        let path = context.write(&format!("home/{name}"), "{}");
        let draft = std::fs::File::options().write(true).open(&path).unwrap();
        draft.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        path
    };
    let others = [
        put("file.0000000000000001.new", 0),
        put("file.000000000000002.new", 120),
        put("file.json.0000000000000003.new", 120),
        put("other.0000000000000004.new", 120),
        put("file.000000000000000g.new", 120),
    ];
    for verb in ["install", "uninstall"] {
        let draft = put("file.0123456789abcdef.new", 120);
        run_json(&context, &[verb, "cursor", "--yes", "--file", file]);
        assert!(!draft.exists(), "{verb}");
        assert!(others.iter().all(|other| other.exists()), "{verb}");
    }
    assert_eq!(read(&context, "home/file.json"), "{}");
}
