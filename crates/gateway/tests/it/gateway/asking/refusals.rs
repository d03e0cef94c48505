//! Hosts that refuse to sample or to name their roots.

use bowline::ErrorKind;

use super::leaving::impatient;
use super::*;

/// What a host is asked that it can refuse with an error alone.
fn questions() -> [ScriptedRequest; 2] {
    [sampling("asked"), ScriptedRequest::roots("asked")]
}

/// GW-16: a legacy host says so to the server. A modern server is told nothing, and the host gets its own
/// error back.
#[tokio::test]
async fn gw_16_what_a_legacy_host_refuses_is_refused_to_the_server() {
    for (kind, question) in SERVERS.into_iter().flat_map(|kind| questions().map(|question| (kind, question)))
    {
        let case = format!("{kind:?} {question:?}");
        let server = TestServer::start(kind, testkit::server().tool(Tool::asks("book", [question]))).await;
        let endpoint = Endpoint::start(&gateway([server.configured()])).await;
        let client = endpoint.host(Era::Legacy, ScriptedHost::new("decline")).await;
        let called = soon(client.call_tool("book", &json!({}))).await;
        if kind == ServerKind::ModernHttp {
            let error = called.unwrap_err();
            assert_eq!(error.server_error().map(|error| error.code), Some(-1), "{case}: {error}");
            assert_eq!((server.executions("book"), server.count("tools/call")), (0, 1), "{case}");
        } else {
            let answers: Value = serde_json::from_str(&called.expect("a result").text()).expect("JSON");
            let told = json!({"code": -1, "message": "User rejected it"});
            assert_eq!(answers["asked"]["error"], told, "{case}");
            assert_eq!(server.executions("book"), 1, "{case}");
        }
        endpoint.stop().await;
        assert_eq!(server.violations(), [""; 0], "{case}");
    }
}

/// GW-16: a modern host has no way to say so: it does not retry, so the call is given up, and a legacy
/// server is told that there will be no answer.
#[tokio::test]
async fn gw_16_what_a_modern_host_refuses_ends_its_call() {
    for (kind, question) in SERVERS.into_iter().flat_map(|kind| questions().map(|question| (kind, question)))
    {
        let case = format!("{kind:?} {question:?}");
        let server = TestServer::start(kind, testkit::server().tool(Tool::asks("book", [question]))).await;
        let endpoint = Endpoint::start(&impatient(&server)).await;
        let host = ScriptedHost::new("decline");
        let asked = Arc::clone(&host.asked);
        let client = endpoint.host(Era::Modern, host).await;
        let error = soon(client.call_tool("book", &json!({}))).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Declined(error) if error.code == -1), "{case}: {error}");
        assert_eq!(asked.lock().len(), 1, "{case}");
        if kind == ServerKind::ModernHttp {
            assert_eq!((server.executions("book"), server.count("tools/call")), (0, 1), "{case}");
        } else {
            let told = server.wait_for(|received| received.has_method("response"), TEST_TIMEOUT).await;
            assert_eq!(told.body["error"]["message"], "the host did not answer in time", "{case}");
            assert_eq!((server.executions("book"), server.count("response")), (1, 1), "{case}");
        }
        endpoint.stop().await;
        assert_eq!(server.violations(), [""; 0], "{case}");
    }
}
