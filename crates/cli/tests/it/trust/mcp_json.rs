//! A project's `.mcp.json`, which several hosts read, is one more layer: below `bowline.toml`, and
//! unused until it is trusted.

use bowline_testkit as testkit;

use crate::context::{Context, snapshot};

impl Context {
    fn mcp_json(&self, text: &str) {
        self.write("project/.mcp.json", text);
        self.set_mode("project/.mcp.json", 0o644);
    }
}

/// SE-04: nothing of the file is started before the user has seen and trusted it.
#[tokio::test]
async fn a_projects_mcp_json_is_used_once_it_is_trusted() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    let mark = context.path("started");
    context.mcp_json(&format!(
        r#"{{"mcpServers": {{"rope": {{"type": "http", "url": "{}"}},
            "marker": {{"command": "touch", "args": ["{}"]}}}}}}"#,
        server.url(),
        mark.display()
    ));
    snapshot!(context.run(context.bowline(["ping", "rope", "--count", "1"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `rope` comes from the project's [TMP]/project/.mcp.json, which is not trusted

    hint: it can run programs and send out your environment variables: `bowline trust [TMP]/project/.mcp.json` shows what it would do, and asks you
    ---
    ");
    let shown = context.run(context.bowline(["trust", "--yes"]));
    let shown = shown.replace(&server.url(), "URL");
    snapshot!(shown, @"
    exit: 0
    --- stdout
    [TMP]/project/.mcp.json would, with your rights:
    start
      touch [TMP]/started  (mcpServers.marker)
    reach
      URL  (mcpServers.rope.url)
    --- stderr
    note: [TMP]/project/.mcp.json is trusted, until it changes
    ---
    ");
    let tools = context.run(context.bowline(["tools", "rope", "--json"]));
    assert!(tools.starts_with("exit: 0") && tools.contains("\"name\":\"echo\""), "{tools}");
    assert!(!mark.exists(), "the other server was not asked for");
    context.mcp_json("{\"mcpServers\": {}}");
    let changed = context.run(context.bowline(["tools", "rope"]));
    assert!(changed.starts_with("exit: 2") && changed.contains("no server named `rope`"), "{changed}");
}

#[test]
fn bowline_toml_is_stronger_than_mcp_json() {
    let context = Context::new();
    let json = |command: &str| {
        format!(
            r#"{{"mcpServers": {{"rope": {{"command": "{command}"}}, "knot": {{"command": "of-json"}}}}}}"#
        )
    };
    context.mcp_json(&json("of-json"));
    context.project_config("[servers.rope]\ncommand = 'of-toml'\n").trust_project();
    snapshot!(context.run(context.bowline(["config", "check"])), @"
    exit: 0
    --- stdout
    knot	project	ok	stdio of-json
    rope	project	overridden	stdio of-json
    rope	project	ok	stdio of-toml
    --- stderr
    note: [TMP]/project/.mcp.json: 2 servers
    note: [TMP]/project/bowline.toml: 1 server
    ---
    ");
    // One of them changes: the other one stays trusted.
    context.mcp_json(&json("changed"));
    snapshot!(context.run(context.bowline(["config", "check"])), @"
    exit: 0
    --- stdout
    rope	project	ok	stdio of-toml
    rope	project	not trusted	stdio changed
    knot	project	not trusted	stdio of-json
    --- stderr
    note: [TMP]/project/bowline.toml: 1 server
    note: [TMP]/project/.mcp.json is not used: it has changed since you trusted it; it can run programs and send out your environment variables: `bowline trust [TMP]/project/.mcp.json` shows what it would do, and asks you
    ---
    ");
    snapshot!(context.run(context.bowline(["untrust"])), @"
    exit: 0
    --- stdout
    --- stderr
    note: [TMP]/project/.mcp.json is no longer trusted
    note: [TMP]/project/bowline.toml is no longer trusted
    ---
    ");
    snapshot!(context.run(context.bowline(["untrust", "nowhere/.mcp.json"])), @"
    exit: 0
    --- stdout
    --- stderr
    note: [TMP]/project/below/nowhere/.mcp.json was not trusted
    ---
    ");
    snapshot!(context.run(context.bowline(["trust", "/"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: there is no .mcp.json or bowline.toml in /

    hint: name the file, or its folder
    ---
    ");
}

/// SE-04: a program is listed as one, whatever key the host has for it.
#[test]
fn every_key_that_starts_a_program_is_shown_as_such() {
    for key in ["headersHelper", "headersCommand", "headers_command"] {
        let context = Context::new();
        context.mcp_json(&format!(
            r#"{{"mcpServers": {{"web": {{"type": "http", "url": "http://127.0.0.1:9/mcp", "{key}": "print-headers"}}}}}}"#
        ));
        let shown = context.run(context.bowline(["trust", "--yes"]));
        let expected = format!(
            "would, with your rights:\nstart\n  print-headers  (mcpServers.web.{key})\nreach\n  http://127.0.0.1:9/mcp  (mcpServers.web.url)\n--- stderr\n"
        );
        assert!(shown.starts_with("exit: 0\n") && shown.contains(&expected), "{shown}");
    }
    let context = Context::new();
    context.mcp_json(
        r#"{"mcpServers": {"web": {"url": "http://127.0.0.1:9/mcp", "headersHelper": "token | sed s/a/b/"}}}"#,
    );
    let shown = context.run(context.bowline(["trust", "--yes"]));
    let line = "start\n  sh -c 'token | sed s/a/b/'  (mcpServers.web.headersHelper)\n";
    assert!(shown.starts_with("exit: 0\n") && shown.contains(line), "{shown}");
}
