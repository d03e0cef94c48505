//! Everything outside the JSON-RPC envelope passes byte for byte.

use bowline_gateway::Relay;

use crate::raw_server::RawServer;
use crate::support::TestHost;

/// Spellings that a parsed JSON tree would not preserve.
const ODD_PARAMS: &str = r#""name":"t","arguments":{"a":1.0,"b":1e400,"c":-0,"d":12345678901234567890123,"e":"\u00e9\/","k":1,"k":2},"x-vendor":{ "sp ace" : [ ] }"#;

/// Initializes a host that parses no JSON: the responses of the server contain more than a tree can
/// hold.
async fn initialize_raw(raw: &RawServer) -> TestHost {
    let mut host = TestHost::start(Relay::new(raw.server()));
    host.send_request(0, "initialize", serde_json::json!({"protocolVersion": "2025-11-25"})).await;
    let answer = host.read_line().await;
    assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":0,"result""#), "{answer}");
    host
}

#[tokio::test]
async fn params_and_results_pass_as_they_were_written() {
    let raw = RawServer::start(
        r#""result":{"content":[],"x":1.0,"y":1e400,"z":"\ud83d\ude00\/","k":1,"k":2,"n":{ "a" : -0.0 }}"#,
    )
    .await;
    let mut host = initialize_raw(&raw).await;

    host.send_line(&format!(
        r#"{{"jsonrpc":"2.0","id":"q","method":"tools/call","params":{{{ODD_PARAMS}}}}}"#
    ))
    .await;
    assert_eq!(
        host.read_line().await,
        r#"{"jsonrpc":"2.0","id":"q","result":{"content":[],"x":1.0,"y":1e400,"z":"\ud83d\ude00\/","k":1,"k":2,"n":{ "a" : -0.0 }}}"#
    );
    let body = raw.body("tools/call");
    assert!(body.contains(ODD_PARAMS), "{body}");
}

#[tokio::test]
async fn what_the_host_put_into_meta_stays_beside_our_token() {
    let raw = RawServer::start(r#""result":{}"#).await;
    let mut host = initialize_raw(&raw).await;
    host.send_line(
        r#"{"jsonrpc":"2.0","id":1,"method":"x/vendor","params":{"_meta":{"com.example/a":"00-a","n":1.0,"progressToken":"mine"},"v":1.50}}"#,
    )
    .await;
    assert_eq!(host.read_line().await, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let body = raw.body("x/vendor");
    assert!(body.contains(r#""com.example/a":"00-a","n":1.0,"progressToken":"#), "{body}");
    assert!(!body.contains("mine"), "{body}");
    assert!(body.ends_with(r#","v":1.50}}"#), "{body}");
}

#[tokio::test]
async fn an_error_passes_as_it_was_written() {
    let raw = RawServer::start(
        r#""error":{"code":-32001,"message":"Session not found: \"x\"","data":{"a":1.0,"a":2}}"#,
    )
    .await;
    let mut host = initialize_raw(&raw).await;
    host.send_line(r#"{"jsonrpc":"2.0","id":12345678901234567890123,"method":"tools/list"}"#).await;
    assert_eq!(
        host.read_line().await,
        r#"{"jsonrpc":"2.0","id":12345678901234567890123,"error":{"code":-32001,"message":"Session not found: \"x\"","data":{"a":1.0,"a":2}}}"#
    );
}

#[tokio::test]
async fn what_the_server_says_of_itself_passes() {
    let raw = RawServer::start(r#""result":{}"#).await;
    let mut host = TestHost::start(Relay::new(raw.server()));
    host.send_line(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}"#,
    )
    .await;
    // The server is older than the requested revision, and its tools may be found to have changed.
    assert_eq!(
        host.read_line().await,
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"x-vendor":1.0,"listChanged":true}},"serverInfo":{"name":"raw","version":"1","x-vendor":[1e400]},"instructions":"Knots."}}"#
    );
}
