//! `bowline add`, `remove`, `enable`, `disable`, `list` and `edit`.

mod refusals;
#[cfg(unix)]
mod removed_secrets;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bowline_testkit::{self as testkit, Fault};
use serde_json::Value;

use crate::context::{Context, snapshot, toml_path};
use crate::status::http_entry;

pub(crate) const FILE: &str = "home/.config/bowline/config.toml";

pub(crate) fn config(context: &Context) -> Option<String> {
    std::fs::read_to_string(context.path(FILE)).ok()
}

#[tokio::test]
async fn a_server_that_works_is_added() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").tool("add").prompt("greet", "Hello").run().await;
    let url = server.url();
    context.user_config("# Mine.\n\n[servers.other]\nurl = \"http://127.0.0.1:9/\" # down\n");
    snapshot!(context.run(context.bowline(["add", "notes", &url, "-H", "X-Key: ${HOME}"])), @"
    exit: 0
    --- stdout
    testkit 1.0.0, http, 2025-11-25 (legacy)
    2 tools, 1 prompt
    --- stderr
    note: added `notes` to [TMP]/home/.config/bowline/config.toml; see `bowline tools notes`
    ---
    ");
    let expected = format!(
        "# Mine.\n\n[servers.other]\nurl = \"http://127.0.0.1:9/\" # down\n\n[servers.notes]\nurl = \"{url}\"\nheaders = {{ X-Key = \"${{HOME}}\" }}\n"
    );
    assert_eq!(config(&context).unwrap(), expected);
    // What it listed is known already.
    server.stop().await;
    let found = context.run(context.bowline(["search", "echo"]));
    assert!(found.contains("tool\tnotes\techo\t"), "{found}");
    snapshot!(context.run(context.bowline(["add", "notes", &url])), @"
    exit: 2
    --- stdout
    --- stderr
    error: there is a server named `notes` in [TMP]/home/.config/bowline/config.toml

    hint: choose another NAME, or use --replace
    ---
    ");
    assert_eq!(config(&context).unwrap(), expected);
}

/// A file that is created is for its owner only.
#[cfg(unix)]
#[tokio::test]
async fn the_first_server_makes_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let context = Context::new();
    std::fs::remove_dir_all(context.path("home/.config")).unwrap();
    let server = testkit::server().modern().tool("echo").stdio().await;
    let command = server.command();
    let mut words: Vec<String> = ["add", "--json", "mine"].map(String::from).to_vec();
    words.extend(command.env.iter().flat_map(|(key, value)| ["-e".to_owned(), format!("{key}={value}")]));
    words.extend(["--".to_owned(), command.program.display().to_string()]);
    words.extend(command.args.iter().cloned());
    let output = context.bowline(&words).output().unwrap();
    let added: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&added["name"], &added["offered"]["tools"]), (&Value::from("mine"), &Value::from(1)));
    let mode = std::fs::metadata(context.path(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let called = context.run(context.bowline(["call", "mine", "echo", "a=b"]));
    assert!(called.starts_with("exit: 0\n"), "{called}");
}

#[tokio::test]
async fn a_server_that_does_not_work_is_not_added() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    let url = server.url();
    server.stop().await;
    let shown = context.run(context.bowline(["add", "gone", &url]));
    assert!(shown.starts_with("exit: 3\n"), "{shown}");
    assert!(shown.contains("config.toml was not changed; `--no-check` adds the entry as it is\n"), "{shown}");
    assert_eq!(config(&context), None);
    snapshot!(context.run(context.bowline(["add", "gone", &url, "--no-check"])), @"
    exit: 0
    --- stdout
    --- stderr
    note: added `gone` to [TMP]/home/.config/bowline/config.toml; see `bowline tools gone`
    ---
    ");
    assert_eq!(config(&context).unwrap(), format!("[servers.gone]\nurl = \"{url}\"\n"));
    server.start().await;
    let other = testkit::server().tool("add").run().await;
    let replaced = context.run(context.bowline(["add", "gone", &other.url(), "--replace"]));
    assert!(replaced.starts_with("exit: 0\n"), "{replaced}");
    assert_eq!(config(&context).unwrap(), format!("[servers.gone]\nurl = \"{}\"\n", other.url()));
    // A name that no entry can have.
    let shown = context.run(context.bowline(["add", "a b", &url]));
    assert!(shown.starts_with("exit: 2\n"), "{shown}");
    assert!(!config(&context).unwrap().contains("a b"));
}

/// A limit that the check needed is needed by later commands as well.
#[tokio::test]
async fn a_limit_for_connecting_is_added_unless_it_is_the_default() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    let url = server.url();
    for (name, limit) in [("slow", "120s"), ("quick", "500ms"), ("usual", "30s")] {
        let words = ["add", name, &url, "--no-check", "--connect-timeout", limit];
        let added = context.run(context.bowline(words));
        assert!(added.starts_with("exit: 0\n"), "{added}");
    }
    let expected = format!(
        "[servers.slow]\nurl = \"{url}\"\nconnect_timeout = \"2m\"\n\n\
         [servers.quick]\nurl = \"{url}\"\nconnect_timeout = \"500ms\"\n\n\
         [servers.usual]\nurl = \"{url}\"\n"
    );
    assert_eq!(config(&context).unwrap(), expected);
    let silent = testkit::server().fault(Fault::silent().always()).run().await;
    let shown = context.run(context.bowline(["add", "silent", &silent.url(), "--connect-timeout", "1s"]));
    assert!(shown.starts_with("exit: 4\n"), "{shown}");
    assert!(shown.contains("hint: allow more time with --connect-timeout"), "{shown}");
    assert_eq!(config(&context).unwrap(), expected);
}

