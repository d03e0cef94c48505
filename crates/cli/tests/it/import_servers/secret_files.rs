//! The files that `--store-secrets` writes.

use super::{config, write};
use crate::context::Context;
#[cfg(unix)]
use crate::context::snapshot;

const FOLDER: &str = "home/.config/bowline/secrets";

fn stored(context: &Context, name: &str) -> String {
    std::fs::read_to_string(context.path(FOLDER).join(name)).unwrap()
}

fn with_token(token: &str) -> String {
    format!(r#"{{"mcpServers": {{"d": {{"command": "s", "env": {{"TOKEN": "{token}"}}}}}}}}"#)
}

fn import(context: &Context) -> String {
    context.run(context.bowline(["import", "../mine.json", "--yes", "--store-secrets"]))
}

#[test]
fn a_secret_of_another_entry_is_never_overwritten() {
    let context = Context::new();
    for (token, renamed) in [("FIRST", "work"), ("SECOND", "home"), ("FIRST", "third")] {
        write(&context, "project/mine.json", with_token(token));
        let shown = import(&context);
        assert!(shown.starts_with("exit: 0\n"), "{shown}");
        let text = config(&context).unwrap();
        context.user_config(&text.replace("[servers.d]", &format!("[servers.{renamed}]")));
    }
    assert_eq!(
        config(&context).unwrap(),
        "[servers.work]\ncommand = \"s\"\nenv = { TOKEN = \"{file:secrets/d.env-TOKEN}\" }\n\n\
         [servers.home]\ncommand = \"s\"\nenv = { TOKEN = \"{file:secrets/d.env-TOKEN-2}\" }\n\n\
         [servers.third]\ncommand = \"s\"\nenv = { TOKEN = \"{file:secrets/d.env-TOKEN-3}\" }\n"
    );
    let names = ["d.env-TOKEN", "d.env-TOKEN-2", "d.env-TOKEN-3"];
    assert_eq!(names.map(|name| stored(&context, name)), ["FIRST", "SECOND", "FIRST"]);
}

#[test]
fn two_secrets_of_one_import_have_two_files() {
    let context = Context::new();
    let file = r#"{"mcpServers": {
        "a": {"command": "s", "env": {"B.env-TOKEN": "one"}},
        "a.env-B": {"command": "s", "env": {"TOKEN": "two"}},
        "a.env-b": {"command": "s", "env": {"TOKEN": "three"}}}}"#;
    write(&context, "project/mine.json", file);
    let shown = import(&context);
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    let text = config(&context).unwrap();
    let files: Vec<&str> =
        text.split("{file:secrets/").skip(1).filter_map(|it| it.split('}').next()).collect();
    assert_eq!(files, ["a.env-B.env-TOKEN", "a.env-B.env-TOKEN-2", "a.env-b.env-TOKEN-3"]);
    assert_eq!(files.iter().map(|name| stored(&context, name)).collect::<Vec<_>>(), ["one", "two", "three"]);
}

