//! Servers that run on Node.

use std::path::PathBuf;

use serde_json::json;

use crate::expected_call::ExpectedCall;
use crate::peer_server::{PeerServer, required_variable};
use crate::site::{BROWSER, FILES, Site};

pub(crate) fn all(site: &Site) -> Vec<PeerServer> {
    vec![everything(), filesystem(site), memory(site), sequential_thinking(), playwright(site)]
}

/// The reference server of the protocol.
fn everything() -> PeerServer {
    let sum = || ExpectedCall::with_text("get-sum", json!({"a": 2, "b": 3}), "The sum of 2 and 3 is 5.");
    PeerServer {
        name: "everything",
        command: vec![
            required_variable("BOWLINE_NODE"),
            required_variable("BOWLINE_EVERYTHING"),
            "stdio".to_owned(),
        ],
        settings: String::new(),
        tools: &[
            "echo",
            "get-annotated-message",
            "get-env",
            "get-resource-links",
            "get-resource-reference",
            "get-structured-content",
            "get-sum",
            "get-tiny-image",
            "gzip-file-as-resource",
            "toggle-simulated-logging",
            "toggle-subscriber-updates",
            "trigger-long-running-operation",
            "simulate-research-query",
        ],
        calls: vec![sum()],
        calls_after_kill: vec![sum()],
    }
}

fn filesystem(site: &Site) -> PeerServer {
    let path = format!("{}/knot.txt", site.text(FILES));
    let both = |text: String, tool, arguments| {
        ExpectedCall::with_structure(tool, arguments, &*text, json!({ "content": text }))
    };
    let text = "A bowline.\nIt does not slip.\n";
    let write =
        both(format!("Successfully wrote to {path}"), "write_file", json!({ "path": path, "content": text }));
    let read = both(text.to_owned(), "read_text_file", json!({ "path": path }));
    PeerServer {
        name: "files",
        command: package("@modelcontextprotocol/server-filesystem/dist/index.js", [site.text(FILES)]),
        settings: String::new(),
        tools: &[
            "read_file",
            "read_text_file",
            "read_media_file",
            "read_multiple_files",
            "write_file",
            "edit_file",
            "create_directory",
            "list_directory",
            "list_directory_with_sizes",
            "directory_tree",
            "move_file",
            "search_files",
            "get_file_info",
            "list_allowed_directories",
        ],
        calls: vec![write, read.clone()],
        calls_after_kill: vec![read],
    }
}

/// It keeps its graph in a file, where the next process finds it.
fn memory(site: &Site) -> PeerServer {
    let knot = json!({"name": "bowline", "entityType": "knot", "observations": ["It does not slip."]});
    let create = ExpectedCall::with_structure(
        "create_entities",
        json!({ "entities": [knot] }),
        r#"[
  {
    "name": "bowline",
    "entityType": "knot",
    "observations": [
      "It does not slip."
    ]
  }
]"#,
        json!({ "entities": [knot] }),
    );
    let read = ExpectedCall::with_structure(
        "read_graph",
        json!({}),
        r#"{
  "entities": [
    {
      "name": "bowline",
      "entityType": "knot",
      "observations": [
        "It does not slip."
      ]
    }
  ],
  "relations": []
}"#,
        json!({ "entities": [knot], "relations": [] }),
    );
    PeerServer {
        name: "memory",
        command: package("@modelcontextprotocol/server-memory/dist/index.js", []),
        settings: format!("env = {{ MEMORY_FILE_PATH = {:?} }}", site.text("memory.jsonl")),
        tools: &[
            "create_entities",
            "create_relations",
            "add_observations",
            "delete_entities",
            "delete_observations",
            "delete_relations",
            "read_graph",
            "search_nodes",
            "open_nodes",
        ],
        calls: vec![create, read.clone()],
        calls_after_kill: vec![read],
    }
}

/// It counts the thoughts of its process, and says all the same that its tool is read-only.
fn sequential_thinking() -> PeerServer {
    let think = |number: u32, history_length: u32| {
        let thought = json!({
            "thought": "A bowline begins with a loop.", "nextThoughtNeeded": true,
            "thoughtNumber": number, "totalThoughts": 3,
        });
        let text = format!(
            r#"{{
  "thoughtNumber": {number},
  "totalThoughts": 3,
  "nextThoughtNeeded": true,
  "branches": [],
  "thoughtHistoryLength": {history_length}
}}"#
        );
        let structure = serde_json::from_str(&text).expect("JSON");
        ExpectedCall::with_structure("sequentialthinking", thought, text, structure)
    };
    PeerServer {
        name: "thinking",
        command: package("@modelcontextprotocol/server-sequential-thinking/dist/index.js", []),
        settings: String::new(),
        tools: &["sequentialthinking"],
        calls: vec![think(1, 1), think(2, 2)],
        // The thoughts were in the memory of the process that was killed.
        calls_after_kill: vec![think(3, 1)],
    }
}

/// A headless browser, which is processes of its own below the server.
fn playwright(site: &Site) -> PeerServer {
    let url = site.page.url();
    let about = format!("### Page\n- Page URL: {url}\n- Page Title: Knots");
    let snapshot = |text: String| ExpectedCall::with_text("browser_snapshot", json!({}), text);
    let visit = [
        ExpectedCall::with_text(
            "browser_navigate",
            json!({ "url": url }),
            format!("### Ran Playwright code\n```js\nawait page.goto('{url}');\n```\n{about}"),
        ),
        snapshot(format!(
            "{about}\n### Snapshot\n```yaml\n- generic [active] [ref=e1]:\n  - heading \"Bowline\" [level=1] [ref=e2]\n  \
             - paragraph [ref=e3]: It does not slip.\n```"
        )),
    ];
    // The page was open in the browser of the process that was killed.
    let empty = snapshot("### Page\n- Page URL: about:blank\n### Snapshot\n```yaml\n\n```".to_owned());
    let options =
        ["--headless", "--isolated", "--no-sandbox", "--snapshot-mode", "none", "--executable-path"];
    let options = options.map(str::to_owned).into_iter().chain([required_variable("BOWLINE_CHROMIUM")]);
    PeerServer {
        name: "browser",
        command: package("@playwright/mcp/cli.js", options),
        settings: format!("cwd = {:?}", site.text(BROWSER)),
        tools: &[
            "browser_close",
            "browser_resize",
            "browser_console_messages",
            "browser_handle_dialog",
            "browser_emulate_media",
            "browser_evaluate",
            "browser_file_upload",
            "browser_drop",
            "browser_find",
            "browser_fill_form",
            "browser_press_key",
            "browser_type",
            "browser_navigate",
            "browser_navigate_back",
            "browser_network_requests",
            "browser_network_request",
            "browser_run_code_unsafe",
            "browser_take_screenshot",
            "browser_snapshot",
            "browser_click",
            "browser_drag",
            "browser_hover",
            "browser_select_option",
            "browser_tabs",
            "browser_wait_for",
        ],
        calls: visit.to_vec(),
        calls_after_kill: [vec![empty], visit.to_vec()].concat(),
    }
}

/// Returns the command that runs a script of `interop/servers`.
fn package(script: &str, args: impl IntoIterator<Item = String>) -> Vec<String> {
    let script = PathBuf::from(required_variable("BOWLINE_SERVERS")).join(script);
    let command = [required_variable("BOWLINE_NODE"), script.into_os_string().into_string().expect("UTF-8")];
    command.into_iter().chain(args).collect()
}