/// A limit for messages is for the check and for the entry.
#[tokio::test]
async fn a_limit_for_messages_is_added() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    let url = server.url();
    let words = ["add", "notes", &url, "--message-limit", "256"];
    let added = context.run(context.bowline(words));
    assert!(added.starts_with("exit: 0\n"), "{added}");
    let entry = format!("[servers.notes]\nurl = \"{url}\"\nmessage_limit_mib = 256\n");
    assert_eq!(config(&context).unwrap(), entry);
}

/// `add` has no option for the era: the entry has a key for it.
#[tokio::test]
async fn the_hint_at_the_older_era_fits_add() {
    let context = Context::new();
    let error = Fault::error(-32603, "unavailable on 2026-07-28 connections").on("tools/list").always();
    let server = testkit::server().modern().tool("echo").fault(error).run().await;
    let shown = context.run(context.bowline(["add", "notes", &server.url()]));
    let hint = "\nhint: if the server's support of 2026-07-28 is the problem, add it with --no-check, and set \
                `protocol = \"legacy\"` in its entry\n";
    assert!(shown.contains(hint), "{shown}");
    assert_eq!(config(&context), None);
}

#[test]
fn names_without_a_letter_or_digit_are_refused() {
    let context = Context::new();
    for name in [".", "..", "-"] {
        let shown = context.run(context.bowline(["add", name, "http://127.0.0.1:9/", "--no-check"]));
        let expected = format!(
            "exit: 2\n--- stdout\n--- stderr\nerror: `{name}` cannot be the name of a server\n\n\
             hint: choose a NAME with a letter, a digit or `_` in it\n"
        );
        assert!(shown.starts_with(&expected), "{shown}");
    }
    assert_eq!(config(&context), None);
}

#[test]
fn what_is_no_url_gets_the_hint_that_fits() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["add", "u3", "npx -y foo"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `npx -y foo` is neither a URL nor a package

    hint: for a command, write its words after `--`: bowline add u3 -- npx -y foo
    ---
    ");
    for (word, scheme) in [
        ("localhost:3000/mcp", "http"),
        ("127.0.0.1:3000/mcp", "http"),
        ("[::1]:3000/mcp", "http"),
        ("docs.example:3000/mcp", "https"),
    ] {
        let shown = context.run(context.bowline(["add", "u3", word]));
        assert!(shown.starts_with("exit: 2\n"), "{shown}");
        assert!(shown.contains(&format!("hint: write {scheme}://{word} for a URL, ")), "{shown}");
    }
}

