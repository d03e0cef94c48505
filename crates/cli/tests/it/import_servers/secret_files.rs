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

    for (mode, access) in [(0o777, "write to"), (0o755, "look into")] {
        let context = Context::new();
        write(&context, "project/mine.json", with_token("hush"));
        std::fs::create_dir_all(context.path(FOLDER)).unwrap();
        // One of an import that was broken off is used.
        write(&context, &format!("{FOLDER}/d.env-TOKEN"), "hush");
        context.set_mode(&format!("{FOLDER}/d.env-TOKEN"), 0o644);
        context.set_mode(FOLDER, mode);
        let shown = import(&context);
        let note =
            format!("note: others could {access} [TMP]/{FOLDER} (mode {mode:o}); now only you can open it\n");
        assert!(shown.starts_with("exit: 0\n") && shown.contains(&note), "{shown}");
        let mode_of =
            |below: &str| std::fs::metadata(context.path(below)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode_of(FOLDER), mode_of(&format!("{FOLDER}/d.env-TOKEN"))), (0o700, 0o600));
    }
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
