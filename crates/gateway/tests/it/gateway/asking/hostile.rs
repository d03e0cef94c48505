//! Retries that are not those of the host which was asked.

use bowline_testkit::{self as testkit, Tool};
use serde_json::{Value, json};

use super::*;

async fn asking_server() -> HttpServer {
    let server = testkit::server().legacy().tool(Tool::asks("book", [form("where")]));
    server.tool(Tool::asks("other", [form("where")])).run().await
}

fn only_key(questions: &Value) -> String {
    questions.as_object().and_then(|questions| questions.keys().next()).expect("a question").clone()
}

fn invalid_state() -> Value {
    json!({"code": -32602, "message": "requestState is not valid for this request"})
}

/// GW-07, SE-09: a state that was changed, or is of another host, tool or arguments, finds nothing; that
/// of the host still does.
#[tokio::test]
async fn gw_07_forged_and_foreign_states_are_refused() {
    let server = asking_server().await;
    let endpoint = Endpoint::start(&gateway([super::super::at("one", &server)])).await;
    let host = RawHost::new(&endpoint, all_capabilities());
    let (questions, state) = host.begin("book").await;
    let responses = json!({only_key(&questions): accept("Oslo")});
    let text = state.as_str().expect("a text");
    for at in [1, text.len() / 2, text.len() - 2] {
        let mut forged = text.to_owned().into_bytes();
        forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
        let forged = json!(String::from_utf8(forged).expect("ASCII"));
        let refused = host.call("book", retry(&forged, responses.clone())).await;
        assert_eq!(refused["error"], invalid_state(), "byte {at}");
    }
    for odd in [json!("mine"), json!(""), Value::Null] {
        let refused = host.call("book", retry(&odd, responses.clone())).await;
        assert_eq!(refused["error"], invalid_state(), "{odd}");
    }
    let refused = host.call("book", retry(&json!(7), responses.clone())).await;
    assert_eq!(refused["error"]["code"], -32602);
    let refused = host.call("other", retry(&state, responses.clone())).await;
    assert_eq!(refused["error"], invalid_state());
    let mut changed = retry(&state, responses.clone());
    changed["arguments"] = json!({"n": 2});
    assert_eq!(host.call("book", changed).await["error"], invalid_state());
    let thief = RawHost { name: "thief", ..RawHost::new(&endpoint, all_capabilities()) };
    assert_eq!(thief.call("book", retry(&state, responses.clone())).await["error"], invalid_state());
    // Nothing of that reached the server, and the state is still good.
    assert_eq!(server.count("response"), 0);
    let answer = host.call("book", retry(&state, responses)).await;
    assert_eq!(answers(&answer), json!({"where": accept("Oslo")}));
    assert_eq!((server.executions("book"), server.executions("other")), (1, 0));
    endpoint.stop().await;
}

/// GW-07: a state is used once, also if two retries come at once.
#[tokio::test]
async fn gw_07_a_state_is_used_once() {
    let server = asking_server().await;
    let endpoint = Endpoint::start(&gateway([super::super::at("one", &server)])).await;
    let host = RawHost::new(&endpoint, all_capabilities());
    let (questions, state) = host.begin("book").await;
    let key = only_key(&questions);
    let attempt = |city: &str| host.call("book", retry(&state, json!({&key: accept(city)})));
    let (one, two, three) = tokio::join!(attempt("Oslo"), attempt("Rome"), attempt("Bonn"));
    let all = [one, two, three];
    let won: Vec<_> = all.iter().filter(|answer| answer.get("result").is_some()).collect();
    assert_eq!(won.len(), 1, "{all:?}");
    for lost in all.iter().filter(|answer| answer.get("error").is_some()) {
        assert_eq!(lost["error"], invalid_state());
    }
    assert_eq!(attempt("Nice").await["error"], invalid_state());
    assert_eq!((server.executions("book"), server.count("response")), (1, 1));
    endpoint.stop().await;
}

/// GW-07: after a restart of the gateway nobody knows whether the call was executed.
#[tokio::test]
async fn gw_07_a_state_of_an_earlier_process_says_unknown() {
    let server = asking_server().await;
    let first = Endpoint::start(&gateway([super::super::at("one", &server)])).await;
    let (questions, state) = RawHost::new(&first, all_capabilities()).begin("book").await;
    first.stop().await;
    let second = Endpoint::start(&gateway([super::super::at("one", &server)])).await;
    let host = RawHost::new(&second, all_capabilities());
    let lost = host.call("book", retry(&state, json!({only_key(&questions): accept("Oslo")}))).await;
    assert_eq!(lost["error"]["code"], -31050, "{lost}");
    assert_eq!(lost["error"]["data"]["bowline"], json!({"cause": "restarted", "execution": "unknown"}));
    assert_eq!(server.executions("book"), 1);
    second.stop().await;
}

/// The calls of one host that wait for input are bounded; those of others are not affected.
#[tokio::test]
async fn calls_that_wait_for_input_are_bounded() {
    let one = testkit::server().legacy().tool(Tool::asks("book", [form("where")])).run().await;
    let two = testkit::server().legacy().tool(Tool::asks("other", [form("where")])).run().await;
    let servers = [super::super::at("one", &one), super::super::at("two", &two)];
    let endpoint = Endpoint::start(&gateway(servers)).await;
    let host = RawHost::new(&endpoint, all_capabilities());
    for _ in 0..32 {
        host.begin("book").await;
        host.begin("other").await;
    }
    let refused = host.call("book", json!({})).await;
    let error = &answers(&refused)["where"]["error"];
    assert_eq!(error["message"], "too many questions wait for hosts, or were asked by one call");
    let other = RawHost { name: "other", ..RawHost::new(&endpoint, all_capabilities()) };
    other.begin("book").await;
    endpoint.stop().await;
    assert_eq!(one.sessions().len() + two.sessions().len(), 0, "the parked calls do not delay the end");
}

/// MR-06: a host that retries without answers does not hold its call forever.
#[tokio::test]
async fn mr_06_retries_without_answers_are_bounded() {
    let server = asking_server().await;
    let endpoint = Endpoint::start(&gateway([super::super::at("one", &server)])).await;
    let host = RawHost::new(&endpoint, all_capabilities());
    let (mut answer, mut asked) = (host.call("book", json!({})).await, 0);
    while answer["result"]["resultType"] == "input_required" {
        asked += 1;
        answer = host.call("book", retry(&answer["result"]["requestState"], json!({}))).await;
    }
    assert_eq!(asked, 16);
    assert_eq!(answers(&answer)["where"]["error"]["code"], -32603, "{answer}");
    assert_eq!(server.executions("book"), 1);
    endpoint.stop().await;
}
