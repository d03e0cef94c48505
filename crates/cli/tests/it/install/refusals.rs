//! Files that are not changed, and what is said about it.

use super::{CLAUDE_FILE, claude_fixture, count_records, read, run_json, run_refused, shown_without_program};
use crate::context::Context;

/// The file changes while the person looks at the preview.
#[cfg(unix)]
#[test]
fn a_file_that_changes_after_the_preview_is_not_written() {
    use crate::pty::{ENTER, Person, UP};
    let context = Context::new();
    let other = "{\"numStartups\": 1}";
    for verb in ["install", "uninstall"] {
        context.write(CLAUDE_FILE, claude_fixture());
        if verb == "uninstall" {
            run_json(&context, &["install", "claude-code", "--yes"]);
        }
        let mut person = Person::sits_at(context.bowline([verb, "claude-code"]));
        person.sees("/home/.claude.json?");
        context.write(CLAUDE_FILE, other);
        person.presses(&format!("{UP}{ENTER}"));
        let end = person.leaves();
        assert_eq!(end.code, 2, "{}", end.screen);
        let screen = end.screen.replace('\n', "");
        assert!(screen.contains("has changed since the preview, so nothing was written to it"), "{screen}");
        assert_eq!(read(&context, CLAUDE_FILE), other);
    }
}

#[cfg(unix)]
#[test]
fn a_person_is_asked_and_may_say_no() {
    use crate::pty::{ENTER, Person, UP};
    let context = Context::new();
    context.write(CLAUDE_FILE, claude_fixture());
    let mut person = Person::sits_at(context.bowline(["install", "claude-code"]));
    person.sees("/home/.claude.json?");
    person.presses(ENTER);
    assert_eq!(person.leaves().code, 2);
    assert_eq!(read(&context, CLAUDE_FILE), claude_fixture());
    let mut person = Person::sits_at(context.bowline(["install", "claude-code"]));
    person.sees("/home/.claude.json?");
    person.presses(&format!("{UP}{ENTER}"));
    assert_eq!(person.leaves().code, 0);
    assert!(read(&context, CLAUDE_FILE).contains("\"bowline\""));
}

#[test]
fn a_read_only_file_is_not_written() {
    let context = Context::new();
    let file = context.write("home/file", "{}");
    let mut permissions = std::fs::metadata(&file).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&file, permissions).unwrap();
    let refused = run_refused(&context, &["install", "cursor", "--yes", "--file", file.to_str().unwrap()]);
    assert!(
        refused.contains("error: [TMP]/home/file is read-only, so nothing was written to it\n"),
        "{refused}"
    );
    assert!(refused.contains("hint: allow yourself to write to the file"), "{refused}");
    assert_eq!(read(&context, "home/file"), "{}");
    assert_eq!(count_records(&context), 0);
}

#[test]
fn an_entry_that_is_something_else_stays() {
    let context = Context::new();
    let text = "{\"mcpServers\":{\"bowline\":{\"url\":\"https://example.com/mcp\"}}}";
    let file = context.write("home/file", text);
    let file = file.to_str().unwrap();
    let refused = run_refused(&context, &["install", "cursor", "--yes", "--file", file]);
    assert_eq!(
        refused,
        "error: [TMP]/home/file has an entry `bowline` that is something else; nothing was changed\n\nhint: choose another name with --name\n---"
    );
    let named = run_json(&context, &["install", "cursor", "--yes", "--file", file, "--name", "all"]);
    assert_eq!(named["entries"], serde_json::json!(["all"]));
    let none = run_json(&context, &["uninstall", "cursor", "--dry-run", "--file", file, "--name", "bowline"]);
    assert_eq!(none["state"], "not_installed");
    run_json(&context, &["uninstall", "cursor", "--yes", "--file", file, "--name", "all"]);
    assert_eq!(read(&context, "home/file"), text);
}

