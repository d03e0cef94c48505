//! Which entries are written: for all servers, for some, for a view; and those they take the place of.

use serde_json::{Value, json};

use super::{count_records, read, run_json, run_refused};
use crate::context::Context;

const CONFIG: &str = "\
[servers.github]
url = 'https://example.com/mcp'
[servers.files]
command = 'files'
[views.review]
servers = ['files']
";

/// A file that has a server of that name already, and another one.
const CURSOR: &str = r#"{
  "mcpServers": {
    "github": {
      "url": "https://example.com/mcp" // mine
    },
    "other": { "command": "other" }
  }
}
"#;

fn entry(context: &Context, name: &str) -> Value {
    let text = read(context, "home/file").replace("// mine", "");
    let file: Value = serde_json::from_str(&text).unwrap();
    file["mcpServers"][name].clone()
}

#[test]
fn a_view_and_a_configuration_are_passed_on() {
    let context = Context::new();
    let config = context.write("home/other.toml", CONFIG);
    let config = config.to_str().unwrap();
    let file = context.path("home/file");
    let file = file.to_str().unwrap();
    let install = ["install", "cursor", "--yes", "--file", file, "--config", config, "--view"];
    run_json(&context, &[&install[..], &["review"]].concat());
    assert_eq!(
        entry(&context, "bowline")["args"],
        json!(["serve", "--stdio", "--view", "review", "--config", config])
    );
    let refused = run_refused(&context, &[&install[..], &["nothing"]].concat());
    assert!(
        refused.starts_with("error: there is no view named `nothing` in your configuration\n"),
        "{refused}"
    );
    // Another entry of bowline takes the place of the first.
    run_json(&context, &["install", "cursor", "--yes", "--file", file]);
    assert_eq!(entry(&context, "bowline")["args"], json!(["serve", "--stdio"]));
    run_json(&context, &["uninstall", "cursor", "--yes", "--file", file]);
    assert!(!context.path("home/file").exists());
}

#[test]
fn chosen_servers_have_an_entry_each() {
    let context = Context::new();
    context.user_config(CONFIG);
    let file = context.write("home/file", "{\n}\n");
    let file = file.to_str().unwrap();
    let refused = run_refused(&context, &["install", "cursor", "--file", file, "--servers", "githu"]);
    assert!(refused.contains("hint: did you mean `github`?"), "{refused}");
    let servers = ["install", "cursor", "--yes", "--file", file, "--servers", "github,files"];
    assert_eq!(run_json(&context, &servers)["entries"], json!(["github", "files"]));
    assert_eq!(entry(&context, "github")["args"], json!(["connect", "github"]));
    assert_eq!(entry(&context, "files")["args"], json!(["connect", "files"]));
    assert_eq!(run_json(&context, &servers)["state"], "already_installed");
    // A second installation does not hide the file from before the first.
    run_json(&context, &["install", "cursor", "--yes", "--file", file]);
    let removed = run_json(&context, &["uninstall", "cursor", "--yes", "--file", file]);
    assert_eq!(
        (&removed["state"], &removed["entries"]),
        (&json!("restored"), &json!(["bowline", "github", "files"]))
    );
    assert_eq!(read(&context, "home/file"), "{\n}\n");
}

#[test]
fn servers_that_the_host_has_twice_are_named() {
    let context = Context::new();
    context.user_config(CONFIG);
    let file = context.write("home/file", CURSOR);
    let file = file.to_str().unwrap();
    let install = ["install", "cursor", "--yes", "--file", file];
    let shown = context.run(context.bowline(install));
    let note = "note: Cursor has `github` twice, from its own file and from bowline; `bowline install cursor --replace-servers --file [TMP]/home/file` removes the former\n";
    assert!(shown.contains(note), "{shown}");
    let shown = context.run(context.bowline(install));
    assert!(shown.contains(note), "{shown}");
    run_json(&context, &["uninstall", "cursor", "--yes", "--file", file]);
    assert_eq!(read(&context, "home/file"), CURSOR);
    // The command that removes them keeps the entry as it is.
    let one = ["--servers", "github", "--name", "gh"];
    let shown = context.run(context.bowline([&install[..], &one].concat()));
    let command =
        "`bowline install cursor --replace-servers --servers github --name gh --file [TMP]/home/file`";
    let note = format!(
        "note: Cursor has `github` twice, from its own file and from bowline; {command} removes the former\n"
    );
    assert!(shown.contains(&note), "{shown}");
}

