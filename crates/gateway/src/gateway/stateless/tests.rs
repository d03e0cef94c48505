//! Tests of what passes between modern hosts and servers.

use bowline_proto::revision::Revision;

use super::*;

fn forwarded(params: &str) -> Option<String> {
    let params = Json::try_from(params).unwrap();
    let client = ModernRequest::parse(Some(&params), &[Revision::V2026_07_28]).unwrap();
    forwarded_params(Some(&params), &client).map(|params| params.to_string())
}

const OWN: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"h","version":"1"},"io.modelcontextprotocol/logLevel":"debug""#;

/// GW-13: what the host says about itself is for the gateway.
#[test]
fn gw_13_meta_of_the_host_stays_with_the_gateway() {
    for (extra, expected) in [
        ("", r#"{"name":"t","arguments":{"a":1.0}}"#),
        (
            r#","progressToken":7,"a/b":[ 1 ]"#,
            r#"{"_meta":{"progressToken":7,"a/b":[ 1 ]},"name":"t","arguments":{"a":1.0}}"#,
        ),
        // What is no token is none.
        (r#","progressToken":{}"#, r#"{"name":"t","arguments":{"a":1.0}}"#),
    ] {
        let params = format!(r#"{{"_meta":{{{OWN}{extra}}},"name":"t","arguments":{{"a":1.0}}}}"#);
        assert_eq!(forwarded(&params).as_deref(), Some(expected));
    }
}

/// GW-16: codes that modern hosts do not know are translated.
#[test]
fn gw_16_errors_have_codes_of_the_revision() {
    for (code, expected) in [(-32002, -32602), (-32042, -32603), (-32050, -32050)] {
        let error = modern_answer("tools/call", Err(RpcError::new(code, "m"))).unwrap_err();
        assert_eq!(error.code, expected);
    }
    let odd = modern_answer("tools/call", Ok(Json::try_from("[]").unwrap())).unwrap_err();
    assert_eq!(odd.code, -32603);
}
