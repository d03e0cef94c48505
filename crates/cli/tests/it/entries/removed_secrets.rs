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
