//! What a relay must not change: whole schemas, and vendor keys in `_meta` (JS-05, MT-03).

use bowline_gateway::Relay;
use bowline_testkit as testkit;
use serde_json::json;

use crate::raw_server::RawServer;
use crate::support::TestHost;

/// A list whose schemas use features, and spellings, that a client which rebuilt them would lose.
const TOOLS_RESULT: &str = r##""result":{"tools":[{"name":"t","title":"T\u00e9","inputSchema":{ "$schema":"https://json-schema.org/draft/2020-12/schema","$id":"urn:x","type":"object","$defs":{"a":{"$anchor":"here","type":["string","null"],"pattern":"^\\d+\/$"},"b":{"$dynamicAnchor":"there"}},"properties":{"p":{"$ref":"#here"},"q":{"$ref":"#/$defs/a","x-mcp-header":"Region"},"r":{"multipleOf":0.10,"maximum":1e400,"default":-0.0},"s":{"const":12345678901234567890123}},"allOf":[{"if":{"properties":{"p":{"const":"1"}}},"then":{"required":["q"]},"else":{"not":{"required":["q"]}}}],"anyOf":[true,false],"oneOf":[{}],"patternProperties":{"^x-":{}},"propertyNames":{"maxLength":1.0e1},"dependentSchemas":{"p":{}},"dependentRequired":{"p":["q"]},"unevaluatedProperties":false,"additionalProperties":{"type":"integer"},"required":["p"],"x-vendor":{ "order" : [ 3,1,2 ] },"x-vendor":"twice" },"outputSchema":{"type":["object","null"],"prefixItems":[{},{"contains":true,"minContains":0}]},"annotations":{"readOnlyHint":true,"x-note":1.0},"icons":[{"src":"data:,"}],"_meta":{"com.example/card":{"a":1.0,"a":2}}},{"not":"a tool"}],"nextCursor":"","_meta":{"com.example/list":{ "kept" : 1.50 },"io.modelcontextprotocol/future":[1e400]}}"##;

/// JS-05, MT-03: a list passes byte for byte, even its invalid parts.
#[tokio::test]
async fn js_05_schemas_pass_byte_for_byte() {
    let raw = RawServer::start(TOOLS_RESULT).await;
    let mut host = initialize_raw(&raw).await;
    host.send_line(r#"{"jsonrpc":"2.0","id":"l","method":"tools/list","params":{"cursor":""}}"#).await;
    assert_eq!(host.read_line().await, format!(r#"{{"jsonrpc":"2.0","id":"l",{TOOLS_RESULT}}}"#));
}

/// MT-03: `_meta` of the arguments of a call, of its result, and of notifications meanwhile.
#[tokio::test]
async fn mt_03_vendor_meta_passes_both_ways() {
    const SAID: &str = r#"{"jsonrpc":"2.0","method":"notifications/x/vendor","params":{"_meta":{"com.example/n":{"a":1.0,"a":2}},"v":1e400}}"#;
    const RESULT: &str = r#""result":{"content":[{"type":"text","text":"","_meta":{"com.example/c":0.10}}],"_meta":{ "com.example/r" : {"x": -0.0},"com.example/s":"\u00e9" }}"#;
    const META: &str =
        r#""com.example/q":{ "deep" : [1.0,{"k":1,"k":2}] },"com.example.mcp/r":"\u00e9\/","x":1e400"#;
    let raw = RawServer::start_with_messages(&[SAID], RESULT).await;
    let mut host = initialize_raw(&raw).await;
    host.send_line(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":{{{META}}},"name":"t","arguments":{{"_meta":{{"n":1.0}}}}}}}}"#
    ))
    .await;
    assert_eq!(host.read_line().await, SAID);
    assert_eq!(host.read_line().await, format!(r#"{{"jsonrpc":"2.0","id":1,{RESULT}}}"#));
    let body = raw.body("tools/call");
    assert!(body.contains(&format!(r#""_meta":{{{META}"#)), "{body}");
    assert!(body.ends_with(r#""name":"t","arguments":{"_meta":{"n":1.0}}}}"#), "{body}");
}

/// MT-03, OT-02: beside a trace, which is continued, the rest of `_meta` stays as it was written;
/// and nothing in that rest keeps the trace from being continued.
#[tokio::test]
async fn mt_03_vendor_meta_passes_beside_a_trace() {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-";
    for meta in [
        r#""com.example/q":{ "deep" : [1.0,{"k":1,"k":2}] },"n":12345678901234567890123"#,
        r#""com.example/q":{"far":1e400}"#,
    ] {
        let raw = RawServer::start(r#""result":{}"#).await;
        let mut host = initialize_raw(&raw).await;
        host.send_line(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":{{{meta},"traceparent":"{TRACE}00f067aa0ba902b7-01","baggage":"user=7"}},"name":"t"}}}}"#
        ))
        .await;
        host.read_line().await;
        let body = raw.body("tools/call");
        assert!(body.contains(meta), "{body}");
        assert!(body.contains(TRACE) && !body.contains("00f067aa0ba902b7"), "our own span: {body}");
        assert!(!body.contains("baggage"), "{body}");
    }
}

/// MT-03: per-hop keys are set by the relay, whatever the host put there; the rest is kept.
#[tokio::test]
async fn mt_03_hop_keys_are_our_own() {
    let server = testkit::server().modern().tool("echo").run().await;
    let mut host = TestHost::connect(&server).await;
    host.send_request(
        1,
        "tools/call",
        json!({
            "name": "echo",
            "arguments": {},
            "_meta": {
                "progressToken": "the host's",
                "io.modelcontextprotocol/protocolVersion": "1999-01-01",
                "io.modelcontextprotocol/clientInfo": { "name": "somebody else", "version": "0" },
                "io.modelcontextprotocol/clientCapabilities": { "sampling": {}, "roots": {} },
                "com.example/trace": { "kept": true },
            },
        }),
    )
    .await;
    assert!(host.response(1).await["result"].is_object());
    let calls = server.received_with_method("tools/call");
    let meta = &calls[0].params()["_meta"];
    assert_eq!(meta["com.example/trace"], json!({ "kept": true }));
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "test-host");
    let capabilities = &meta["io.modelcontextprotocol/clientCapabilities"];
    assert!(capabilities.get("sampling").is_none() && capabilities.get("roots").is_none(), "{capabilities}");
    assert_ne!(meta["progressToken"], "the host's");
    assert_eq!(server.violations(), Vec::<String>::new());
}

async fn initialize_raw(raw: &RawServer) -> TestHost {
    let mut host = TestHost::start(Relay::new(raw.server()));
    host.send_request(0, "initialize", json!({ "protocolVersion": "2025-11-25" })).await;
    let answer = host.read_line().await;
    assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":0,"result""#), "{answer}");
    host
}