/// SE-04: what somebody else has published is started only after a yes.
#[tokio::test]
async fn se_04_a_package_is_shown_and_approved() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["add", "npm:some-server"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `npx -y some-server` was not started, as there is no terminal to ask you on

    hint: use --yes if it may be started, or --no-check to add it without starting it
    ---
    ");
    assert_eq!(config(&context), None);
    let added = context.run(context.bowline(["add", "pypi:mcp-server-fetch", "--no-check"]));
    assert!(added.starts_with("exit: 0\n"), "{added}");
    let entry = "[servers.fetch]\ncommand = \"uvx\"\nargs = [\"mcp-server-fetch\"]\n";
    assert_eq!(config(&context).unwrap(), entry);
}

/// A link by which a page installs a server in Cursor.
pub(crate) fn cursor_link(name: &str, config: &str) -> String {
    let config = BASE64_STANDARD.encode(config);
    format!("cursor://anysphere.cursor-deeplink/mcp/install?name={name}&config={config}")
}

/// SE-04: so is the command of an install link, with everything that is in it.
#[test]
fn se_04_an_install_link_is_shown_whole_and_approved() {
    let context = Context::new();
    let config_of_link = r#"{"command": "touch", "args": ["made\nup"], "env": {"API_TOKEN": "x"}}"#;
    let link = cursor_link("my%20page", config_of_link);
    snapshot!(context.run(context.bowline(["add", &link])), @r"
    exit: 2
    --- stdout
    --- stderr
    error: `API_TOKEN=x touch 'made\nup'` was not started, as there is no terminal to ask you on

    hint: use --yes if it may be started, or --no-check to add it without starting it
    ---
    ");
    assert_eq!(config(&context), None);
    snapshot!(context.run(context.bowline(["add", &link, "--no-check", "-e", "API_TOKEN=y"])), @r"
    exit: 0
    --- stdout
    --- stderr
    note: the command is `touch 'made\nup'`
    note: added `my-page` to [TMP]/home/.config/bowline/config.toml; see `bowline tools my-page`
    ---
    ");
    let entry =
        "[servers.my-page]\ncommand = \"touch\"\nargs = [\"made\\nup\"]\nenv = { API_TOKEN = \"y\" }\n";
    assert_eq!(config(&context).unwrap(), entry);
    let vscode = "vscode:mcp/install?%7B%22name%22%3A%22docs%22%2C%22url%22%3A%22https%3A%2F%2Fh%2Fmcp%22%7D";
    snapshot!(context.run(context.bowline(["add", "own", vscode])), @"
    exit: 2
    --- stdout
    --- stderr
    error: did not connect to https://h/mcp, as there is no terminal to ask you on

    hint: use --yes to connect, or --no-check to add it without connecting
    ---
    ");
    snapshot!(context.run(context.bowline(["add", "vscode:mcp/install?%7B"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: the install link cannot be used: its configuration is not JSON: EOF while parsing an object at line 1 column 1

    hint: copy the whole link, and write it in single quotes
    ---
    ");
    snapshot!(context.run(context.bowline(["add", &cursor_link("..", r#"{"command": "x"}"#)])), @"
    exit: 2
    --- stdout
    --- stderr
    error: NAME is missing, and none can be derived from the rest

    hint: see `bowline add --help` for examples
    ---
    ");
    snapshot!(context.run(context.bowline(["add", "..", &link])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `..` cannot be the name of a server

    hint: choose a NAME with a letter, a digit or `_` in it
    ---
    ");
    snapshot!(context.run(context.bowline(["add", vscode, "-e", "A=b"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: -e and --cwd are for a command that is started

    hint: see `bowline add --help` for examples
    ---
    ");
}

#[tokio::test]
async fn variables_are_taken_from_the_environment() {
    let context = Context::new();
    let server = testkit::server().tool("echo").stdio().await;
    let command = server.command();
    let program = command.program.display().to_string();
    let add = |words: &[&str]| {
        let mut all = vec!["add", "mine", "--no-check"];
        all.extend(words);
        all.extend(["--", &program]);
        let mut bowline = context.bowline(all);
        bowline.env("SET", "value");
        context.run(bowline)
    };
    snapshot!(add(&["-e", "UNSET"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: UNSET is not set, and there is no terminal to ask you on

    hint: set UNSET, or write -e UNSET=VALUE
    ---
    ");
    let added = add(&["-e", "SET", "-e", "GIVEN=1"]);
    assert!(added.starts_with("exit: 0\n"), "{added}");
    let command = toml_path(&command.program).replace('\'', "\"");
    let expected =
        format!("[servers.mine]\ncommand = {command}\nenv = {{ SET = \"${{SET}}\", GIVEN = \"1\" }}\n");
    assert_eq!(config(&context).unwrap(), expected);
}

/// Changes at the same time are made one after the other, and none is lost.
#[tokio::test]
async fn entries_are_added_at_the_same_time() {
    let context = Context::new();
    let added: Vec<_> = (0..10)
        .map(|n| {
            let (name, url) = (format!("s{n}"), format!("http://127.0.0.1:9/{n}"));
            context.bowline(["add", "--no-check", &name, &url]).spawn().unwrap()
        })
        .collect();
    for mut child in added {
        assert!(child.wait().unwrap().success());
    }
    let text = config(&context).unwrap();
    assert!((0..10).all(|n| text.contains(&format!("[servers.s{n}]\n"))), "{text}");
}

/// A view that names a server which is gone is not served, so that is said.
#[tokio::test]
async fn a_problem_that_a_change_makes_is_said() {
    let context = Context::new();
    let views = "[views.v]\nservers = ['a']\n";
    context.user_config(&format!("[servers.a]\nurl = 'http://h/'\n[servers.b]\nurl = 'http://h/'\n{views}"));
    let removed = context.run(context.bowline(["remove", "a"]));
    assert!(removed.starts_with("exit: 0\n"), "{removed}");
    assert!(removed.contains("note: now there is a problem: views.v.servers"), "{removed}");
}

#[tokio::test]
async fn entries_are_listed_disabled_enabled_and_removed() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    let file =
        format!("# One.\n{}\n# Two.\n[servers.two]\ncommand = 'none' # odd\n", http_entry("one", &server));
    context.user_config(&file);
    context.run(context.bowline(["tools"]));
    snapshot!(context.run(context.bowline(["disable", "two"])), @"
    exit: 0
    --- stdout
    --- stderr
    note: disabled `two` in [TMP]/home/.config/bowline/config.toml
    ---
    ");
    snapshot!(context.run(context.bowline(["list"])), @"
    exit: 0
    --- stdout
    one	enabled	1	http://127.0.0.1:[PORT]/mcp
    two	disabled		none
    --- stderr
    ---
    ");
    assert_eq!(server.count("tools/list"), 1, "nothing is asked for a list");
    let enabled = context.run(context.bowline(["enable", "two"]));
    assert!(enabled.starts_with("exit: 0\n"), "{enabled}");
    assert!(config(&context).unwrap().ends_with("command = 'none' # odd\nenabled = true\n"));
    snapshot!(context.run(context.bowline(["remove", "two", "on"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: there is no server named `on` in [TMP]/home/.config/bowline/config.toml; nothing was changed

    hint: did you mean `one`?
    ---
    ");
    assert!(config(&context).unwrap().contains("[servers.two]"));
    snapshot!(context.run(context.bowline(["remove", "two", "two"])), @"
    exit: 0
    --- stdout
    --- stderr
    note: removed `two` from [TMP]/home/.config/bowline/config.toml
    ---
    ");
    assert_eq!(config(&context).unwrap(), format!("# One.\n{}", http_entry("one", &server)));
}

#[test]
fn an_entry_that_is_no_table_is_not_called_unknown() {
    let context = Context::new();
    context.user_config("[servers]\na = 'x'\n");
    snapshot!(context.run(context.bowline(["disable", "a"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: the entry `a` in [TMP]/home/.config/bowline/config.toml is not a table; nothing was changed

    hint: fix it with `bowline edit`
    ---
    ");
}

#[cfg(unix)]
#[test]
fn an_editor_is_started_and_the_file_is_checked() {
    use std::os::unix::fs::PermissionsExt as _;
    let context = Context::new();
    snapshot!(context.run(context.bowline(["edit"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: no editor is known

    hint: set EDITOR, or open [TMP]/home/.config/bowline/config.toml yourself
    ---
    ");
    // The editor finds a folder that nobody else can read.
    std::fs::remove_dir_all(context.path("home/.config")).unwrap();
    let script = |text: &str| {
        context.write("home/editor", format!("#!/bin/sh\nprintf '%s\\n' '{text}' > \"$2\"\n"));
        context.set_mode("home/editor", 0o755);
        let mut edit = context.bowline(["edit"]);
        edit.env("EDITOR", format!("{} --wait", context.path("home/editor").display()));
        context.run(edit)
    };
    assert_eq!(script("[servers.a]\nurl = \"http://h/\""), "exit: 0\n--- stdout\n--- stderr\n---");
    assert_eq!(config(&context).unwrap(), "[servers.a]\nurl = \"http://h/\"\n");
    for folder in ["home/.config", "home/.config/bowline"] {
        let mode = std::fs::metadata(context.path(folder)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{folder}");
    }
    let wrong = script("[servers.a]\nurll = \"http://h/\"");
    assert!(wrong.starts_with("exit: 2\n") && wrong.contains("urll"), "{wrong}");
}

#[cfg(unix)]
#[test]
fn path_of_an_editor_may_have_spaces() {
    let context = Context::new();
    std::fs::create_dir(context.path("home/My Editor")).unwrap();
    let editor = context.write(
        "home/My Editor/ed",
        "#!/bin/sh\nfor file; do :; done\nprintf '# %s\\n' \"$#\" \"$1\" > \"$file\"\n",
    );
    context.set_mode("home/My Editor/ed", 0o755);
    let edit = |variable: &str, value: String| {
        let mut edit = context.bowline(["edit"]);
        edit.env(variable, value);
        context.run(edit)
    };
    let editor = editor.display();
    assert_eq!(edit("EDITOR", format!("{editor}")), "exit: 0\n--- stdout\n--- stderr\n---");
    assert!(config(&context).unwrap().starts_with("# 1\n# /"), "no argument but the file");
    assert_eq!(edit("VISUAL", format!("\"{editor}\" --wait")), "exit: 0\n--- stdout\n--- stderr\n---");
    assert_eq!(config(&context).unwrap(), "# 2\n# --wait\n");
    snapshot!(edit("EDITOR", format!("{editor} --wait")), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: `[TMP]/home/My`, the editor of $EDITOR, cannot be started: no such file

    hint: a path with spaces has to be in quotes if arguments follow it: '"/path with spaces/editor" --wait'
    ---
    "#);
    snapshot!(edit("VISUAL", "/nowhere/ed".to_owned()), @"
    exit: 2
    --- stdout
    --- stderr
    error: `/nowhere/ed`, the editor of $VISUAL, cannot be started: no such file

    hint: set $VISUAL to another editor
    ---
    ");
    snapshot!(edit("VISUAL", "'/nowhere/ed".to_owned()), @"
    exit: 2
    --- stdout
    --- stderr
    error: a quote in $VISUAL is not closed
    ---
    ");
}