/// The import gave it another name, since ours have no spaces.
#[test]
fn a_server_that_has_another_name_here_is_the_same() {
    let context = Context::new();
    let file = context.write(
        "home/file",
        r#"{ "mcpServers": { "My Files": { "command": "files", "args": ["/srv"] }, "other": { "command": "other" } } }"#,
    );
    context.user_config("[servers.My-Files]\ncommand = 'files'\nargs = ['/srv']\n");
    let install = ["install", "cursor", "--yes", "--file", file.to_str().unwrap()];
    let installed = run_json(&context, &install);
    assert_eq!(installed["served_twice"], json!(["My Files"]));
    let installed = run_json(&context, &[&install[..], &["--replace-servers"]].concat());
    assert_eq!(installed["removed"], json!(["My Files"]));
}

#[test]
fn servers_that_were_replaced_come_back() {
    let context = Context::new();
    context.user_config(CONFIG);
    let file = context.write("home/file", CURSOR);
    let file = file.to_str().unwrap();
    let install = ["install", "cursor", "--yes", "--file", file, "--replace-servers"];
    let uninstall = ["uninstall", "cursor", "--yes", "--file", file];
    let installed = run_json(&context, &install);
    assert_eq!((&installed["removed"], &installed["served_twice"]), (&json!(["github"]), &json!([])));
    assert_eq!(
        (entry(&context, "github"), &entry(&context, "other")["command"]),
        (Value::Null, &json!("other"))
    );
    assert_eq!(run_json(&context, &uninstall)["restored"], json!(["github"]));
    assert_eq!(read(&context, "home/file"), CURSOR);
    // The file changes in between.
    run_json(&context, &install);
    let changed = read(&context, "home/file").replace("\"other\"", "\"another\"");
    context.write("home/file", &changed);
    let removed = run_json(&context, &uninstall);
    assert_eq!((&removed["state"], &removed["restored"]), (&json!("removed"), &json!(["github"])));
    assert_eq!(read(&context, "home/file"), CURSOR.replace("\"other\"", "\"another\""));
    // An entry of the same name needs that option.
    let refused = run_refused(&context, &["install", "cursor", "--file", file, "--servers", "github"]);
    assert!(refused.contains("hint: `--replace-servers` replaces it"), "{refused}");
}

/// The record of a second installation takes over what the first one removed.
#[test]
fn replaced_servers_outlive_a_changed_file_and_another_installation() {
    let context = Context::new();
    context.user_config(CONFIG);
    let file = context.write("home/file", CURSOR);
    let file = file.to_str().unwrap();
    let install = ["install", "cursor", "--yes", "--file", file];
    let uninstall = ["uninstall", "cursor", "--yes", "--file", file];
    let change = |text: &str| text.replace("\"other\"", "\"another\"");
    let install_twice = || {
        context.write("home/file", CURSOR);
        run_json(&context, &[&install[..], &["--replace-servers"]].concat());
        context.write("home/file", change(&read(&context, "home/file")));
        run_json(&context, &[&install[..], &["--view", "review"]].concat());
        assert_eq!(entry(&context, "github"), Value::Null);
    };
    install_twice();
    let shown = context.run(context.bowline(uninstall));
    assert!(
        shown.ends_with(
            "--- stderr\nnote: removed `bowline` from [TMP]/home/file, and put back `github`; the rest of the file is as the host left it\n---"
        ),
        "{shown}"
    );
    assert_eq!(read(&context, "home/file"), change(CURSOR));
    assert_eq!(count_records(&context), 0);
    // A third installation does not lose them either, whether the file has changed again or not.
    for text in ["\"another\"", "\"a third\""] {
        install_twice();
        context.write("home/file", read(&context, "home/file").replace("\"another\"", text));
        run_json(&context, &install);
        let removed = run_json(&context, &uninstall);
        assert_eq!((&removed["state"], &removed["restored"]), (&json!("removed"), &json!(["github"])));
        assert_eq!(read(&context, "home/file"), change(CURSOR).replace("\"another\"", text));
        assert_eq!(count_records(&context), 0);
    }
}