#[test]
#[cfg(unix)]
fn the_folder_of_secrets_is_made_private() {
    use std::os::unix::fs::PermissionsExt as _;

    let context = Context::new();
    write(&context, "project/mine.json", with_token("hush"));
    std::fs::create_dir_all(context.path(FOLDER)).unwrap();
    // One of an import that was broken off is used.
    write(&context, &format!("{FOLDER}/d.env-TOKEN"), "hush");
    context.set_mode(&format!("{FOLDER}/d.env-TOKEN"), 0o644);
    let mode_of = |below: &str| std::fs::metadata(context.path(below)).unwrap().permissions().mode() & 0o777;
    // What is in it may be from somebody else.
    context.set_mode(FOLDER, 0o777);
    snapshot!(import(&context), @"
    exit: 2
    --- stdout
    claude-code	d	add	'TOKEN=[redacted]' s
    --- stderr
    note: the secrets of 1 server go into files in [TMP]/home/.config/bowline/secrets
    error: others can write to [TMP]/home/.config/bowline/secrets (mode 777) and may have put something there: look into it, then run `chmod 700 '[TMP]/home/.config/bowline/secrets'`; nothing was imported
    ---
    ");
    assert_eq!((mode_of(FOLDER), config(&context)), (0o777, None));
    context.set_mode(FOLDER, 0o755);
    let shown = import(&context);
    let note = format!("note: others could look into [TMP]/{FOLDER} (mode 755); now only its owner can\n");
    assert!(shown.starts_with("exit: 0\n") && shown.contains(&note), "{shown}");
    assert_eq!((mode_of(FOLDER), mode_of(&format!("{FOLDER}/d.env-TOKEN"))), (0o700, 0o600));
}

fn names_in_folder(context: &Context) -> Vec<String> {
    let entries = std::fs::read_dir(context.path(FOLDER)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_secret_of_a_replaced_entry_is_removed_unless_it_is_used() {
    let context = Context::new();
    let replace = |token: &str| {
        write(&context, "project/mine.json", with_token(token));
        let words = ["import", "../mine.json", "--yes", "--store-secrets", "--replace"];
        context.run(context.bowline(words))
    };
    assert!(!replace("FIRST").contains("secret file"));
    assert_eq!(names_in_folder(&context), ["d.env-TOKEN"]);
    let shown = replace("SECOND");
    let note = format!(
        "note: removed the secret file [TMP]/{FOLDER}/d.env-TOKEN, which nothing refers to any more\n"
    );
    assert!(shown.starts_with("exit: 0\n") && shown.contains(&note), "{shown}");
    assert_eq!(names_in_folder(&context), ["d.env-TOKEN-2"]);
    assert_eq!(stored(&context, "d.env-TOKEN-2"), "SECOND");
    let text = config(&context).unwrap();
    context.user_config(&format!("{text}\n{}", text.replace("[servers.d]", "[servers.e]")));
    let shown = replace("THIRD");
    assert!(shown.starts_with("exit: 0\n") && !shown.contains("secret file"), "{shown}");
    assert_eq!(names_in_folder(&context), ["d.env-TOKEN", "d.env-TOKEN-2"]);
}

/// A killed process may leave a file that it was about to give its name.
#[test]
fn drafts_of_a_killed_import_are_removed() {
    use std::time::{Duration, SystemTime};
    let context = Context::new();
    write(&context, "project/mine.json", with_token("hush"));
    std::fs::create_dir_all(context.path(FOLDER)).unwrap();
    context.set_mode(FOLDER, 0o700);
    for (name, age) in [
        (".0123456789abcdef.new", 120),
        (".fedcba9876543210.new", 0),
        (".0123456789abcde.new", 120),
        ("x.0123456789abcdef.new", 120),
    ] {
        let path = context.write(&format!("{FOLDER}/{name}"), "x");
        let draft = std::fs::File::options().write(true).open(path).unwrap();
        draft.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }
    let shown = import(&context);
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    let left = [".0123456789abcde.new", ".fedcba9876543210.new", "d.env-TOKEN", "x.0123456789abcdef.new"];
    assert_eq!(names_in_folder(&context), left);
}

#[test]
#[cfg(unix)]
fn a_link_in_the_place_of_a_secret_is_not_followed() {
    let context = Context::new();
    write(&context, "project/mine.json", with_token("hush"));
    context.write("elsewhere", "hush");
    std::fs::create_dir_all(context.path(FOLDER)).unwrap();
    std::os::unix::fs::symlink(context.path("elsewhere"), context.path(FOLDER).join("d.env-TOKEN")).unwrap();
    let shown = import(&context);
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    assert_eq!(
        config(&context).unwrap(),
        "[servers.d]\ncommand = \"s\"\nenv = { TOKEN = \"{file:secrets/d.env-TOKEN-2}\" }\n"
    );
}

#[test]
#[cfg(unix)]
fn a_folder_of_secrets_that_is_a_link_or_not_ours_is_refused() {
    let context = Context::new();
    write(&context, "project/mine.json", with_token("hush"));
    for folder in ["elsewhere", "home/.config/bowline"] {
        std::fs::create_dir_all(context.path(folder)).unwrap();
    }
    std::os::unix::fs::symlink(context.path("elsewhere"), context.path(FOLDER)).unwrap();
    snapshot!(import(&context), @"
    exit: 2
    --- stdout
    claude-code	d	add	'TOKEN=[redacted]' s
    --- stderr
    note: the secrets of 1 server go into files in [TMP]/home/.config/bowline/secrets
    error: [TMP]/home/.config/bowline/secrets is a link, so others may be able to read what is behind it; nothing was imported

    hint: replace the link by a folder that only you can open, or import without --store-secrets
    ---
    ");
    assert_eq!(std::fs::read_dir(context.path("elsewhere")).unwrap().count(), 0);
    assert_eq!(config(&context), None);
    // Only root can give a folder away.
    if rustix::process::geteuid().is_root() {
        std::fs::remove_file(context.path(FOLDER)).unwrap();
        std::fs::create_dir(context.path(FOLDER)).unwrap();
        std::os::unix::fs::chown(context.path(FOLDER), Some(12345), None).unwrap();
        let shown = import(&context);
        let error = "error: [TMP]/home/.config/bowline/secrets belongs to another user (uid 12345), who may have put \
                     something there: look into it, then make it yours with `chown -R 0 \
                     '[TMP]/home/.config/bowline/secrets'`; nothing was imported\n";
        assert!(shown.starts_with("exit: 2\n") && shown.contains(error), "{shown}");
        assert_eq!(config(&context), None);
    }
}
