//! Faults of a server that is reached over HTTP.

use std::time::Duration;

use bowline_testkit::{self as testkit, CannedResponse, Cursors, Fault, Script};
use serde_json::json;

use super::{Examined, assert_reset_is_named, verdict, verdict_of, verdict_of_url};
use crate::context::Context;

/// Examines a legacy server with these faults.
async fn verdict_with(faults: impl IntoIterator<Item = Fault>) -> String {
    let mut script = testkit::server().legacy().tool("echo");
    for fault in faults {
        script = script.fault(fault);
    }
    verdict_of(&script.run().await)
}

macro_rules! named {
    ($test:ident, $faults:expr, @$expected:literal) => {
        #[tokio::test]
        pub(super) async fn $test() {
            verdict!(verdict_with($faults).await, @$expected);
        }
    };
}

fn always(status: u16) -> [Fault; 1] {
    [Fault::status(status).always()]
}

named!(status_400_is_named, always(400), @"
exit 3
connection failed, you: HTTP status 400
  is this the address of an MCP server?
  $ bowline edit
");
named!(status_403_is_named, always(403), @"
exit 3
connection failed, you: HTTP status 403
  access is denied: is this your URL, and is the token meant for this server?
  $ bowline edit
");
named!(status_404_is_named, always(404), @"
exit 3
connection failed, you: HTTP status 404
  correct the path of the URL; many servers listen under /mcp
  $ bowline edit
");
named!(status_405_is_named, always(405), @"
exit 3
connection failed, you: HTTP status 405
  correct the path of the URL; many servers listen under /mcp
  $ bowline edit
");
named!(status_500_is_named, always(500), @"
exit 3
connection failed, server: HTTP status 500
  this is an error of the server: its log may say more
  $ bowline doctor docs
");
named!(status_502_is_named, always(502), @"
exit 3
connection failed, server: HTTP status 502
  what is in front of the server cannot reach it: ask who runs it
  $ bowline doctor docs
");
named!(
    retry_after_is_named,
    [Fault::response(CannedResponse::new(429).header("retry-after", "30")).always()],
    @"
    exit 3
    connection failed, server: HTTP status 429
      the server is busy and asks to come back in 30 s
      $ bowline doctor docs
    "
);
named!(
    long_retry_after_is_named,
    [Fault::response(CannedResponse::new(429).header("retry-after", "86400")).always()],
    @"
    exit 3
    connection failed, server: HTTP status 429
      the server is busy and asks to come back in an hour or more
      $ bowline doctor docs
    "
);
named!(
    web_page_is_named,
    [Fault::response(CannedResponse::new(200).html("<h1>Welcome</h1>")).always()],
    @"
    exit 3
    connection failed, you: the server answered with something that is neither JSON nor an event stream
      is this the MCP endpoint, and not a web page? Many servers listen under /mcp
      $ bowline edit
    "
);
named!(
    redirect_to_another_host_is_named,
    [Fault::response(CannedResponse::new(302).header("location", "https://other.example/mcp")).always()],
    @"
    exit 3
    connection failed, you: refused to follow a redirect to https://other.example/mcp: it is another origin
      if you trust that address, use it as the URL
      $ bowline edit
    "
);
named!(
    redirect_to_itself_is_named,
    [Fault::response(CannedResponse::new(307).header("location", "/mcp")).always()],
    @"
    exit 3
    connection failed, server: the server redirects to itself: http://127.0.0.1:[PORT]/mcp
      no URL can help: ask who runs the server, or what is in front of it
      $ bowline doctor docs
    "
);
named!(reset_request_is_named, [Fault::reset().always()], @"
exit 3
connection failed, server: connection lost: connection error: Connection reset by peer
  the server, or something in front of it, closes connections: ask who runs it
  $ bowline doctor docs
");
named!(closed_connection_is_named, [Fault::close().always()], @"
exit 3
connection failed, server: connection lost: connection closed before message completed
  the server, or something in front of it, closes connections: ask who runs it
  $ bowline doctor docs
");
named!(silence_is_named, [Fault::silent().always()], @"
exit 4
connection failed, server: the server did not become ready in time
  the server accepts connections and does not answer: allow more time, or ask who runs it
  $ bowline doctor docs --connect-timeout 2m
");
named!(silence_in_a_list_is_named, [Fault::silent().on("tools/list").always()], @"
exit 4
requests failed, server: the call took longer than its limit
  the server does not answer: ask who runs it, or see its log
  $ bowline info docs -vv
");
named!(short_delay_is_no_fault, [Fault::delay(Duration::from_millis(20)).always()], @"exit 0");
named!(malformed_message_is_named, [Fault::raw("{\"jsonrpc\":").always()], @"
exit 3
connection failed, server: the server sent a bad message: not valid JSON
  the server breaks the protocol: report it to who makes it
  $ bowline info docs -vv
");
named!(other_media_type_is_named, [Fault::raw_as("text/plain", "hello").always()], @"
exit 3
connection failed, you: the server answered with something that is neither JSON nor an event stream
  is this the MCP endpoint, and not a web page? Many servers listen under /mcp
  $ bowline edit
");
named!(cut_response_is_named, [Fault::cut_after(5).on("initialize").always()], @"
exit 3
connection failed, server: connection lost: error reading a body from connection: end of file before message length reached
  the server, or something in front of it, closes connections: ask who runs it
  $ bowline doctor docs
");
named!(cut_list_is_named, [Fault::cut_after(5).on("tools/list").always()], @"
exit 3
requests failed, server: connection lost: error reading a body from connection: end of file before message length reached
  the server, or something in front of it, closes connections: ask who runs it
  $ bowline doctor docs
session warning, server: the connection broke several times within this check: connection lost: error reading a body from connection: end of file before message length reached
  it was made again; the log of the server may say why it broke
  $ bowline info docs -vv
");
named!(ended_stream_is_named, [Fault::end_after(0).on("initialize").always()], @"
exit 3
connection failed, server: the server ended the exchange without an answer
  the server breaks the protocol: report it to who makes it
  $ bowline info docs -vv
");
named!(lost_session_is_named, [Fault::drop_sessions().on("tools/list")], @"
exit 0
session warning, server: the server lost its session once within this check
  whoever runs the server has to share sessions between its instances, or route each session to one of them
  $ bowline doctor docs
");
named!(bad_handshake_result_is_named, [Fault::reply(json!({})).on("initialize").always()], @"
exit 3
connection failed, server: the server's result does not fit the request: protocolVersion: expected a string, found nothing
  the server breaks the protocol: report it to who makes it
  $ bowline info docs -vv
");
named!(bad_list_is_named, [Fault::reply(json!({"tools": 5})).on("tools/list").always()], @"
exit 3
requests failed, server: the server's result does not fit the request: tools: expected an array, found a number
  the server breaks the protocol: report it to who makes it
  $ bowline info docs -vv
");
named!(
    malformed_element_is_named,
    [Fault::reply(json!({"tools": [{"name": 7}]})).on("tools/list").always()],
    @"
    exit 0
    requests warning, server: tools/list: 0 elements, and 1 malformed
      malformed elements are left out: report it to who makes the server
      $ bowline info docs -vv
    "
);
named!(refused_handshake_is_named, [Fault::error(-32603, "no rope").on("initialize").always()], @"
exit 3
connection failed, server: the server refused `initialize`: no rope (code -32603)
  its log may say why it refuses
  $ bowline info docs -vv
");
named!(refused_list_is_named, [Fault::error(-32603, "no rope").on("tools/list").always()], @"
exit 6
requests failed, server: tools/list was answered with error -32603: no rope
  this is an error of the server: its log may say more
  $ bowline info docs -vv
");
named!(
    unknown_revision_is_named,
    [Fault::reply(json!({
        "protocolVersion": "1999-01-01",
        "capabilities": {},
        "serverInfo": {"name": "old", "version": "1"},
    }))
    .on("initialize")
    .always()],
    @"
    exit 3
    connection failed, server: no common protocol revision; the server speaks 1999-01-01
      bowline speaks 2024-11-05 to 2026-07-28: update the server, or bowline
      $ bowline --version
    "
);

/// A suggested command reaches the server in the same way, and holds no secret.
#[tokio::test]
async fn suggested_command_repeats_connection_options() {
    let server = testkit::server().legacy().fault(Fault::silent().always()).run().await;
    let url = server.url();
    let words = [&*url, "-H", "X-Key: k3y", "--protocol", "legacy", "--connect-timeout", "1s"];
    let examined = Examined::of(&Context::new(), &words);
    verdict!(examined.verdict(), @"
    exit 4
    connection failed, server: the server did not become ready in time
      the server accepts connections and does not answer: allow more time, or ask who runs it
      $ bowline doctor http://127.0.0.1:[PORT]/mcp --protocol legacy -H 'X-Key: …' --connect-timeout 2m
    ");
    assert!(!examined.json.to_string().contains("k3y"), "{:#}", examined.json);
}

#[tokio::test]
pub(super) async fn reset_on_accept_is_named() {
    assert_reset_is_named(&verdict_with([Fault::reset().on("accept").always()]).await);
}

#[tokio::test]
async fn stopped_server_is_named() {
    let server = testkit::server().tool("echo").run().await;
    server.stop().await;
    verdict!(verdict_of(&server), @"
    exit 3
    tcp failed, server: 127.0.0.1:[PORT] refuses connections: nothing listens there
      start the server, or correct the port in the URL
      $ bowline doctor docs
    ");
}

#[tokio::test]
async fn server_without_tls_is_named() {
    let server = testkit::server().tool("echo").run().await;
    verdict!(verdict_of_url(&server.url().replace("http://", "https://")), @"
    exit 3
    tls failed, you: the server does not speak TLS on this port
      if the server has no certificate, write http://
      $ bowline edit
    ");
}

/// The address is reserved for names that never exist.
#[test]
fn unknown_name_is_named() {
    let shown = verdict_of_url("http://no-such-host.invalid/mcp");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "exit 3");
    assert!(lines[1].starts_with("dns failed, network: no-such-host.invalid has no address: "), "{shown}");
    assert_eq!(lines[3], "  $ bowline edit");
    assert_eq!(lines.len(), 4, "{shown}");
}

/// Examines a legacy server with this script.
async fn verdict_of_script(change: impl FnOnce(Script) -> Script) -> String {
    verdict_of(&change(testkit::server().legacy().tool("echo")).run().await)
}

#[tokio::test]
async fn list_whose_cursor_repeats_is_named() {
    let script = |script: Script| script.filler_tools(20, 10).page_size(5).cursors(Cursors::Looping);
    verdict!(verdict_of_script(script).await, @"
    exit 3
    requests failed, server: the server's list does not end: a cursor came twice, or there was too much of it
      the server breaks the protocol: report it to who makes it
      $ bowline info docs -vv
    ");
}

/// Page after page comes, each with another cursor, until the time for the list is over.
#[tokio::test]
async fn list_without_a_last_page_is_named() {
    let script = testkit::server().legacy().filler_tools(20, 10).page_size(5).cursors(Cursors::Endless);
    let server = script.run().await;
    server.arm(Fault::delay(Duration::from_millis(50)).on("tools/list").always());
    let context = Context::new();
    context.user_config(&format!(
        "[store]\nkey = 'file'\n\n[servers.docs]\nurl = '{}'\nmax_timeout = '3s'\n",
        server.url()
    ));
    let shown = Examined::of(&context, &["docs"]).verdict();
    let (before, after) = shown.split_once("page ").unwrap_or_else(|| panic!("{shown}"));
    let (pages, after) = after.split_once(' ').unwrap();
    assert!(pages.parse::<usize>().unwrap() > 0, "{shown}");
    verdict!(format!("{before}page N {after}"), @"
    exit 4
    requests failed, server: the call took longer than its limit: page N of the list was not its last
      its pages are slow, or there is no last one: ask who runs the server, or see its log
      $ bowline info docs -vv
    ");
}

#[tokio::test]
async fn server_without_sessions_is_no_fault() {
    verdict!(verdict_of_script(Script::sessionless).await, @"exit 0");
}

/// The endpoint that an HTTP+SSE server announces is on another machine.
#[tokio::test]
async fn announced_endpoint_elsewhere_is_named() {
    let server = testkit::server()
        .legacy()
        .tool("echo")
        .http_sse()
        .sse_endpoint("http://192.0.2.1/messages")
        .run()
        .await;
    verdict!(verdict_of(&server), @"
    exit 3
    connection failed, server: the server names http://192.0.2.1/ as the endpoint for messages, which is of another origin
      the server breaks the protocol: report it to who makes it
      $ bowline info docs -vv
    ");
}

/// A server on a Unix socket that is not there.
#[cfg(unix)]
#[tokio::test]
async fn missing_socket_is_named() {
    let context = Context::new();
    let socket = context.path("gone.sock");
    context.user_config(&format!(
        "[servers.docs]\nurl = 'http://localhost/mcp'\nsocket = '{}'\n",
        socket.display()
    ));
    let examined = Examined::of(&context, &["docs", "--connect-timeout", "5s"]);
    verdict!(context.hide_paths(&examined.verdict()), @"
    exit 3
    socket failed, server: nobody listens on [TMP]/gone.sock
      start the server, or correct `socket` in its entry
      $ bowline doctor docs
    ");
}
