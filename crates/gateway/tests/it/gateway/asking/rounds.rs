//! What a modern host is asked, and how its retries go on.

use bowline_testkit::{self as testkit, ScriptedRequest, StreamKind, Tool};
use serde_json::{Value, json};

use super::*;

/// GW-07, GW-16, MR-02: questions that a server asks together are asked together, under keys that no
/// other round has, and the answers continue the call.
#[tokio::test]
async fn gw_07_questions_of_one_moment_are_one_round() {
    for kind in SERVERS {
        let rounds = [vec![form("a"), ScriptedRequest::roots("b")], vec![form("c")]];
        let tool = Tool::asks_in_rounds("book", rounds);
        let server = TestServer::start(kind, testkit::server().tool(tool)).await;
        let endpoint = Endpoint::start(&gateway([server.configured()])).await;
        let host = RawHost::new(&endpoint, all_capabilities());
        let (questions, state) = host.begin("book").await;
        let mut methods: Vec<_> = questions.as_object().unwrap().iter().collect();
        methods.sort_by_key(|(_, question)| question["method"].to_string());
        let [(form_key, form_question), (roots_key, roots_question)] = methods[..] else {
            panic!("{kind:?}: {questions}")
        };
        assert_eq!(form_question["params"]["message"], "Where?");
        assert_eq!(form_question["params"].get("elicitationId"), None);
        assert_eq!(roots_question["method"], "roots/list");
        // The server waits, and has been told nothing.
        assert_eq!(server.count("response"), 0, "{kind:?}");
        let roots = json!({"roots": []});
        let responses = json!({form_key.as_str(): accept("Oslo"), roots_key.as_str(): roots});
        let second = host.call("book", retry(&state, responses)).await;
        assert_eq!(second["result"]["resultType"], "input_required", "{kind:?}: {second}");
        let questions = second["result"]["inputRequests"].as_object().unwrap().clone();
        let (key, _) = questions.iter().next().expect("a question");
        assert_eq!(questions.len(), 1, "{kind:?}");
        assert!(key != form_key && key != roots_key, "{kind:?}: {key} was used before");
        // The keys of a modern server stay.
        assert_eq!(
            (form_key == "a", key == "c"),
            (kind == ServerKind::ModernHttp, kind == ServerKind::ModernHttp)
        );
        let state = &second["result"]["requestState"];
        let last = host.call("book", retry(state, json!({key.as_str(): accept("Rome")}))).await;
        assert_eq!(last["result"]["resultType"], "complete", "{kind:?}: {last}");
        assert_eq!(answers(&last), json!({"a": accept("Oslo"), "b": roots, "c": accept("Rome")}), "{kind:?}");
        assert_eq!(server.executions("book"), 1, "{kind:?}");
        endpoint.stop().await;
        assert_eq!(server.violations(), [""; 0], "{kind:?}");
    }
}

/// GW-07: a question without an answer is asked again; an invalid answer refuses the retry, whose
/// state can be used once more.
#[tokio::test]
async fn gw_07_missing_answers_are_asked_for_again() {
    let tool = Tool::asks("book", [form("a"), ScriptedRequest::roots("b")]);
    let server = testkit::server().legacy().tool(tool).run().await;
    let endpoint = Endpoint::start(&gateway([super::super::at("one", &server)])).await;
    let host = RawHost::new(&endpoint, all_capabilities());
    let (questions, state) = host.begin("book").await;
    let key = |method: &str| {
        let found = questions.as_object().unwrap().iter().find(|(_, question)| question["method"] == method);
        found.unwrap_or_else(|| panic!("no {method} in {questions}")).0.clone()
    };
    let (form_key, roots_key) = (key("elicitation/create"), key("roots/list"));
    let invalid = host.call("book", retry(&state, json!({&form_key: {"action": "perhaps"}}))).await;
    assert_eq!(
        invalid["error"],
        json!({"code": -32602, "message": "an input response is not the result of an elicitation"})
    );
    let responses = json!({&form_key: accept("Oslo"), "other": {}});
    let again = host.call("book", retry(&state, responses)).await;
    let asked = &again["result"]["inputRequests"];
    assert_eq!(asked, &json!({&roots_key: questions[&roots_key].clone()}), "{again}");
    let state = &again["result"]["requestState"];
    let last = host.call("book", retry(state, json!({&roots_key: {"roots": []}}))).await;
    assert_eq!(answers(&last), json!({"a": accept("Oslo"), "b": {"roots": []}}));
    assert_eq!(server.executions("book"), 1);
    endpoint.stop().await;
}

