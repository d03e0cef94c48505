//! Configured server names, and `bowline config`.

use bowline_testkit as testkit;
use serde_json::Value;

use crate::context::{Context, snapshot, toml_path};

#[tokio::test]
async fn a_configured_server_by_name() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    context.user_config(&format!(
        "[servers.rope]\nurl = '{}'\nheaders = {{ X-Key = '${{ROPE_KEY}}' }}\n",
        server.url()
    ));
    let mut command = context.bowline(["call", "rope", "echo", "a=1"]);
    command.env("ROPE_KEY", "tk-secret-header");
    snapshot!(context.run(command), @r#"
    exit: 0
    --- stdout
    {"a":"1"}
    --- stderr
    ---
    "#);
    assert!(server.received().iter().all(|received| received.header("x-key") == Some("tk-secret-header")));
    snapshot!(context.run(context.bowline(["tools", "rope"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: the entry `rope` in [TMP]/home/.config/bowline/config.toml cannot be used
      problems:
        3:21: servers.rope.headers.X-Key: environment variable `ROPE_KEY` is not set
          set it, or give a default: `${ROPE_KEY:-value}`
    ---
    ");
}

#[test]
fn an_unknown_name() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["tools", "rope"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: no server named `rope` is configured

    hint: `bowline add rope URL` adds it; or give a URL, or a command after `--`
    ---
    ");
    context.user_config("[servers.rope]\ncommand = 'a'\n[servers.knot]\ncommand = 'b'\nenabled = false\n");
    snapshot!(context.run(context.bowline(["tools", "ropes"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: no server named `ropes` is configured

    hint: did you mean `rope`? There are: knot, rope
    ---
    ");
    snapshot!(context.run(context.bowline(["tools", "sail"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: no server named `sail` is configured

    hint: there are: knot, rope
    ---
    ");
    snapshot!(context.run(context.bowline(["tools", "knot"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `knot` is disabled in [TMP]/home/.config/bowline/config.toml

    hint: `bowline enable knot` enables it
    ---
    ");
}

#[tokio::test]
async fn an_invalid_entry_does_not_affect_others() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    context.user_config(&format!("[servers.rope]\nurl = '{}'\n[servers.knot]\ncomand = 'b'\n", server.url()));
    snapshot!(context.run(context.bowline(["tools", "rope"])), @"
    exit: 0
    --- stdout
    echo		Gives its arguments back
    --- stderr
    note: [TMP]/home/.config/bowline/config.toml has problems elsewhere; see `bowline config check`
    ---
    ");
}

#[test]
fn config_check() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["config", "check"])), @"
    exit: 0
    --- stdout
    --- stderr
    note: no servers are configured
    ---
    ");
    context.user_config(
        "[servers.rope]\ncommand = 'a'\nargs = ['tk-secret-argument']\n[servers.far]\nurl = 'https://h/mcpp/v1/tk-4f8a91c27b?key=tk-1'\n",
    );
    context
        .project_config("[servers.rope]\ncommand = 'evil'\n[servers.off]\ncommand = 'b'\nenabled = false\n");
    snapshot!(context.run(context.bowline(["config", "check"])), @"
    exit: 0
    --- stdout
    far	user	ok	http https://h/mcpp/v1/…
    rope	user	ok	stdio a
    rope	project	not trusted	stdio evil
    off	project	not trusted	stdio b
    --- stderr
    note: [TMP]/home/.config/bowline/config.toml: 2 servers
    note: [TMP]/project/bowline.toml is not used: it is not trusted; it can run programs and send out your environment variables: `bowline trust [TMP]/project/bowline.toml` shows what it would do, and asks you
    ---
    ");
    context.trust_project();
    snapshot!(context.run(context.bowline(["config", "check"])), @"
    exit: 0
    --- stdout
    far	user	ok	http https://h/mcpp/v1/…
    rope	user	overridden	stdio a
    off	project	disabled	stdio b
    rope	project	ok	stdio evil
    --- stderr
    note: [TMP]/home/.config/bowline/config.toml: 2 servers
    note: [TMP]/project/bowline.toml: 2 servers
    ---
    ");
    context.user_config("[servers.rope]\ncomand = 'a'\n[servers.far]\nurl = '${NOWHERE}'\n");
    snapshot!(context.run(context.bowline(["config", "check"])), @"
    exit: 2
    --- stdout
    far	user	left out
    rope	user	left out
    off	project	disabled	stdio b
    rope	project	ok	stdio evil
    --- stderr
    note: [TMP]/home/.config/bowline/config.toml: 0 servers
    note: [TMP]/project/bowline.toml: 2 servers
    error: 2 problems in [TMP]/home/.config/bowline/config.toml
      problems:
        2:1: servers.rope.comand: unknown key
          did you mean `command`?
        4:7: servers.far.url: environment variable `NOWHERE` is not set
          set it, or give a default: `${NOWHERE:-value}`
    ---
    ");
    let output = context.bowline(["config", "check", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["files"][0]["problems"][0]["line"], 2);
}

/// A value that is not used as written is reported by `config check` and `status`, and logged by
/// commands that use it.
#[tokio::test]
async fn a_keepalive_below_the_minimum_is_reported() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    context.user_config(&format!("[servers.rope]\nurl = '{}'\nkeepalive_interval = '1s'\n", server.url()));
    let line = "config.toml:3:22: servers.rope.keepalive_interval: used as 5 s, the shortest there is";
    let checked = context.bowline(["config", "check"]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0));
    let stderr = String::from_utf8_lossy(&checked.stderr);
    assert!(stderr.contains(line), "{stderr}");
    for verb in [&["status"][..], &["status", "rope"]] {
        let shown = context.bowline(verb).output().unwrap();
        let stderr = String::from_utf8_lossy(&shown.stderr).into_owned();
        let note = "config.toml:3: servers.rope.keepalive_interval: used as 5 s, the shortest there is";
        assert_eq!(stderr.lines().filter(|line| line.ends_with(note)).count(), 1, "{stderr}");
    }
    for verb in [&["tools", "rope", "-v"][..], &["status", "-v"]] {
        let used = context.bowline(verb).output().unwrap();
        let stderr = String::from_utf8_lossy(&used.stderr);
        let logged = stderr.lines().find(|line| line.contains("WARN"));
        let logged = logged.unwrap_or_else(|| panic!("{verb:?} logs nothing:\n{stderr}"));
        assert!(
            logged.ends_with(
                "config.toml:3: servers.rope.keepalive_interval: used as 5 s, the shortest there is"
            ),
            "{logged}"
        );
    }
}

#[test]
fn a_file_of_another_host() {
    let context = Context::new();
    let file = context.path("mcp.json");
    std::fs::write(&file, r#"{"mcpServers": {"files": {"command": "srv"}}}"#).unwrap();
    let file = file.display().to_string();
    snapshot!(context.run(context.bowline(["config", "check", "--config", &file])), @"
    exit: 0
    --- stdout
    files	named	ok	stdio srv
    --- stderr
    note: [TMP]/mcp.json: 1 server
    ---
    ");
    let mut by_variable = context.bowline(["config", "path"]);
    by_variable.env("BOWLINE_CONFIG", &file);
    snapshot!(context.run(by_variable), @"
    exit: 0
    --- stdout
    [TMP]/mcp.json
    --- stderr
    ---
    ");
    snapshot!(context.run(context.bowline(["tools", "x", "--config", "/nowhere.toml"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: cannot use /nowhere.toml: no such file
    ---
    ");
}

#[test]
fn config_path() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["config", "path"])), @"
    exit: 0
    --- stdout
    [TMP]/home/.config/bowline/config.toml
    --- stderr
    note: [TMP]/home/.config/bowline/config.toml does not exist
    ---
    ");
    context.user_config("").project_config("");
    snapshot!(context.run(context.bowline(["config", "path", "--json"])), @r#"
    exit: 0
    --- stdout
    [{"exists":true,"origin":"user","path":"[TMP]/home/.config/bowline/config.toml"},{"exists":true,"origin":"project","path":"[TMP]/project/bowline.toml"}]
    --- stderr
    ---
    "#);
    let mut elsewhere = context.bowline(["config", "path"]);
    elsewhere.env("XDG_CONFIG_HOME", context.path("xdg"));
    snapshot!(context.run(elsewhere), @"
    exit: 0
    --- stdout
    [TMP]/xdg/bowline/config.toml
    [TMP]/project/bowline.toml
    --- stderr
    note: [TMP]/xdg/bowline/config.toml does not exist
    ---
    ");
}

#[test]
fn config_schema() {
    let context = Context::new();
    let output = context.bowline(["config", "schema"]).output().unwrap();
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(schema["properties"]["servers"].is_object());
}

#[test]
fn secrets_from_files() {
    let context = Context::new();
    context.write("token", "tk-secret-file\n");
    let token = toml_path(&context.path("token"));
    let token = token.trim_matches('\'');
    context.user_config(&format!("[servers.a]\ncommand = 'x'\nenv = {{ T = '{{file:{token}}}' }}\n"));
    let shown = context.run(context.bowline(["config", "check"]));
    assert!(shown.starts_with("exit: 0\n") && !shown.contains("tk-secret-header"), "{shown}");
}