/// What to add by hand is said instead.
#[test]
fn a_file_that_cannot_be_changed_safely_is_left_alone() {
    let context = Context::new();
    let file = context.write("home/file", "mcp_servers: null\n");
    let refused = run_refused(&context, &["install", "hermes", "--yes", "--file", file.to_str().unwrap()]);
    let refused = shown_without_program(&refused);
    assert_eq!(
        refused,
        "error: [TMP]/home/file cannot be changed safely: it is written in a way in which one entry cannot be changed alone; nothing was changed
  entry:
    mcp_servers:
      bowline:
        command: [BOWLINE]
        args: [serve, \"--stdio\"]

hint: add the entry to `mcp_servers` by hand
---"
    );
    assert_eq!(read(&context, "home/file"), "mcp_servers: null\n");
    let broken = context.write("home/broken", "{\n\"a\": token\n}");
    let refused = run_refused(&context, &["install", "cursor", "--yes", "--file", broken.to_str().unwrap()]);
    assert!(
        refused.starts_with(
            "error: [TMP]/home/broken cannot be changed: it is not valid JSON in line 2: Unexpected word; nothing was changed\n"
        ),
        "{refused}"
    );
}

#[test]
fn a_list_of_servers_that_is_something_else_is_named() {
    let context = Context::new();
    for (host, text, key) in [
        ("cursor", "{\"mcpServers\": []}", "mcpServers"),
        ("cursor", "{\"mcpServers\": null}", "mcpServers"),
        ("opencode", "{\"mcp\": 1}", "mcp"),
        ("codex", "mcp_servers = 1\n", "mcp_servers"),
        ("goose", "extensions: a\n", "extensions"),
    ] {
        let file = context.write("home/file", text);
        let refused = run_refused(&context, &["install", host, "--yes", "--file", file.to_str().unwrap()]);
        let error = format!(
            "error: [TMP]/home/file cannot be changed safely: the value of `{key}` is not an object; nothing was changed\n"
        );
        assert!(refused.starts_with(&error), "{refused}");
        assert_eq!(read(&context, "home/file"), text);
    }
}

#[test]
fn a_file_that_is_not_utf_8_is_refused_with_the_next_step() {
    let context = Context::new();
    let file = context.path("home/file");
    std::fs::write(&file, [0xff, 0xfe]).unwrap();
    let refused = run_refused(&context, &["install", "cursor", "--yes", "--file", file.to_str().unwrap()]);
    assert_eq!(refused, "error: cannot use [TMP]/home/file: not UTF-8 text\n\nhint: save it as UTF-8\n---");
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_back_to_itself_is_called_that() {
    use std::os::unix::fs::symlink;
    let context = Context::new();
    symlink(".claude.json", context.path(CLAUDE_FILE)).unwrap();
    symlink(".cursor", context.path("home/.cursor")).unwrap();
    assert_eq!(
        run_refused(&context, &["install", "claude-code", "--yes"]),
        "error: [TMP]/home/.claude.json is a link that leads back to itself\n\nhint: remove the link, or let it lead to the file\n---"
    );
    assert_eq!(
        run_refused(&context, &["install", "cursor", "--yes"]),
        "error: a folder of [TMP]/home/.cursor/mcp.json is a link that leads back to itself\n\nhint: remove the link, or let it lead to the folder\n---"
    );
}

/// An entry under two names would give the host everything twice.
#[test]
fn another_name_for_an_entry_that_is_there_is_refused() {
    let context = Context::new();
    context.user_config("[servers.github]\nurl = 'https://example.com/mcp'\n");
    let file = context.write("home/file", "{}");
    let file = file.to_str().unwrap();
    for (servers, name) in [(&[][..], "bowline"), (&["--servers", "github"], "github")] {
        let install = [&["install", "cursor", "--yes", "--file", file][..], servers].concat();
        run_json(&context, &install);
        let before = read(&context, "home/file");
        let refused = run_refused(&context, &[&install[..], &["--name", "second"]].concat());
        assert_eq!(
            refused,
            format!(
                "error: [TMP]/home/file has this entry already, with the name `{name}`; nothing was changed\n\n\
                 hint: leave out --name to keep it, or remove it with `bowline uninstall cursor --name {name} --file \
                 [TMP]/home/file` first\n---"
            )
        );
        assert_eq!(read(&context, "home/file"), before);
        let again = run_json(&context, &[&install[..], &["--name", name]].concat());
        assert_eq!(again["state"], "already_installed");
    }
}

#[test]
fn a_problem_of_the_configuration_is_named() {
    let context = Context::new();
    context.user_config("# Mine.\nstore = 1\n");
    context.write(CLAUDE_FILE, "{}");
    let problem = "[TMP]/home/.config/bowline/config.toml:2: store: must be a table, not a number; `bowline config check` \
                   shows all problems";
    let shown = context.run(context.bowline(["install", "claude-code", "--yes"]));
    assert!(shown.ends_with(&format!("note: bowline has no servers: {problem}\n---")), "{shown}");
    for (option, noun) in [("--servers", "server"), ("--view", "view")] {
        let refused = run_refused(&context, &["install", "claude-code", option, "github"]);
        let expected =
            format!("error: there is no {noun} named `github` in your configuration\n\nhint: {problem}\n---");
        assert_eq!(refused, expected);
    }
}

/// If one of several files cannot be changed, none is.
#[cfg(unix)]
#[test]
fn several_hosts_are_changed_together_or_not_at_all() {
    let context = Context::new();
    context.write(CLAUDE_FILE, claude_fixture());
    std::fs::create_dir_all(context.path("home/.codex")).unwrap();
    context.write("home/.codex/config.toml", "mcp_servers = 1\n");
    run_refused(&context, &["install", "claude-code", "codex", "--yes"]);
    assert_eq!(read(&context, CLAUDE_FILE), claude_fixture());
    context.write("home/.codex/config.toml", "model = \"m\"\n");
    run_json(&context, &["install", "claude-code", "codex", "--yes"]);
    assert!(read(&context, CLAUDE_FILE).contains("\"bowline\""));
    assert!(
        read(&context, "home/.codex/config.toml").starts_with("model = \"m\"\n\n[mcp_servers.bowline]\n")
    );
}

/// What is known before the first file is written is checked before.
#[cfg(unix)]
#[test]
fn a_read_only_file_keeps_other_hosts_unchanged() {
    let context = Context::new();
    for folder in ["home/.cursor", "home/.codex"] {
        std::fs::create_dir_all(context.path(folder)).unwrap();
    }
    let (cursor, codex) = ("home/.cursor/mcp.json", "home/.codex/config.toml");
    context.write(cursor, "{}\n");
    context.write(codex, "model = \"m\"\n");
    let error = "error: [TMP]/home/.codex/config.toml is read-only, so nothing was written to it\n\nhint:";
    context.set_mode(codex, 0o444);
    let refused = run_refused(&context, &["install", "cursor", "codex", "--yes"]);
    assert!(refused.contains(error), "{refused}");
    assert_eq!(
        (read(&context, cursor).as_str(), read(&context, codex).as_str()),
        ("{}\n", "model = \"m\"\n")
    );
    context.set_mode(codex, 0o644);
    run_json(&context, &["install", "cursor", "codex", "--yes"]);
    let installed = (read(&context, cursor), read(&context, codex));
    context.set_mode(codex, 0o444);
    let refused = run_refused(&context, &["uninstall", "cursor", "codex", "--yes"]);
    assert!(refused.contains(error), "{refused}");
    assert_eq!((read(&context, cursor), read(&context, codex)), installed);
    context.set_mode(codex, 0o644);
    run_json(&context, &["uninstall", "cursor", "codex", "--yes"]);
    assert_eq!(
        (read(&context, cursor).as_str(), read(&context, codex).as_str()),
        ("{}\n", "model = \"m\"\n")
    );
    assert_eq!(std::fs::read_dir(context.path("home/.cursor")).unwrap().count(), 1);
    assert_eq!(count_records(&context), 0);
}

/// Two hosts have the same file here, so that the first change gets in the way of the second.
#[test]
fn files_that_were_written_are_rolled_back_when_another_fails() {
    let context = Context::new();
    let text = "{\"mcpServers\": {}}\n";
    let file = context.write("home/file", text);
    let file = file.to_str().unwrap();
    let error = "error: [TMP]/home/file has changed since the preview, so nothing was written to it\n  undone: [TMP]/home/file is as it was\n\nhint: run the command again to see the change as it would be now\n---";
    let refused = run_refused(&context, &["install", "cursor", "windsurf", "--yes", "--file", file]);
    assert!(refused.ends_with(error), "{refused}");
    assert_eq!(read(&context, "home/file"), text);
    assert_eq!(count_records(&context), 0);
    run_json(&context, &["install", "cursor", "--yes", "--file", file]);
    let installed = read(&context, "home/file");
    let refused = run_refused(&context, &["uninstall", "cursor", "windsurf", "--yes", "--file", file]);
    assert!(refused.ends_with(error), "{refused}");
    assert_eq!(read(&context, "home/file"), installed);
    assert_eq!(run_json(&context, &["uninstall", "cursor", "--yes", "--file", file])["state"], "restored");
    assert_eq!(read(&context, "home/file"), text);
}

#[cfg(unix)]
#[test]
fn places_without_a_file_are_refused() {
    let context = Context::new();
    let refused = run_refused(&context, &["install", "windsurf", "--scope", "project"]);
    assert!(refused.starts_with("error: Windsurf has no file for a project that is known\n"), "{refused}");
    std::os::unix::fs::symlink("nowhere", context.path(CLAUDE_FILE)).unwrap();
    let refused = run_refused(&context, &["install", "claude-code", "--yes"]);
    assert!(refused.starts_with("error: [TMP]/home/.claude.json is a link to a file that does not exist\n"));
    let refused = run_refused(&context, &["install", "emacs"]);
    assert!(refused.contains("invalid value 'emacs'") && refused.contains("claude-code"), "{refused}");
    let refused = run_refused(&context, &["install", "claude-code", "--name", "a b"]);
    assert!(refused.contains("at most 50 of A-Z a-z 0-9 _ -"), "{refused}");
}
