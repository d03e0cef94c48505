//! Hosts that name a tool twice, so that a filter and the server may read two names.

use bowline_testkit::{self as testkit, HttpServer};
use serde_json::{Value, json};

use super::host::{Host, result_text, with_meta};
use crate::context::Context;

/// Params that name `echo`, which is shown, and `counter`, which is hidden; and what a host is told.
pub(crate) const AMBIGUOUS_CALLS: [(&str, &str); 6] = [
    (r#""name":"counter","name":"echo""#, TWICE),
    (r#""name":"echo","name":"counter""#, TWICE),
    (r#""n\u0061me":"counter","name":"echo""#, TWICE),
    (r#""name":"echo","n\u0061me":"counter""#, TWICE),
    (r#""name":"echo","Name":"counter""#, OTHER_CASE),
    (r#""NAME":"counter""#, OTHER_CASE),
];

const TWICE: &str = "invalid params: the member name stands twice in params";
const OTHER_CASE: &str = "invalid params: a member of params differs from name only in case";

/// A call with these params, and `_meta`.
pub(crate) fn raw_call(id: u64, params: &str, meta: &Value) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{{params},"arguments":{{}},"_meta":{meta}}}}}"#
    )
}

/// The `_meta` of a host of 2026-07-28.
pub(crate) fn modern_meta() -> Value {
    with_meta(json!({}))["_meta"].take()
}

async fn server() -> HttpServer {
    testkit::server().legacy().tool("echo").tool("counter").run().await
}

async fn expect_refusals(host: &mut Host, meta: &Value) {
    for ((params, message), id) in AMBIGUOUS_CALLS.iter().zip(1000..) {
        host.send_line(&raw_call(id, params, meta)).await;
        let answer = host.wait_for_response(id).await;
        assert_eq!(answer["error"], json!({"code": -32602, "message": message}), "{params}");
    }
    host.send_line(&raw_call(2000, r#""name":"echo""#, meta)).await;
    assert_eq!(result_text(&host.wait_for_response(2000).await), "{}");
}

#[tokio::test]
async fn a_legacy_host_cannot_name_a_hidden_tool_beside_another() {
    let (context, server) = (Context::new(), server().await);
    let command = context.bowline(["connect", &server.url(), "--ignore-tool", "counter"]);
    let mut host = Host::start_initialized(command).await;
    expect_refusals(&mut host, &json!({})).await;
    assert_eq!((server.count("tools/call"), server.executions("counter")), (1, 0));
    assert_eq!(host.close().await.status.code(), Some(0));
}

#[tokio::test]
async fn a_modern_host_cannot_name_a_hidden_tool_beside_another() {
    let (context, server) = (Context::new(), server().await);
    let mut host = Host::start(context.bowline(["connect", &server.url(), "--ignore-tool", "counter"]));
    expect_refusals(&mut host, &modern_meta()).await;
    assert_eq!((server.count("tools/call"), server.executions("counter")), (1, 0));
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// A server that takes a list of one text for the text would run the hidden tool.
#[tokio::test]
async fn a_name_that_is_no_text_does_not_pass_the_filter() {
    let (context, server) = (Context::new(), server().await);
    let command = context.bowline(["connect", &server.url(), "--ignore-tool", "counter"]);
    let mut host = Host::start_initialized(command).await;
    let answer = host.request("tools/call", json!({"name": ["counter"]})).await;
    assert_eq!(answer["error"], json!({"code": -32602, "message": "params need name"}));
    assert_eq!(server.count("tools/call"), 0);
}

/// An ambiguous name is refused without a filter, too: whether a call may be sent again is decided by it.
#[tokio::test]
async fn what_is_in_the_arguments_is_passed_on_byte_for_byte() {
    let (context, server) = (Context::new(), server().await);
    let mut host = Host::start_initialized(context.bowline(["connect", &server.url()])).await;
    host.send_line(&raw_call(1000, r#""name":"echo","name":"echo""#, &json!({}))).await;
    let answer = host.wait_for_response(1000).await;
    assert_eq!(answer["error"], json!({"code": -32602, "message": TWICE}));
    let arguments = r#"{"name":1.0,"Name":2,"uri":{"a":"b","A":"c"}}"#;
    host.send_line(&format!(
        r#"{{"jsonrpc":"2.0","id":1001,"method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
    ))
    .await;
    assert!(host.wait_for_response(1001).await["result"].is_object());
    assert_eq!(server.count("tools/call"), 1);
}
