//! Trust in a project's configuration file, which anybody may have written: nothing in it is used
//! before the user agrees.

#[cfg(unix)]
mod inert;
#[cfg(unix)]
mod mcp_json;
#[cfg(unix)]
mod others;
#[cfg(unix)]
mod relative_commands;
#[cfg(unix)]
mod trust_prompt;

use bowline_testkit as testkit;
use serde_json::Value;

use crate::context::{Context, snapshot};

/// Writes a project whose one server creates a marker file when it is started.
#[cfg(unix)]
fn write_marking_project(context: &Context) -> std::path::PathBuf {
    let mark = context.path("started");
    let args = format!("['-c', 'touch {}']", mark.display());
    context.project_config(&format!("[servers.evil]\ncommand = '/bin/sh'\nargs = {args}\n"));
    mark
}

#[cfg(unix)]
#[test]
fn nothing_is_started_before_the_project_is_trusted() {
    let context = Context::new();
    let mark = write_marking_project(&context);
    snapshot!(context.run(context.bowline(["tools", "evil"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `evil` comes from the project's [TMP]/project/bowline.toml, which is not trusted

    hint: it can run programs and send out your environment variables: `bowline trust [TMP]/project/bowline.toml` shows what it would do, and asks you
    ---
    ");
    assert!(!mark.exists());
    // Precondition: once trusted, the server is started.
    let trusted = context.run(context.bowline(["tools", "evil", "--trust-project"]));
    assert!(mark.exists(), "{trusted}");
}

/// The user's own server is meant, even if the project has one of the same name.
#[tokio::test]
async fn nothing_is_sent_before_the_project_is_trusted() {
    let context = Context::new();
    let (own, theirs) =
        (testkit::server().tool("echo").run().await, testkit::server().tool("add").run().await);
    context.user_config(&format!("[servers.rope]\nurl = '{}'\n", own.url()));
    context.project_config(&format!(
        "[servers.rope]\nurl = '{}'\nheaders = {{ X-Home = '${{HOME}}' }}\n",
        theirs.url()
    ));
    snapshot!(context.run(context.bowline(["tools", "rope"])), @"
    exit: 0
    --- stdout
    echo		Gives its arguments back
    --- stderr
    note: using `rope` from [TMP]/home/.config/bowline/config.toml; the one in [TMP]/project/bowline.toml is not trusted
    ---
    ");
    assert_eq!(theirs.connections(), 0);
    context.trust_project();
    let shown = context.run(context.bowline(["tools", "rope"]));
    assert!(shown.starts_with("exit: 0\n--- stdout\nadd"), "{shown}");
}

#[test]
fn trust_applies_to_the_current_content() {
    let context = Context::new();
    let evil = |words: &str| format!("[servers.evil]\ncommand = 'nowhere'\nargs = [{words}]\n");
    context.project_config(&evil("'a'"));
    snapshot!(context.run(context.bowline(["trust", "--yes"])), @"
    exit: 0
    --- stdout
    [TMP]/project/bowline.toml would, with your rights:
    start
      nowhere a  (servers.evil)
    --- stderr
    note: [TMP]/project/bowline.toml is trusted, until it changes
    ---
    ");
    let started = context.run(context.bowline(["tools", "evil"]));
    assert!(started.starts_with("exit: 3"), "{started}");
    context.project_config(&evil("'b'"));
    snapshot!(context.run(context.bowline(["tools", "evil"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `evil` comes from the project's [TMP]/project/bowline.toml, which has changed since you trusted it

    hint: it can run programs and send out your environment variables: `bowline trust [TMP]/project/bowline.toml` shows what it would do, and asks you
    ---
    ");
    let changed = context.run(context.bowline(["trust"]));
    assert!(
        changed.contains("bowline.toml has changed since you trusted it. It would, with your rights:\n"),
        "{changed}"
    );
    // The earlier content is still trusted.
    context.project_config(&evil("'a'"));
    let again = context.run(context.bowline(["trust"]));
    assert!(again.ends_with("bowline.toml is already trusted, until it changes\n---"), "{again}");
    snapshot!(context.run(context.bowline(["untrust"])), @"
    exit: 0
    --- stdout
    --- stderr
    note: [TMP]/project/bowline.toml is no longer trusted
    ---
    ");
    let refused = context.run(context.bowline(["tools", "evil"]));
    assert!(refused.contains("bowline.toml, which is not trusted\n"), "{refused}");
    let again = context.run(context.bowline(["untrust"]));
    assert!(again.starts_with("exit: 0") && again.contains("was not trusted"), "{again}");
}

#[test]
fn what_is_trusted_can_be_listed() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["trust", "--list"])), @"
    exit: 0
    --- stdout
    --- stderr
    note: no project is trusted; `bowline trust` in its folder asks you about one
    ---
    ");
    let mut shown = String::new();
    for name in ["one", "two", "three"] {
        let folder = context.path(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("bowline.toml"), "").unwrap();
        context.set_mode(name, 0o755);
        context.set_mode(&format!("{name}/bowline.toml"), 0o644);
        shown = context.run(context.bowline(["trust".as_ref(), "--yes".as_ref(), folder.as_os_str()]));
        assert!(shown.starts_with("exit: 0"), "{shown}");
    }
    assert!(shown.contains("three/bowline.toml would do nothing\n"), "{shown}");
    std::fs::write(context.path("two/bowline.toml"), "[servers]").unwrap();
    std::fs::remove_dir_all(context.path("three")).unwrap();
    snapshot!(context.run(context.bowline(["trust", "--list"])), @"
    exit: 0
    --- stdout
    trusted	[TMP]/one/bowline.toml
    gone	[TMP]/three/bowline.toml
    changed	[TMP]/two/bowline.toml
    --- stderr
    ---
    ");
    let gone = context.path("three/bowline.toml");
    let shown = context.run(context.bowline(["untrust".as_ref(), gone.as_os_str()]));
    assert!(shown.contains("three/bowline.toml is no longer trusted"), "{shown}");
    let output = context.bowline(["trust", "--list", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let states: Vec<&str> =
        listed["trusted"].as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["trusted", "changed"]);
}

#[test]
fn a_damaged_trust_record_counts_as_none() {
    let context = Context::new();
    context.project_config("[servers.evil]\ncommand = 'nowhere'\n").trust_project();
    let state = context.path("home/.local/state/bowline/trust");
    let state = if state.exists() { state } else { context.path("home/AppData/Local/bowline/trust") };
    let record = std::fs::read_dir(state).unwrap().next().unwrap().unwrap().path();
    for damage in ["", "{\"version\": 1, \"path\": 7}", "\u{0}\u{1}"] {
        std::fs::write(&record, damage).unwrap();
        let shown = context.run(context.bowline(["tools", "evil"]));
        assert!(shown.starts_with("exit: 2"), "{shown}");
        assert!(shown.contains("is not trusted: the record that you trusted it cannot be used"), "{shown}");
    }
    context.trust_project();
    let shown = context.run(context.bowline(["tools", "evil"]));
    assert!(shown.starts_with("exit: 3"), "{shown}");
}

/// `--trust-project` applies to one command and is noted.
#[test]
fn trust_for_one_run_is_noted() {
    let context = Context::new();
    context.project_config("[servers.evil]\ncommand = 'nowhere'\n");
    let shown = context.run(context.bowline(["tools", "evil", "--trust-project"]));
    let said = "note: [TMP]/project/bowline.toml is trusted for this run (--trust-project)\n";
    assert!(shown.starts_with("exit: 3") && shown.matches(said).count() == 1, "{shown}");
    let machine = context.run(context.bowline(["tools", "evil", "--trust-project", "--json"]));
    let said = "{\"note\":{\"kind\":\"trusted\",\"path\":\"[TMP]/project/bowline.toml\"}}\n";
    assert!(machine.starts_with("exit: 3") && machine.matches(said).count() == 1, "{machine}");
    let after = context.run(context.bowline(["tools", "evil"]));
    assert!(after.contains("which is not trusted"), "{after}");
    snapshot!(context.run(context.bowline(["connect", "evil", "--trust-project"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: --trust-project is for one command that you run yourself, and not for `connect`

    hint: run `bowline trust` in the project's folder: it asks you once, and again when the file has changed
    ---
    ");
    // A variable would apply to every project.
    let mut by_variable = context.bowline(["tools", "evil"]);
    by_variable.env("BOWLINE_TRUST_PROJECT", "1");
    let shown = context.run(by_variable);
    assert!(shown.contains("BOWLINE_TRUST_PROJECT has no effect any more"), "{shown}");
    assert!(shown.starts_with("exit: 2") && shown.contains("which is not trusted"), "{shown}");
}

#[test]
fn only_project_files_can_be_trusted() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["trust"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: there is no .mcp.json or bowline.toml here or in a folder above

    hint: name the file, or its folder
    ---
    ");
    std::fs::write(context.path("project/other.toml"), "").unwrap();
    let other = context.run(context.bowline(["trust", "--yes", "../other.toml"]));
    assert!(
        other.starts_with("exit: 2") && other.contains("is not a project's .mcp.json or bowline.toml"),
        "{other}"
    );
    let none = context.run(context.bowline(["trust", "--yes", "bowline.toml"]));
    assert!(none.starts_with("exit: 2") && none.contains("no such file"), "{none}");
    context.project_config("[[[");
    let broken = context.run(context.bowline(["trust", "--yes"]));
    assert!(
        broken.starts_with("exit: 2") && broken.contains("cannot be trusted, as it cannot be read"),
        "{broken}"
    );
}
