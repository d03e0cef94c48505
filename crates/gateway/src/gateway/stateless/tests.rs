//! Tests of what passes between modern hosts and servers.

use std::time::Duration;

use bowline::Server;
use bowline_proto::revision::Revision;
use bowline_testkit as testkit;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::super::{Gateway, server_info};
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
    for (code, expected) in [(-32002, -32602), (-32042, -32603), (-31050, -31050)] {
        let error = modern_answer("tools/call", Err(RpcError::new(code, "m")), &server_info()).unwrap_err();
        assert_eq!(error.code, expected);
    }
    let odd = modern_answer("tools/call", Ok(Json::try_from("[]").unwrap()), &server_info()).unwrap_err();
    assert_eq!(odd.code, -32603);
}

#[tokio::test]
async fn the_number_of_watched_resources_is_bounded() {
    let server = testkit::server().legacy().resource("x://a", "a").resource("x://b", "b").run().await;
    let configured = Server::http("one", server.url()).build().unwrap();
    let mut hosts = StatelessHosts::new(Gateway::builder([configured]).build().0);
    hosts.watches = Arc::new(Semaphore::new(1));
    let client = ModernRequest::parse(
        Some(&Json::try_from(&*format!(r#"{{"_meta":{{{OWN}}}}}"#)).unwrap()),
        &[Revision::V2026_07_28],
    );
    let lease = hosts.upstreams.lease(&client.unwrap(), &bowline_server::Audience::default());
    lease.catalog().wait_until_known(Duration::from_secs(20)).await;
    let snapshot = lease.catalog().snapshot();
    let wanted = || ["x://a".into(), "x://b".into()].into();
    let (sender, _updates) = mpsc::channel(1);
    let mut watching = JoinSet::new();
    let watch = async |watching: &mut JoinSet<()>| {
        listen::watch_resources(&hosts, (&lease, &snapshot), wanted(), sender.clone(), watching).await
    };
    assert_eq!(watch(&mut watching).await, ["x://a".into()].into());
    assert_eq!(watch(&mut watching).await, [].into(), "there is no room");
    watching.shutdown().await;
    assert_eq!(watch(&mut watching).await, ["x://a".into()].into(), "there is room again");
}
