//! `bowline import`: the files of hosts in a home of their own.

#[cfg(unix)]
mod exposure;
mod named_files;
mod secret_files;
mod shown_commands;

use bowline_testkit::{self as testkit};
use serde_json::Value;

use crate::context::{Context, snapshot};
#[cfg(unix)]
use crate::pty::{DOWN, ENTER, ESCAPE, Person};

const CONFIG: &str = "home/.config/bowline/config.toml";

fn config(context: &Context) -> Option<String> {
    std::fs::read_to_string(context.path(CONFIG)).ok()
}

/// Writes a file below the home or the project, with its folders.
fn write(context: &Context, below: &str, text: impl AsRef<[u8]>) {
    std::fs::create_dir_all(context.path(below).parent().unwrap()).unwrap();
    context.write(below, text);
}

/// A file of each of ten hosts, as they are in the tests of the reader.
#[cfg(target_os = "linux")]
fn write_ten_files(context: &Context) {
    let fixture = |name: &str| {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../hosts/tests/it/read_fixtures");
        std::fs::read(folder.join(name)).unwrap()
    };
    for (path, name) in [
        (".claude.json", "claude-code.json"),
        (".config/Claude/claude_desktop_config.json", "claude-desktop.json"),
        (".config/opencode/opencode.json", "opencode.json"),
        (".codex/config.toml", "codex.toml"),
        (".cursor/mcp.json", "cursor.json"),
        (".config/Code/User/mcp.json", "vscode.json"),
        (".gemini/settings.json", "gemini.json"),
        (".config/goose/config.yaml", "goose.yaml"),
        (".hermes/config.yaml", "hermes.yaml"),
        (".config/zed/settings.json", "zed.json"),
    ] {
        write(context, &format!("home/{path}"), fixture(name));
    }
}

fn servers(output: &std::process::Output) -> Vec<Value> {
    let object: Value = serde_json::from_slice(&output.stdout).expect("one object");
    object["servers"].as_array().expect("a list").clone()
}

