//! Questions that do not say which call they belong to.

use bowline_testkit as testkit;
use serde_json::json;

use super::*;

const UNCLEAR: &str =
    "bowline: several calls are open, and the question does not say to which of them it belongs";

/// GW-15: with several calls on one connection, or with none, nobody is asked.
#[tokio::test]
async fn gw_15_questions_of_no_single_call_are_refused() {
    for kind in [ServerKind::LegacyHttp, ServerKind::LegacyStdio] {
        let server = TestServer::start(kind, testkit::server().tool("slow").tool("echo")).await;
        let endpoint = Endpoint::start(&gateway([server.configured()])).await;
        let host = ScriptedHost::new("accept");
        let asked = Arc::clone(&host.asked);
        let client = endpoint.host(Era::Modern, host).await;
        soon(client.call_tool("echo", &json!({}))).await.expect("a result");
        // Not on the stream of a call: over HTTP, on that of the session.
        let ask = || server.request("roots/list", json!({}));
        let alone = ask().await;
        assert_eq!(alone["error"]["code"], -32600, "{kind:?}: {alone}");
        assert_eq!(
            alone["error"]["message"],
            "bowline: no call is open that the question could belong to, and it reaches the host of a call only"
        );
        let call = || {
            let client = client.clone();
            tokio::spawn(async move { client.call_tool("slow", &json!({"ms": 600_000})).await })
        };
        let _first = call();
        server.wait_for_nth(0, |received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
        // One call is open, so it belongs to that.
        let expected = scripted_answer("accept", "roots/list", "").unwrap();
        assert_eq!(soon(ask()).await["result"], expected, "{kind:?}");
        assert_eq!(*asked.lock(), ["roots/list"], "{kind:?}");
        let _second = call();
        server.wait_for_nth(1, |received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
        let unclear = ask().await;
        assert_eq!(unclear["error"]["message"], UNCLEAR, "{kind:?}");
        assert_eq!(asked.lock().len(), 1, "{kind:?}");
        soon(client.close()).await;
        endpoint.stop().await;
    }
}

/// GW-15: two hosts with calls on one connection at once: each is asked what its own call needs.
#[tokio::test]
async fn gw_15_each_host_of_a_shared_connection_is_asked_its_own_questions() {
    for kind in [ServerKind::LegacyHttp, ServerKind::ModernHttp] {
        let server = TestServer::start(kind, testkit::server().tool("ask")).await;
        let endpoint = Endpoint::start(&gateway([server.configured()])).await;
        let host = RawHost::new(&endpoint, all_capabilities());
        let ask = |message: &str| {
            let params = json!({"message": message, "requestedSchema": {"type": "object", "properties": {}}});
            json!({"arguments": {"method": "elicitation/create", "params": params}})
        };
        let (ann, bob) = (ask("for ann"), ask("for bob"));
        let (one, two) = tokio::join!(host.call("ask", ann.clone()), host.call("ask", bob.clone()));
        for (call, answer, name) in [(&bob, &two, "bob"), (&ann, &one, "ann")] {
            let questions =
                answer["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{answer}"));
            let (key, question) = questions.iter().next().expect("a question");
            assert_eq!(question["params"]["message"], format!("for {name}"), "{kind:?}");
            let mut again = call.clone();
            again["requestState"] = answer["result"]["requestState"].clone();
            again["inputResponses"] = json!({key.as_str(): accept(name)});
            let done = host.call("ask", again).await;
            let text = done["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{done}"));
            assert!(text.contains(&accept(name).to_string()), "{kind:?}: {text}");
        }
        if kind == ServerKind::LegacyHttp {
            assert_eq!(server.initialize_count(), 1, "they share a connection");
        }
        endpoint.stop().await;
        assert_eq!(server.violations(), [""; 0], "{kind:?}");
    }
}