#[test]
fn a_server_that_the_host_has_again_is_not_put_back() {
    let context = Context::new();
    context.user_config(CONFIG);
    let file = context.write("home/file", CURSOR);
    let file = file.to_str().unwrap();
    let install = ["install", "cursor", "--yes", "--file", file];
    run_json(&context, &[&install[..], &["--replace-servers"]].concat());
    let text = read(&context, "home/file").replace("\"other\": {", "\"github\": { \"x\": 1 }, \"other\": {");
    context.write("home/file", &text);
    run_json(&context, &[&install[..], &["--view", "review"]].concat());
    let removed = run_json(&context, &["uninstall", "cursor", "--yes", "--file", file]);
    assert_eq!((&removed["state"], &removed["restored"]), (&json!("removed"), &json!([])));
    assert_eq!(entry(&context, "github"), json!({ "x": 1 }));
    assert_eq!(count_records(&context), 0);
}

/// The copy is the only place that has the server then.
#[test]
fn replaced_servers_outlive_the_file() {
    let context = Context::new();
    context.user_config(CONFIG);
    let path = context.write("home/file", CURSOR);
    let file = path.to_str().unwrap();
    let install = ["install", "cursor", "--yes", "--file", file];
    let uninstall = ["uninstall", "cursor", "--yes", "--file", file];
    let installed = run_json(&context, &[&install[..], &["--replace-servers"]].concat());
    let backup = installed["backup"].as_str().expect("a copy");
    std::fs::remove_file(&path).unwrap();
    let shown = context.run(context.bowline(uninstall));
    let note = "note: the entry `github`, which was removed for bowline, is in ";
    assert!(shown.contains(&format!("{note}{}\n", context.hide_paths(backup))), "{shown}");
    assert_eq!(std::fs::read_to_string(backup).unwrap(), CURSOR);
    run_json(&context, &install);
    let removed = run_json(&context, &uninstall);
    assert_eq!((&removed["state"], &removed["restored"]), (&json!("removed"), &json!(["github"])));
    assert_eq!(entry(&context, "github")["url"], "https://example.com/mcp");
    assert_eq!((entry(&context, "bowline"), count_records(&context)), (Value::Null, 0));
}

/// Somebody else, or `--name`, has removed the entry of bowline before.
#[test]
fn servers_are_put_back_with_the_last_entry_of_bowline() {
    let context = Context::new();
    context.user_config(CONFIG);
    let file = context.write("home/file", CURSOR);
    let file = file.to_str().unwrap();
    let install = ["install", "cursor", "--yes", "--file", file];
    let uninstall = ["uninstall", "cursor", "--yes", "--file", file];
    let replace = || {
        context.write("home/file", CURSOR);
        run_json(&context, &[&install[..], &["--replace-servers"]].concat());
    };
    let run = |words: &[&str]| context.run(context.bowline(words));
    replace();
    context.write("home/file", "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"other\" }\n  }\n}\n");
    let shown = run(&uninstall);
    assert!(shown.ends_with("--- stderr\nnote: put back `github` into [TMP]/home/file\n---"), "{shown}");
    assert_eq!(read(&context, "home/file"), CURSOR);
    replace();
    context.write("home/file", read(&context, "home/file") + "\n");
    let shown = run(&[&uninstall[..], &["--name", "bowline"]].concat());
    let note = "\nnote: removed `bowline` from [TMP]/home/file, and put back `github`\n---";
    assert!(shown.ends_with(note), "{shown}");
    assert_eq!(read(&context, "home/file"), format!("{CURSOR}\n"));
    let shown = run(&uninstall);
    let note =
        "--- stderr\nnote: bowline is not installed in Cursor: [TMP]/home/file has no entry of it\n---";
    assert!(shown.ends_with(note), "{shown}");
    // With two entries, the first that goes leaves the servers to the second.
    replace();
    run_json(&context, &[&install[..], &["--name", "second", "--view", "review"]].concat());
    context.write("home/file", read(&context, "home/file") + "\n");
    let shown = run(&[&uninstall[..], &["--name", "bowline"]].concat());
    assert!(shown.ends_with("\nnote: removed `bowline` from [TMP]/home/file\n---"), "{shown}");
    assert_eq!(entry(&context, "github"), Value::Null);
    let shown = run(&[&uninstall[..], &["--name", "second"]].concat());
    let note = "\nnote: removed `second` from [TMP]/home/file, and put back `github`\n---";
    assert!(shown.ends_with(note), "{shown}");
    assert_eq!(read(&context, "home/file"), format!("{CURSOR}\n"));
    assert_eq!(count_records(&context), 0);
}