#[test]
#[cfg(target_os = "linux")]
fn ten_files_are_imported_at_once() {
    let context = Context::new();
    write_ten_files(&context);
    context.user_config("# Mine.\n\n[servers.own]\nurl = \"https://own.example.com/\" # stays\n");
    let before = config(&context).unwrap();
    let output = context.bowline(["import", "--yes", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", context.shown(&output));
    let found = servers(&output);
    let hosts: std::collections::BTreeSet<&str> =
        found.iter().map(|server| server["host"].as_str().unwrap()).collect();
    assert_eq!(hosts.len(), 10);
    let added = found.iter().filter(|server| server["action"] == "add").count();
    let text = config(&context).unwrap();
    assert!(text.starts_with(&before), "{text}");
    assert_eq!(text.matches("\n[servers.").count(), added + 1);
    let help = context.run(context.bowline(["import", "--help"]));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let store = "With --store-secrets each one is written, unencrypted, to a file of its own in the folder `secrets` beside \
                 the configuration, which only you can read (0600), and the entry refers to it as `{file:secrets/NAME}`.";
    assert!(help.contains(store), "{help}");
    let checked = context.run(context.bowline(["config", "check"]));
    assert!(checked.starts_with("exit: 0\n"), "{checked}");
    // Everything is there now.
    let again = context.bowline(["import", "--yes", "--json", "--replace"]).output().unwrap();
    let actions: std::collections::BTreeSet<String> =
        servers(&again).iter().map(|server| server["action"].as_str().unwrap().to_owned()).collect();
    assert_eq!(actions.into_iter().collect::<Vec<_>>(), ["leave out", "same"]);
    assert_eq!(config(&context).unwrap(), text);
}

#[test]
fn nothing_is_changed_without_a_yes() {
    let context = Context::new();
    write(
        &context,
        "home/.cursor/mcp.json",
        r#"{"mcpServers": {"files": {"command": "files", "args": ["/x y"]}}}"#,
    );
    snapshot!(context.run(context.bowline(["import"])), @"
    exit: 2
    --- stdout
    cursor	files	add	files '/x y'
    --- stderr
    error: nothing was imported, as there is no terminal to ask you on

    hint: use --yes to import what is listed, or --dry-run only to look
    ---
    ");
    snapshot!(context.run(context.bowline(["import", "--dry-run"])), @"
    exit: 0
    --- stdout
    cursor	files	add	files '/x y'
    --- stderr
    note: 1 server would be imported into [TMP]/home/.config/bowline/config.toml; nothing was changed
    ---
    ");
    let output = context.bowline(["import", "--json"]).output().unwrap();
    assert_eq!((output.status.code(), servers(&output).len()), (Some(2), 1));
    assert_eq!(config(&context), None);
    snapshot!(context.run(context.bowline(["import", "--yes"])), @"
    exit: 0
    --- stdout
    cursor	files	add	files '/x y'
    --- stderr
    note: imported 1 server into [TMP]/home/.config/bowline/config.toml; see `bowline list`
    ---
    ");
    assert_eq!(config(&context).unwrap(), "[servers.files]\ncommand = \"files\"\nargs = [\"/x y\"]\n");
}

#[test]
fn clashes_are_shown_and_replaced_on_request() {
    let context = Context::new();
    let file = |url: &str| format!(r#"{{"mcpServers": {{"a": {{"url": "{url}"}}}}}}"#);
    write(&context, "home/.cursor/mcp.json", file("https://one.example.com/"));
    write(&context, "home/.codeium/windsurf/mcp_config.json", file("https://two.example.com/"));
    write(&context, "home/.copilot/mcp-config.json", file("https://one.example.com/"));
    context.user_config("[servers.a]\nurl = 'https://mine.example.com/'\n");
    snapshot!(context.run(context.bowline(["import", "--dry-run", "--replace"])), @"
    exit: 0
    --- stdout
    cursor	a	replace	https://one.example.com/
    windsurf	a	add as a-windsurf	https://two.example.com/
    copilot	a	same	https://one.example.com/
    --- stderr
    note: `a` of cursor: `a` of your configuration differs, and is replaced
    note: `a` of windsurf: `a` of Cursor differs, so this one is `a-windsurf`
    note: 2 servers would be imported into [TMP]/home/.config/bowline/config.toml; nothing was changed
    ---
    ");
    snapshot!(context.run(context.bowline(["import", "cursor", "--yes"])), @"
    exit: 0
    --- stdout
    cursor	a	keep	https://one.example.com/
    --- stderr
    note: `a` of cursor: `a` of your configuration differs, and stays; --replace overwrites it
    note: there is nothing to import; [TMP]/home/.config/bowline/config.toml was not changed
    ---
    ");
    let replaced = context.run(context.bowline(["import", "cursor", "--yes", "--replace"]));
    assert!(replaced.starts_with("exit: 0\n"), "{replaced}");
    assert_eq!(config(&context).unwrap(), "[servers.a]\nurl = \"https://one.example.com/\"\n");
}

#[test]
fn files_that_cannot_be_read_do_not_stop_the_others() {
    let context = Context::new();
    write(&context, "home/.cursor/mcp.json", "{\n  \"mcpServers\": {\n    \"a\" 1\n");
    write(&context, "home/.codex/config.toml", b"\xff\xfe");
    write(&context, "home/.gemini/settings.json", vec![b' '; 33 * 1024 * 1024]);
    std::fs::create_dir_all(context.path("home/.hermes/config.yaml")).unwrap();
    write(&context, "home/.copilot/mcp-config.json", r#"{"mcpServers": {"ok": {"command": "ok"}}}"#);
    snapshot!(context.run(context.bowline(["import", "--yes"])), @r"
    exit: 0
    --- stdout
    copilot	ok	add	ok
    --- stderr
    note: [TMP]/home/.codex/config.toml is left out: not UTF-8 text (save it as UTF-8)
    note: [TMP]/home/.cursor/mcp.json:3 is left out: not valid JSON: expected colon after the string or word in object property
    note: [TMP]/home/.gemini/settings.json is left out: larger than 32 MiB
    note: [TMP]/home/.hermes/config.yaml is left out: not a regular file
    note: imported 1 server into [TMP]/home/.config/bowline/config.toml; see `bowline list`
    ---
    ");
    assert_eq!(config(&context).unwrap(), "[servers.ok]\ncommand = \"ok\"\n");
}

#[test]
fn secrets_are_never_shown_and_move_into_files_on_request() {
    let context = Context::new();
    let file = r#"{"mcpServers": {
        "http": {"url": "https://h.example.com/?api_key=hush-1", "headers": {"Authorization": "Bearer hush-2"}},
        "stdio": {"command": "s", "args": ["--token", "hush-3"], "env": {"A_KEY": "hush-${4}"}}}}"#;
    write(&context, "home/.config/Claude/claude_desktop_config.json", file);
    write(&context, "project/mine.json", file);
    let mine = context.path("project/mine.json").display().to_string();
    for words in
        [&["import", "--dry-run"][..], &["import", "--json"], &["import", &mine, "--dry-run", "-vvv"]]
    {
        let shown = context.run(context.bowline(words));
        assert!(!shown.contains("hush"), "{shown}");
        assert!(shown.contains("https://h.example.com/?api_key=[redacted]"), "{shown}");
    }
    #[cfg(unix)]
    {
        context.user_config("");
        context.set_mode(CONFIG, 0o644);
        let shown = context.run(context.bowline(["import", "--dry-run"]));
        assert!(
            shown.contains("into your configuration, which other users can read; --store-secrets"),
            "{shown}"
        );
        std::fs::remove_file(context.path(CONFIG)).unwrap();
    }
    let shown = context.run(context.bowline(["import", &mine, "--yes", "--store-secrets"]));
    assert!(shown.starts_with("exit: 0\n") && !shown.contains("hush"), "{shown}");
    assert!(
        shown.contains("the secrets of 2 servers go into files in [TMP]/home/.config/bowline/secrets\n"),
        "{shown}"
    );
    assert_eq!(
        config(&context).unwrap(),
        "[servers.http]\nurl = \"https://h.example.com/?api_key={file:secrets/http.url}\"\n\
         headers = { Authorization = \"Bearer {file:secrets/http.header-Authorization}\" }\n\n\
         [servers.stdio]\ncommand = \"s\"\nargs = [\"--token\", \"{file:secrets/stdio.arg-2}\"]\n\
         env = { A_KEY = \"{file:secrets/stdio.env-A_KEY}\" }\n"
    );
    let stored = context.path("home/.config/bowline/secrets/stdio.env-A_KEY");
    assert_eq!(std::fs::read_to_string(&stored).unwrap(), "hush-${4}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&stored).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(stored.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    }
    let checked = context.run(context.bowline(["config", "check"]));
    assert!(checked.starts_with("exit: 0\n"), "{checked}");
    // The values are the same, wherever they are.
    let again = context.run(context.bowline(["import", &mine, "--yes"]));
    assert!(again.contains("there is nothing to import"), "{again}");
}

/// Entries that others add meanwhile are not lost, and each server is imported once.
#[test]
fn changes_at_the_same_time_are_not_lost() {
    let context = Context::new();
    write(&context, "home/.cursor/mcp.json", r#"{"mcpServers": {"c": {"command": "c"}}}"#);
    write(&context, "home/.copilot/mcp-config.json", r#"{"mcpServers": {"d": {"command": "d"}}}"#);
    let import = |host: &str| context.bowline(["import", "--yes", host]).spawn().unwrap();
    let add = |n: usize| {
        let (name, url) = (format!("s{n}"), format!("http://127.0.0.1:9/{n}"));
        context.bowline(["add", "--no-check", &name, &url]).spawn().unwrap()
    };
    let children: Vec<_> = (0..6).map(add).chain([import("cursor"), import("copilot")]).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let text = config(&context).unwrap();
    let names = ["s0", "s1", "s2", "s3", "s4", "s5", "c", "d"];
    assert!(names.iter().all(|name| text.matches(&format!("[servers.{name}]\n")).count() == 1), "{text}");
}

/// A relay of a real server becomes an entry that reaches it, with the header.
#[tokio::test]
async fn a_relay_becomes_an_entry_that_works() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    let url = server.url();
    let file = serde_json::json!({"mcpServers": {"my docs": {
        "command": "npx",
        "args": ["-y", "mcp-remote@latest", url, "3334", "--header", "X-Key:${KEY}", "--debug"],
        "env": {"KEY": "k1"},
    }}});
    write(&context, "home/.cursor/mcp.json", file.to_string());
    let shown = context.run(context.bowline(["import", "--yes"]));
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    let expected = format!("[servers.my-docs]\nurl = \"{url}\"\nheaders = {{ X-Key = \"k1\" }}\n");
    assert_eq!(config(&context).unwrap(), expected);
    let tools = context.run(context.bowline(["tools", "my-docs"]));
    assert!(tools.starts_with("exit: 0\n") && tools.contains("echo"), "{tools}");
}

/// SE-04: nothing that a file names is started, before the yes or after it.
#[test]
#[cfg(unix)]
fn se_04_an_import_starts_nothing() {
    let context = Context::new();
    let marker = context.path("started").display().to_string();
    let touch = format!("touch {marker}");
    let file = serde_json::json!({"mcpServers": {
        "a": {"command": "touch", "args": [marker]},
        "b": {"command": "sh", "args": ["-c", touch]},
        "c": {"url": "http://127.0.0.1:9/mcp", "headersHelper": touch},
        "d": {"command": format!("$({touch})"), "args": [format!("`{touch}`")]},
        "e": {"command": "npx", "args": ["mcp-remote", "http://127.0.0.1:9/mcp", "--header", format!("A: $({touch})")]},
    }});
    write(&context, "home/.claude.json", file.to_string());
    for words in [&["import", "--dry-run"][..], &["import", "--yes"], &["import", "--yes", "--replace"]] {
        let shown = context.run(context.bowline(words));
        assert!(shown.starts_with("exit: 0\n"), "{shown}");
    }
    assert!(config(&context).unwrap().contains("[servers.e]"));
    assert!(!context.path("started").exists());
}

/// SE-04: the whole command is shown before the question, and no is the default.
#[test]
#[cfg(unix)]
fn se_04_a_person_sees_the_whole_command_first() {
    let context = Context::new();
    let last = "\u{1b}[2J--the-last-word";
    let args: Vec<String> = (0..60).map(|n| format!("--option-{n}")).chain([last.to_owned()]).collect();
    let file = serde_json::json!({"mcpServers": {"long": {"command": "server", "args": args, "env": {"A": "b\n\nc"}}}});
    write(&context, "home/.cursor/mcp.json", file.to_string());
    for (keys, code) in [(&[ENTER][..], 2), (&[ESCAPE], 2), (&[DOWN, ENTER], 0)] {
        let mut person = Person::sits_at(context.bowline(["import"]));
        let asked = person.sees("> No");
        assert!(asked.contains("Their commands run with your rights when they are used."), "{asked}");
        for key in keys {
            if *key == DOWN {
                person.answers(DOWN, "> Yes");
            } else {
                person.presses(key);
            }
        }
        let end = person.leaves();
        assert_eq!(end.code, code, "{}", end.screen);
        assert!(end.stdout.contains("--option-59 '\\u{1b}[2J--the-last-word'"), "{}", end.stdout);
        assert!(end.stdout.contains("'A=b\\n\\nc' server --option-0 "), "{}", end.stdout);
        assert_eq!(config(&context).is_some(), code == 0);
    }
}

/// SE-04: on a narrow terminal the command is wrapped, and no part of it is missing.
#[test]
#[cfg(unix)]
fn se_04_commands_are_wrapped_and_never_cut() {
    let context = Context::new();
    let file = r#"{"servers": {"a-server-with-a-long-name": {"command": "npx", "args": ["-y", "@scope/package-with-a-very-long-name-indeed@1.2.3", "--root", "/srv/data"]}}}"#;
    write(&context, "project/.vscode/mcp.json", file);
    let bowline = context.bowline(["import", "--dry-run", "--color", "never", "-q"]);
    let shown = crate::terminal::on_terminal_of(80, bowline).replace("\r\n", "\n");
    let shown = shown.replace(&context.path("").display().to_string(), "/TMP/");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let column = shown.lines().next().and_then(|header| header.find("SERVER")).expect("a header");
    let table: String = shown.lines().skip(1).filter_map(|line| line.get(column..)).collect();
    let words: String =
        "npx -y @scope/package-with-a-very-long-name-indeed@1.2.3 --root /srv/data".replace(' ', "");
    assert!(table.replace(' ', "").starts_with(&words), "{shown}");
}

#[test]
fn files_of_the_project_are_marked_and_know_their_folder() {
    let context = Context::new();
    let file = r#"{"servers": {"s": {"command": "./s", "args": ["${workspaceFolder}/x"]}}}"#;
    write(&context, "project/.vscode/mcp.json", file);
    write(&context, "home/.cursor/mcp.json", r#"{"mcpServers": {"u": {"command": "u"}}}"#);
    snapshot!(context.run(context.bowline(["import", "--dry-run", "-q"])), @"
    exit: 0
    --- stdout
    cursor	u	add	u
    vscode (project)	s	add	./s [TMP]/project/x (in [TMP]/project)
    --- stderr
    ---
    ");
    let only = context.bowline(["import", "--project", "--json", "--dry-run"]).output().unwrap();
    let found = servers(&only);
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0]["scope"], &found[0]["name"]), (&Value::from("project"), &Value::from("s")));
    let named = context.bowline(["import", "../.vscode/mcp.json", "-q", "--dry-run"]).output().unwrap();
    assert!(
        String::from_utf8_lossy(&named.stdout).starts_with("vscode (project)\ts\tadd\t./s "),
        "{named:?}"
    );
}

/// Both files in which a plugin of Claude Code has servers can be named.
#[test]
#[cfg(unix)]
fn files_of_a_claude_code_plugin_are_read() {
    let context = Context::new();
    let file = r#"{"name": "knots", "mcpServers": {"k": {"command": "${CLAUDE_PLUGIN_ROOT}/serve"}}}"#;
    let plugin = "home/.claude/plugins/cache/knots/1.2.0";
    write(&context, &format!("{plugin}/.claude-plugin/plugin.json"), file);
    write(&context, &format!("{plugin}/.mcp.json"), file);
    let run = |name: &str| {
        let file = context.path(plugin).join(name).display().to_string();
        context.run(context.bowline(["import", &file, "--dry-run"]))
    };
    let note = "is the folder of this version of the plugin: import it again after an update\n";
    let manifest = run(".claude-plugin/plugin.json");
    let row = "claude-code\tk\tadd\t[TMP]/home/.claude/plugins/cache/knots/1.2.0/serve\n";
    assert!(manifest.contains(row) && manifest.contains(note), "{manifest}");
    let servers = run(".mcp.json");
    let row = "\tk\tadd\t[TMP]/home/.claude/plugins/cache/knots/1.2.0/serve (in [TMP]/home/.claude/plugins/cache/knots/1.2.0)\n";
    assert!(servers.contains(row) && servers.contains(note), "{servers}");
    assert_eq!(config(&context), None);
}

/// Claude Code keeps in other files what a person has switched off.
#[test]
#[cfg(target_os = "linux")]
fn servers_that_claude_code_has_switched_off_are_added_disabled() {
    let context = Context::new();
    let servers = r#"{"mcpServers": {"used": {"command": "a"}, "rejected": {"command": "b"}, "here": {"command": "c"}, "everywhere": {"command": "d"}}}"#;
    write(&context, "project/.mcp.json", servers);
    let project = context.path("project").display().to_string();
    let state = format!(r#"{{"projects": {{"{project}": {{"disabledMcpjsonServers": ["rejected"]}}}}}}"#);
    write(&context, "home/.claude.json", state);
    write(&context, "project/.claude/settings.local.json", r#"{"disabledMcpjsonServers": ["here"]}"#);
    write(&context, "home/.claude/settings.json", r#"{"deniedMcpServers": [{"serverName": "everywhere"}]}"#);
    write(&context, "project/.claude/settings.json", "{ not JSON");
    snapshot!(context.run(context.bowline(["import", "--yes"])), @"
    exit: 0
    --- stdout
    claude-code (project)	used	add	a (in [TMP]/project)
    claude-code (project)	rejected	add, disabled	b (in [TMP]/project)
    claude-code (project)	here	add, disabled	c (in [TMP]/project)
    claude-code (project)	everywhere	add, disabled	d (in [TMP]/project)
    --- stderr
    note: [TMP]/project/.claude/settings.json:1 is left out: not valid JSON: expected string for object property
    note: `rejected` of claude-code: Claude Code has it switched off (`disabledMcpjsonServers`)
    note: `here` of claude-code: Claude Code has it switched off (`disabledMcpjsonServers`)
    note: `everywhere` of claude-code: Claude Code has it switched off (`deniedMcpServers`)
    note: imported 4 servers into [TMP]/home/.config/bowline/config.toml; see `bowline list`
    ---
    ");
    let text = config(&context).unwrap();
    assert_eq!(text.matches("enabled = false\n").count(), 3, "{text}");
}

/// The name of a file counts for more than that of a folder.
#[test]
#[cfg(unix)]
fn a_folder_that_is_called_like_a_host_does_not_hide_a_file() {
    let context = Context::new();
    for folder in ["code", "src/goose"] {
        let file = format!("project/{folder}/.mcp.json");
        write(&context, &file, r#"{"mcpServers": {"s": {"command": "s"}}}"#);
        let found = servers(
            &context.bowline(["import", "--json", "--dry-run"]).arg(context.path(&file)).output().unwrap(),
        );
        assert_eq!(found.len(), 1, "{folder}");
        assert_eq!((&found[0]["host"], &found[0]["name"]), (&"claude-code".into(), &"s".into()), "{folder}");
    }
}

#[test]
fn a_named_file_without_servers_is_said_to_have_none() {
    let context = Context::new();
    write(&context, "home/.mcp.json", r#"{"mcpServers": {}}"#);
    let file = context.path("home/.mcp.json").display().to_string();
    snapshot!(context.run(context.bowline(["import", &file])), @"
    exit: 0
    --- stdout
    --- stderr
    note: [TMP]/home/.mcp.json is left out: it has no servers of Claude Code
    note: there is nothing to import; [TMP]/home/.config/bowline/config.toml was not changed
    ---
    ");
}

/// The folder of a profile has a name that VS Code makes up.
#[test]
#[cfg(target_os = "linux")]
fn servers_of_the_profiles_of_vscode_are_found() {
    let context = Context::new();
    let file = |name: &str| format!(r#"{{"servers": {{"{name}": {{"command": "{name}"}}}}}}"#);
    let folder = "home/.config/Code/User";
    write(&context, "home/.gemini/settings.json", r#"{"mcpServers": {"later": {"command": "later"}}}"#);
    write(&context, &format!("{folder}/profiles/-5f3a/mcp.json"), file("second"));
    write(&context, &format!("{folder}/profiles/-12ab/mcp.json"), file("first"));
    write(&context, &format!("{folder}/profiles/-77cd/settings.json"), "{}");
    write(&context, &format!("{folder}/mcp.json"), file("default"));
    write(&context, "home/.config/VSCodium/User/profiles/1/mcp.json", file("third"));
    let output = context.bowline(["import", "--yes", "--json"]).output().unwrap();
    let found = servers(&output);
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|server| (server["host"].as_str().unwrap(), server["name"].as_str().unwrap()))
        .collect();
    let of_vscode = ["default", "first", "second", "third"].map(|name| ("vscode", name));
    assert_eq!(found, [&of_vscode[..], &[("gemini", "later")]].concat());
    let named = context.path(&format!("{folder}/profiles/-12ab/mcp.json")).display().to_string();
    for word in ["vscode", &named] {
        let again = servers(&context.bowline(["import", word, "--json"]).output().unwrap());
        assert!(again.iter().all(|server| server["action"] == "same"), "{again:?}");
    }
}

/// The names are those that an import would give.
#[tokio::test]
async fn a_file_of_a_host_that_is_read_as_it_is_has_valid_names() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    let text = format!(
        r#"{{"mcpServers": {{"My Files": {{"url": "{}"}}, "My-Files": {{"command": "no-such-program"}}}}}}"#,
        server.url()
    );
    let file = context.write("hosts.json", &text).display().to_string();
    let tools = context.run(context.bowline(["tools", "My-Files-2", "--config", &file]));
    assert!(tools.starts_with("exit: 0\n") && tools.contains("echo"), "{tools}");
    let name = "used as `My-Files-2`";
    let note = format!("[TMP]/hosts.json:1:17: mcpServers.\"My Files\": {name}\n");
    let checked = context.run(context.bowline(["config", "check", "--config", &file]));
    assert!(checked.starts_with("exit: 0\n") && checked.contains(&note), "{checked}");
    let unknown = context.run(context.bowline(["tools", "My Files", "--config", &file]));
    assert!(unknown.starts_with("exit: 2\n") && unknown.contains("did you mean `My-Files`?"), "{unknown}");
    // A project replaces the server of that name, and its user is told so before.
    context.user_config("[servers.My-Files-2]\ncommand = 'mine'\n");
    context.write("project/.mcp.json", &text);
    #[cfg(unix)]
    context.set_mode("project/.mcp.json", 0o644);
    let trusted = context.run(context.bowline(["trust", "--yes"]));
    assert!(trusted.contains("\nreplace these servers of yours\n  My-Files-2\n"), "{trusted}");
    let tools = context.run(context.bowline(["tools", "My-Files-2"]));
    assert!(tools.starts_with("exit: 0\n") && tools.contains("echo"), "{tools}");
}

#[test]
fn words_that_are_neither_a_host_nor_a_file() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["import", "cursr"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `cursr` is neither a host nor a file

    hint: did you mean `cursor`?
    ---
    ");
    let missing = context.run(context.bowline(["import", "zed"]));
    assert!(
        missing.starts_with("exit: 2\n") && missing.contains("Zed has no configuration file here"),
        "{missing}"
    );
    snapshot!(context.run(context.bowline(["import"])), @"
    exit: 0
    --- stdout
    --- stderr
    note: no servers of other hosts were found; name a file to read it
    ---
    ");
    context.user_config("{\"mcpServers\": {}}");
    write(&context, "home/.cursor/mcp.json", r#"{"mcpServers": {"u": {"command": "u"}}}"#);
    let json = context.run(context.bowline(["import", "--yes"]));
    assert!(json.starts_with("exit: 2\n") && json.contains("is JSON, which only its host changes"), "{json}");
}

#[test]
#[cfg(unix)]
fn the_lock_of_the_configuration_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let context = Context::new();
    write(&context, "home/.cursor/mcp.json", r#"{"mcpServers": {"u": {"command": "u"}}}"#);
    let shown = context.run(context.bowline(["import", "--yes"]));
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    let lock = std::fs::metadata(context.path("home/.local/state/bowline/config.lock")).unwrap();
    assert_eq!(lock.permissions().mode() & 0o777, 0o600);
}
