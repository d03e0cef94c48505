//! Views of `bowline serve`: their tokens and paths over HTTP, and mistakes.

use std::os::unix::fs::PermissionsExt as _;

use bowline_testkit::{self as testkit, HttpServer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::connect::ambiguous_params::{AMBIGUOUS_CALLS, modern_meta, raw_call};
use crate::connect::host::TEST_TIMEOUT;
use crate::context::{Context, snapshot};
use crate::serve::Gateway;
use crate::status::http_entry;

async fn server() -> HttpServer {
    testkit::server().legacy().tool("echo").tool("counter").run().await
}

const VIEWS: &str =
    "[views.read]\ntools = { one = ['echo'] }\n[views.write]\ntools = { one = ['counter'] }\n";

/// Each view has its token in a file beside the general one, and each token opens its own view only.
#[tokio::test]
async fn each_view_has_its_own_token() {
    let context = Context::new();
    let one = server().await;
    context.user_config(&format!("{}{VIEWS}", http_entry("one", &one)));
    let mut gateway = Gateway::start(&context, &["--listen", "127.0.0.1:0"]);
    let url = gateway.url().await;
    gateway.note().await;
    let state = context.path("home/.local/state/bowline");
    let mut tokens = vec![("", std::fs::read_to_string(state.join("serve-token")).expect("a token"))];
    for view in ["read", "write"] {
        let path = state.join(format!("serve-token.{view}"));
        let expected = format!("the view `{view}` is at {url}/{view}, with the token in {}", path.display());
        assert_eq!(gateway.note().await, expected);
        assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
        tokens.push((view, std::fs::read_to_string(&path).expect("a token")));
    }
    let calls = |path: &str, token: &str, tool: &str| {
        let (url, header) = (format!("{url}{path}"), format!("Authorization: Bearer {token}"));
        let shown = context.run(context.bowline(["call", &url, tool, "--header", &header]));
        shown.starts_with("exit: 0\n")
    };
    for (view, token) in &tokens {
        for path in ["", "/read", "/write", "/other"] {
            // The general token opens every path, that of a view only its own.
            let served = match (*view, path) {
                (_, "/other") | ("read", "/write") | ("write", "/read") => None,
                ("read", _) | ("", "/read") => Some("read"),
                ("write", _) | ("", "/write") => Some("write"),
                _ => Some(""),
            };
            for (tool, of) in [("echo", "read"), ("counter", "write")] {
                let is_reached = served.is_some_and(|served| served.is_empty() || served == of);
                assert_eq!(calls(path, token, tool), is_reached, "token of `{view}`, {path}, {tool}");
            }
        }
    }
    assert_eq!(gateway.terminate().await.code(), Some(0));
    // The next start has the same tokens.
    let mut gateway = Gateway::start(&context, &["--listen", "127.0.0.1:0"]);
    gateway.url().await;
    let again = std::fs::read_to_string(state.join("serve-token.read")).expect("a token");
    assert_eq!(again, tokens[1].1);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

#[tokio::test]
async fn without_a_token_a_view_is_a_path() {
    let context = Context::new();
    let one = server().await;
    context.user_config(&format!("{}[views.read]\ntools = {{ one = ['echo'] }}\n", http_entry("one", &one)));
    let mut gateway = Gateway::start(&context, &["--listen", "127.0.0.1:0", "--no-token"]);
    let url = format!("{}/read", gateway.url().await);
    assert!(gateway.note().await.starts_with("no token is required"));
    assert_eq!(gateway.note().await, format!("the view `read` is at {url}"));
    assert!(!context.path("home/.local/state/bowline/serve-token.read").exists());
    let call = |tool: &str| context.run(context.bowline(["call", &url, tool]));
    assert!(call("echo").starts_with("exit: 0\n"), "{}", call("echo"));
    assert!(!call("counter").starts_with("exit: 0\n"));
    assert_eq!(one.executions("counter"), 0);
    assert_eq!(gateway.terminate().await.code(), Some(0));
    let socket = context.path("socket");
    let mut gateway = Gateway::start(&context, &["--socket", socket.to_str().expect("a path")]);
    assert!(gateway.note().await.starts_with("serving 1 server on the socket"));
    assert_eq!(gateway.note().await, "the view `read` is at /mcp/read");
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

#[test]
fn mistakes_are_explained() {
    let context = Context::new();
    let servers = "[servers.one]\nurl = 'http://127.0.0.1:9/mcp'\n";
    context.user_config(servers);
    snapshot!(context.run(context.bowline(["serve", "--stdio", "--view", "read"])), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: there is no view `read`

    hint: add [views.read] to [TMP]/home/.config/bowline/config.toml
    ---
    "#);
    context.user_config(&format!("{servers}{VIEWS}"));
    snapshot!(context.run(context.bowline(["serve", "--stdio", "--view", "reads"])), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: there is no view `reads`

    hint: [TMP]/home/.config/bowline/config.toml has read, write
    ---
    "#);
    snapshot!(context.run(context.bowline(["serve", "--view", "read"])), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      --stdio

    Usage: bowline serve --stdio --view <NAME> [SERVER]...

    For more information, try '--help'.
    ---
    "#);
    context.user_config(&format!("{servers}[views.read]\nservers = ['two']\n"));
    snapshot!(context.run(context.bowline(["serve", "--stdio", "--view", "read"])), @r#"
    exit: 2
    --- stdout
    --- stderr
    note: the view `read` is left out; see `bowline config check`
    error: the view `read` cannot be used
      problems:
        4:12: views.read.servers[0]: this file has no server of this name
          its servers are "one"
    ---
    "#);
    snapshot!(context.run(context.bowline(["config", "check"])), @r#"
    exit: 2
    --- stdout
    one	user	ok	http http://127.0.0.1:[PORT]/mcp
    --- stderr
    note: [TMP]/home/.config/bowline/config.toml: 1 server
    error: 1 problem in [TMP]/home/.config/bowline/config.toml
      problems:
        4:12: views.read.servers[0]: this file has no server of this name
          its servers are "one"
    ---
    "#);
}

/// A view with a problem is not served as something else.
#[tokio::test]
async fn a_view_with_a_problem_is_left_out() {
    let context = Context::new();
    let one = server().await;
    context.user_config(&format!("{}[views.bad]\nservers = ['two']\n", http_entry("one", &one)));
    let mut gateway = Gateway::start(&context, &["--listen", "127.0.0.1:0", "--no-token"]);
    assert_eq!(gateway.note().await, "the view `bad` is left out; see `bowline config check`");
    let url = format!("{}/bad", gateway.url().await);
    let shown = context.run(context.bowline(["call", &url, "echo"]));
    assert!(!shown.starts_with("exit: 0\n"), "{shown}");
    assert_eq!(one.executions("echo"), 0);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// Posts a body as it is. Returns the head of the response, and the message in its body.
async fn post(url: &str, headers: &str, body: &str) -> (String, Value) {
    let (address, path) = url.strip_prefix("http://").and_then(|url| url.split_once('/')).expect("a URL");
    let request = format!(
        "POST /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut response = String::new();
    let reading = stream.read_to_string(&mut response);
    timeout(TEST_TIMEOUT, reading).await.expect("a response in time").expect("text");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    // It may be an event, or a chunk.
    let message = body.find('{').zip(body.rfind('}')).map(|(start, end)| &body[start..=end]);
    let message = message.map(|message| serde_json::from_str(message).expect("JSON"));
    (head.to_owned(), message.unwrap_or_default())
}

/// A host cannot have the view decide by one name, and the server by another.
#[tokio::test]
async fn a_view_hides_a_tool_that_is_named_beside_another() {
    let (context, one, two) = (Context::new(), server().await, testkit::server().legacy().run().await);
    let servers = format!("{}{}", http_entry("one", &one), http_entry("two", &two));
    context.user_config(&format!("{servers}[views.read]\ntools = {{ one = ['echo'] }}\n"));
    let mut gateway = Gateway::start(&context, &["--listen", "127.0.0.1:0", "--no-token"]);
    let url = format!("{}/read", gateway.url().await);
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"},
        },
    });
    let (head, _) = post(&url, "", &initialize.to_string()).await;
    let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session");
    let legacy = format!("mcp-session-id: {session}\r\n");
    let modern =
        "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: echo\r\n".to_owned();
    for (headers, meta) in [(legacy, json!({})), (modern, modern_meta())] {
        for ((params, message), id) in AMBIGUOUS_CALLS.iter().zip(1000u64..) {
            let (head, answer) = post(&url, &headers, &raw_call(id, params, &meta)).await;
            assert!(head.starts_with("HTTP/1.1 400 "), "{params}: {head}");
            let error = json!({"code": -32602, "message": message});
            assert_eq!(answer, json!({"jsonrpc": "2.0", "id": id, "error": error}), "{params}");
        }
        let (_, answer) = post(&url, &headers, &raw_call(2000, r#""name":"echo""#, &meta)).await;
        assert_eq!(answer["result"]["content"][0]["text"], "{}", "{answer}");
    }
    assert_eq!((one.count("tools/call"), one.executions("counter")), (2, 0));
    assert_eq!(gateway.terminate().await.code(), Some(0));
}