/// GW-04, GW-15: servers are told what the host of the request declares, and ask nothing else.
#[tokio::test]
async fn gw_15_undeclared_capabilities_are_never_asked_for() {
    let page = || Tool::asks("pay", [page("page")]);
    let server = testkit::server().legacy().tool(page()).run().await;
    let endpoint = Endpoint::start(&gateway([super::super::at("one", &server)])).await;
    let declared = json!({"elicitation": {"form": {"x": 1}}, "roots": {"listChanged": true}, "tasks": {}});
    let host = RawHost::new(&endpoint, declared);
    let refused = host.call("pay", json!({})).await;
    assert_eq!(answers(&refused)["page"]["error"]["code"], -32021, "{refused}");
    let hello = server.received_with_method("initialize").pop().expect("it is connected");
    assert_eq!(hello.params()["capabilities"], json!({"elicitation": {"form": {}}, "roots": {}}));
    // A host without capabilities has a connection of its own.
    let refused = RawHost::new(&endpoint, json!({})).call("pay", json!({})).await;
    assert_eq!(answers(&refused)["page"]["error"]["code"], -32601, "{refused}");
    let hellos = server.received_with_method("initialize");
    let told: Vec<_> = hellos.iter().map(|hello| hello.params()["capabilities"].clone()).collect();
    assert!(told.contains(&json!({})) && told.len() == 2, "{told:?}");
    endpoint.stop().await;
    // A modern server refuses by itself.
    let server = testkit::server().modern().tool(page()).run().await;
    let endpoint = Endpoint::start(&gateway([super::super::at("one", &server)])).await;
    let reply = RawHost::new(&endpoint, json!({})).send("pay", &json!({})).await;
    assert_eq!(reply.status, "HTTP/1.1 400 Bad Request\r\n");
    let error = reply.message().await["error"].clone();
    assert_eq!(error["code"], -32021);
    assert_eq!(error["data"]["requiredCapabilities"], json!({"elicitation": {"url": {}}}));
    endpoint.stop().await;
}

/// PR-02, GW-09: progress goes to the request that waits, with its own token.
#[tokio::test]
async fn pr_02_progress_after_a_question_goes_to_the_retry() {
    let server = testkit::server().legacy().tool("slow").run().await;
    let endpoint = Endpoint::start(&gateway([super::super::at("one", &server)])).await;
    let client = endpoint.host(Era::Modern, ScriptedHost::new("accept")).await;
    let seen = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&seen);
    let options = bowline::CallOptions::new().on_progress(move |_| *counter.lock() += 1);
    let calling = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool_with("slow", &json!({"ms": 400, "steps": 4}), &options).await }
    });
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    let question = json!({"jsonrpc": "2.0", "id": "s", "method": "roots/list"});
    server.send_via(StreamKind::Post, question).await;
    let is_answer = |received: &testkit::ReceivedMessage| received.body["id"] == "s";
    server.wait_for(is_answer, TEST_TIMEOUT).await;
    soon(calling).await.unwrap().expect("a result");
    assert!(*seen.lock() > 0, "no progress reached the host");
    endpoint.stop().await;
}

/// MR-06: a server that asks without end is refused after 16 rounds, and the call ends.
#[tokio::test]
async fn mr_06_rounds_are_bounded() {
    for kind in [ServerKind::LegacyHttp, ServerKind::ModernHttp] {
        let rounds = (0..20).map(|round| vec![form(&format!("k{round}"))]);
        let tool = Tool::asks_in_rounds("book", rounds);
        let server = TestServer::start(kind, testkit::server().tool(tool)).await;
        let endpoint = Endpoint::start(&gateway([server.configured()])).await;
        let host = RawHost::new(&endpoint, all_capabilities());
        let (mut answer, mut asked) = (host.call("book", json!({})).await, 0);
        while answer["result"]["resultType"] == "input_required" {
            asked += 1;
            let questions = answer["result"]["inputRequests"].as_object().unwrap();
            let responses: Value = questions.keys().map(|key| (key.clone(), accept("Oslo"))).collect();
            answer = host.call("book", retry(&answer["result"]["requestState"], responses)).await;
        }
        assert_eq!(asked, 16, "{kind:?}");
        if kind == ServerKind::LegacyHttp {
            let given = answers(&answer);
            assert_eq!((&given["k15"], &given["k16"]["error"]["code"]), (&accept("Oslo"), &json!(-32603)));
            assert_eq!(given.as_object().map(serde_json::Map::len), Some(20));
            assert_eq!(server.executions("book"), 1);
        } else {
            assert_eq!(answer["error"]["code"], -31050, "{answer}");
            assert_eq!(answer["error"]["data"]["bowline"]["execution"], "unknown", "{answer}");
            assert_eq!(server.executions("book"), 0);
        }
        endpoint.stop().await;
    }
}
