//! What is said when the configuration or the arguments cannot be used, with the next step.

use super::{FILE, config, cursor_link};
use crate::context::{Context, snapshot};

#[test]
fn what_is_no_url_or_package_is_shown_with_an_example() {
    let context = Context::new();
    let add = |word: &str| context.run(context.bowline(["add", "u", word]));
    for (word, error) in [
        ("ftp://me:hush@files.example/", "the URL ftp://files.example/ is neither http nor https"),
        (
            "https://me:hush@h:99999/hush?hush",
            "https://h:99999 is not the start of a URL: invalid port number",
        ),
    ] {
        let hint = "write it like https://example.com/mcp";
        let expected = format!("exit: 2\n--- stdout\n--- stderr\nerror: {error}\n\nhint: {hint}\n---");
        assert_eq!(add(word), expected);
    }
    for word in ["npm:", "pypi:a b"] {
        let hint = "write it like npm:@modelcontextprotocol/server-everything or pypi:mcp-server-fetch";
        let expected = format!(
            "exit: 2\n--- stdout\n--- stderr\nerror: `{word}` is not the name of a package\n\nhint: {hint}\n---"
        );
        assert_eq!(add(word), expected);
    }
    assert_eq!(config(&context), None);
}

#[test]
fn fields_that_a_link_may_have_are_named() {
    let context = Context::new();
    let link = cursor_link("a", r#"{"command": "x", "headersHelper": "y"}"#);
    snapshot!(context.run(context.bowline(["add", &link])), @"
    exit: 2
    --- stdout
    --- stderr
    error: the install link cannot be used: it has the field `headersHelper`, which bowline does not know

    hint: add the server by its URL or its command; known fields are args, auth, command, cwd, description, env, envFile, gallery, headers, oauth, type, url, version
    ---
    ");
}

#[test]
fn a_configuration_that_is_not_utf_8_is_named() {
    let context = Context::new();
    std::fs::write(context.path(FILE), [0xff, 0xfe]).unwrap();
    let expected = "exit: 2\n--- stdout\n--- stderr\nerror: cannot use [TMP]/home/.config/bowline/config.toml: \
                    not UTF-8 text\n\nhint: save it as UTF-8\n---";
    for verb in ["remove", "tools"] {
        assert_eq!(context.run(context.bowline([verb, "a"])), expected);
    }
}

#[cfg(unix)]
#[test]
fn a_lock_that_cannot_be_taken_is_named() {
    let context = Context::new();
    context.user_config("[servers.a]\ncommand = 'a'\n");
    std::fs::create_dir_all(context.path("home/.local/state/bowline/config.lock")).unwrap();
    for (folder, mode) in [("home/.local/state/bowline", 0o700), ("home/.local/state", 0o755)] {
        context.set_mode(folder, mode);
    }
    let remove = || context.run(context.bowline(["remove", "a"]));
    let path = "[TMP]/home/.local/state/bowline/config.lock";
    snapshot!(remove(), @"
    exit: 2
    --- stdout
    --- stderr
    error: the configuration cannot be changed: [TMP]/home/.local/state/bowline/config.lock cannot be locked: Is a directory

    hint: make sure that you can write to that file and to its folder
    ---
    ");
    context.set_mode("home/.local/state", 0o777);
    let expected = format!(
        "exit: 2\n--- stdout\n--- stderr\nerror: the configuration cannot be changed: {path} cannot be locked: others can \
         write to [TMP]/home/.local/state (mode 777) and may have put something there: look into it, then run `chmod 700 \
         '[TMP]/home/.local/state'`\n---"
    );
    assert_eq!(remove(), expected);
    context.set_mode("home/.local/state", 0o755);
}

#[test]
fn comments_of_the_file_outlive_its_first_server() {
    let context = Context::new();
    context.user_config("# Mine.\n# Do not share.\n");
    let added = context.run(context.bowline(["add", "a", "http://127.0.0.1:9/", "--no-check"]));
    assert!(added.starts_with("exit: 0\n"), "{added}");
    let entry = "[servers.a]\nurl = \"http://127.0.0.1:9/\"\n";
    assert_eq!(config(&context).unwrap(), format!("# Mine.\n# Do not share.\n\n{entry}"));
    context.user_config(&format!("# Mine.\n{entry}\n# Two.\n[servers.b]\ncommand = 'b'\n"));
    let removed = context.run(context.bowline(["remove", "a"]));
    assert!(removed.starts_with("exit: 0\n"), "{removed}");
    assert_eq!(config(&context).unwrap(), "# Mine.\n\n# Two.\n[servers.b]\ncommand = 'b'\n");
}
