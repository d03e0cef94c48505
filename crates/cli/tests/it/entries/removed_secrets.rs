//! What becomes of the files of secrets when their entry is removed or replaced.

use super::config;
use crate::context::{Context, snapshot};

const FOLDER: &str = "home/.config/bowline/secrets";

fn store(context: &Context, names: &[&str]) {
    std::fs::create_dir_all(context.path(FOLDER)).unwrap();
    for name in names {
        context.write(&format!("{FOLDER}/{name}"), "x");
    }
}

fn is_stored(context: &Context, name: &str) -> bool {
    context.path(FOLDER).join(name).symlink_metadata().is_ok()
}

#[test]
fn the_secrets_of_a_removed_server_are_removed_unless_they_are_used() {
    let context = Context::new();
    store(&context, &["a.env-T", "a.env-T-2", "a.arg-1", "by-hand", "shared"]);
    context.write("home/.config/bowline/own", "x");
    std::os::unix::fs::symlink("shared", context.path(FOLDER).join("link")).unwrap();
    context.write(
        "home/.config/bowline/other.toml",
        "[servers.c]\ncommand = 'c'\nenv = { T = '{file:secrets/a.arg-1}', U = '{file:secrets/a.env-T-2}' }\n",
    );
    context.user_config(
        "[servers.a]\ncommand = 'a'\nargs = ['{file:secrets/link}', '{file:own}', '{file:secrets/by-hand}', '{file:secrets/gone}']\n\
         [servers.a.env]\nT = 'x-{file: ~/.config/bowline/secrets/a.env-T }'\nU = '{file:secrets/shared}'\n\
         V = '{file:secrets/a.arg-1}'\n\
         [servers.b]\ncommand = 'b'\nenv = { T = '{file:./secrets/shared}' }\n",
    );
    snapshot!(context.run(context.bowline(["remove", "a"])), @"
    exit: 0
    --- stdout
    --- stderr
    note: removed `a` from [TMP]/home/.config/bowline/config.toml
    note: the secret file [TMP]/home/.config/bowline/secrets/a.arg-1 stays: [TMP]/home/.config/bowline/other.toml refers to it
    note: removed the secret file [TMP]/home/.config/bowline/secrets/a.env-T, which nothing refers to any more
    note: the secret file [TMP]/home/.config/bowline/secrets/by-hand stays: it is not a file that bowline has written; remove it yourself if nothing needs it
    note: the secret file [TMP]/home/.config/bowline/secrets/link stays: it is not a file that bowline has written; remove it yourself if nothing needs it
    ---
    ");
    assert!(!is_stored(&context, "a.env-T") && context.path("home/.config/bowline/own").exists());
    for name in ["a.arg-1", "a.env-T-2", "by-hand", "link", "shared"] {
        assert!(is_stored(&context, name), "{name}");
    }
    let left = "[servers.b]\ncommand = 'b'\nenv = { T = '{file:./secrets/shared}' }\n";
    assert_eq!(config(&context).unwrap(), left);
}

/// The configuration of a project is used only there, but its servers need their secrets all the same.
#[test]
fn secrets_that_a_trusted_project_elsewhere_refers_to_stay() {
    let context = Context::new();
    store(&context, &["a.env-T", "a.env-U"]);
    std::fs::create_dir(context.path("elsewhere")).unwrap();
    let project = |name: &str| {
        let text = format!(
            "[servers.p]\ncommand = 'p'\nenv = {{ T = '{{file:~/.config/bowline/secrets/{name}}}' }}\n"
        );
        context.write("elsewhere/bowline.toml", text);
        context.set_mode("elsewhere/bowline.toml", 0o644);
        let path = context.path("elsewhere/bowline.toml").display().to_string();
        let shown = context.run(context.bowline(["trust", "--yes", &path]));
        assert!(shown.starts_with("exit: 0"), "{shown}");
    };
    project("a.env-T");
    let both = "env = { T = '{file:secrets/a.env-T}', U = '{file:secrets/a.env-U}' }";
    context.user_config(&format!("[servers.a]\ncommand = 'a'\n{both}\n"));
    snapshot!(context.run(context.bowline(["remove", "a"])), @"
    exit: 0
    --- stdout
    --- stderr
    note: removed `a` from [TMP]/home/.config/bowline/config.toml
    note: the secret file [TMP]/home/.config/bowline/secrets/a.env-T stays: [TMP]/elsewhere/bowline.toml refers to it
    note: removed the secret file [TMP]/home/.config/bowline/secrets/a.env-U, which nothing refers to any more
    ---
    ");
    assert!(is_stored(&context, "a.env-T") && !is_stored(&context, "a.env-U"));
}

/// The file of another server, one with a name of its own, and one that a configuration may refer to.
#[test]
fn secrets_that_may_be_of_use_elsewhere_stay() {
    let context = Context::new();
    store(&context, &["a.env-T", "a.env-U", "a.env-V", "a.url-list", "prod.url"]);
    std::fs::write(context.path("home/.config/bowline/torn.toml"), [0xff]).unwrap();
    context.user_config(
        "[servers.a]\ncommand = 'a'\nargs = ['{file:secrets/a.url-list}', '{file:secrets/prod.url}']\n\
         env = { T = '{file:secrets/a.env-T}', U = '{file:secrets/a.env-U}', V = '{file:secrets/a.env-V}' }\n\
         [servers.b]\ncommand = 'b'\nenv = { T = '{file:secrets/../secrets/a.env-T}' }\n\
         [servers.c]\nurl = 'https://c.example/mcp'\nca_file = 'secrets/a.env-V'\n",
    );
    let by_hand = "it is not a file that bowline has written; remove it yourself if nothing needs it";
    snapshot!(context.run(context.bowline(["remove", "a"])).replace(by_hand, "BY HAND"), @"
    exit: 0
    --- stdout
    --- stderr
    note: removed `a` from [TMP]/home/.config/bowline/config.toml
    note: the secret file [TMP]/home/.config/bowline/secrets/a.env-T stays: [TMP]/home/.config/bowline/config.toml still names it
    note: the secret file [TMP]/home/.config/bowline/secrets/a.env-U stays: [TMP]/home/.config/bowline/torn.toml, which may refer to it, cannot be read: not UTF-8 text
    note: the secret file [TMP]/home/.config/bowline/secrets/a.env-V stays: [TMP]/home/.config/bowline/config.toml still names it
    note: the secret file [TMP]/home/.config/bowline/secrets/a.url-list stays: BY HAND
    note: the secret file [TMP]/home/.config/bowline/secrets/prod.url stays: BY HAND
    ---
    ");
    for name in ["a.env-T", "a.env-U", "a.env-V", "a.url-list", "prod.url"] {
        assert!(is_stored(&context, name), "{name}");
    }
}

#[test]
fn the_secret_of_a_server_that_add_replaces_is_removed() {
    let context = Context::new();
    store(&context, &["a.env-T"]);
    context.user_config("[servers.a]\ncommand = 'a'\nenv = { T = '{file:secrets/a.env-T}' }\n");
    let words = ["add", "a", "http://127.0.0.1:9/", "--no-check", "--replace"];
    snapshot!(context.run(context.bowline(words)), @"
    exit: 0
    --- stdout
    --- stderr
    note: removed the secret file [TMP]/home/.config/bowline/secrets/a.env-T, which nothing refers to any more
    note: added `a` to [TMP]/home/.config/bowline/config.toml; see `bowline tools a`
    ---
    ");
    assert!(!is_stored(&context, "a.env-T"));
}
