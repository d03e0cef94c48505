//! `bowline::host` against servers of both eras: one host answers both (groups RT, SA, EL, MR).

use bowline::host::{
    Elicit, FormRequest, Host, HostFuture, Modes, Root, Roots, Sample, SampleRequest, SamplingRefusal,
    UrlRequest,
};
use bowline::types::{ElicitResult as Reply, SamplingResult};
use bowline::{Client, ErrorKind, Json};
use bowline_config::TransportSettings as _;
use bowline_testkit::{self as testkit, ScriptedRequest, Tool};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::support::{TEST_TIMEOUT, http, run_everywhere};

/// A person who accepts everything or never answers, and reports the dialogs that open and close.
struct Person {
    modes: Modes,
    agrees: bool,
    events: UnboundedSender<String>,
}

impl Person {
    fn new(agrees: bool) -> (Self, UnboundedReceiver<String>) {
        let (seen, heard) = unbounded_channel();
        (Self { modes: Modes::BOTH, agrees, events: seen }, heard)
    }

    fn show(&self, shown: String, reply: Reply) -> HostFuture<'_, Reply> {
        struct Dialog<'a>(&'a Person);
        impl Drop for Dialog<'_> {
            fn drop(&mut self) {
                let _ = self.0.events.send("closed".into());
            }
        }
        let _ = self.events.send(shown);
        let dialog = Dialog(self);
        Box::pin(async move {
            let _dialog = dialog;
            if self.agrees { reply } else { std::future::pending().await }
        })
    }
}

impl Elicit for Person {
    fn modes(&self) -> Modes {
        self.modes
    }

    fn form(&self, request: FormRequest) -> HostFuture<'_, Reply> {
        let during = request.purpose.as_deref().unwrap_or("?");
        let shown = format!("{} for {during}: {}", request.server, request.form.message);
        let content = Json::parse(r#"{"city":"Oslo"}"#).unwrap();
        self.show(shown, Reply::Accept(Some(content)))
    }

    fn url(&self, request: UrlRequest) -> HostFuture<'_, Reply> {
        self.show(format!("{}: {}", request.server, request.elicitation.url), Reply::Accept(None))
    }

    fn url_completed(&self, server: &str, id: &str) {
        let _ = self.events.send(format!("{server}: {id} is done"));
    }
}

struct FixedModel(Result<SamplingResult, SamplingRefusal>);

impl Sample for FixedModel {
    fn sample(&self, _: SampleRequest) -> HostFuture<'_, Result<SamplingResult, SamplingRefusal>> {
        Box::pin(async { self.0.clone() })
    }
}

fn city_schema() -> Value {
    json!({ "type": "object", "properties": { "city": { "type": "string" }, "days": { "type": "integer", "default": 2 } } })
}

/// EL-03, EL-06, SA-06, RT-01, MR-02, MR-08: every kind of server request in one call, in either
/// era.
#[tokio::test]
async fn mr_02_one_host_answers_both_eras() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::folder(folder.path()).unwrap().with_name("work");
    let ask = Tool::asks(
        "book",
        [
            ScriptedRequest::form_elicitation("form", "Where?", city_schema()),
            ScriptedRequest::sampling("model", "hi", 5),
            ScriptedRequest::roots("roots"),
        ],
    );
    for (name, running, server) in run_everywhere(testkit::server().tool(ask)).await {
        let (person, mut seen) = Person::new(true);
        let model = FixedModel(Ok(SamplingResult::text("m-1", "hello")));
        let host = Host::new().elicitation(person).sampling(model).roots(Roots::new([root.clone()]));
        let client = Client::builder(server).handler(host).connect().await.unwrap();
        let result = client.call_tool("book", &json!({})).await.unwrap();
        let answers: Value = serde_json::from_str(&result.text()).unwrap();
        let sampled = json!({ "role": "assistant", "content": { "type": "text", "text": "hello" }, "model": "m-1", "stopReason": "endTurn" });
        let expected = json!({
            "form": { "action": "accept", "content": { "city": "Oslo", "days": 2 } },
            "model": sampled,
            "roots": { "roots": [{ "uri": root.uri(), "name": "work" }] },
        });
        assert_eq!(answers, expected, "{name}");
        // Only a modern server says which call an elicitation belongs to.
        let during = if name.starts_with("modern") { "tools/call book" } else { "?" };
        assert_eq!(seen.recv().await.unwrap(), format!("test for {during}: Where?"), "{name}");
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// A closure answers URL elicitations in either era.
#[tokio::test]
async fn closure_answers_url_elicitations() {
    let ask =
        Tool::asks("login", [ScriptedRequest::url_elicitation("e1", "Log in", "https://srv.example/in")])
            .ignoring_capabilities();
    for (name, _running, server) in run_everywhere(testkit::server().tool(ask)).await {
        let (sender, mut urls) = unbounded_channel();
        let host = Host::new().on_url(move |request| {
            let _ = sender.send(format!("{}: {}", request.server, request.elicitation.url));
            std::future::ready(Reply::Accept(None))
        });
        let client = Client::builder(server).handler(host).connect().await.unwrap();
        let result = client.call_tool("login", &json!({})).await.unwrap();
        assert_eq!(result.text(), r#"{"e1":{"action":"accept"}}"#, "{name}");
        assert_eq!(urls.recv().await.as_deref(), Some("test: https://srv.example/in"), "{name}");
        client.close().await;
        assert!(urls.try_recv().is_err(), "{name}: nothing else was asked");
    }
}

/// EL-09, EL-10, EL-11, EL-12: URL elicitation in either era, and its completion where there is
/// one.
#[tokio::test]
async fn el_10_url_elicitation_in_both_eras() {
    let ask =
        Tool::asks("login", [ScriptedRequest::url_elicitation("e1", "Log in", "https://srv.example/in")])
            .ignoring_capabilities();
    let bad = Tool::asks("bad", [ScriptedRequest::url_elicitation("e2", "Log in", "javascript:alert(1)")])
        .ignoring_capabilities();
    for (name, running, server) in run_everywhere(testkit::server().tool(ask).tool(bad)).await {
        let (person, mut seen) = Person::new(true);
        let host = Host::new().elicitation(person);
        let client = Client::builder(server.clone()).handler(host).connect().await.unwrap();
        let result = client.call_tool("login", &json!({})).await.unwrap();
        assert_eq!(result.text(), r#"{"e1":{"action":"accept"}}"#, "{name}");
        assert_eq!(seen.recv().await.as_deref(), Some("test: https://srv.example/in"), "{name}");
        assert_eq!(seen.recv().await.as_deref(), Some("closed"));
        let result = client.call_tool("bad", &json!({})).await.unwrap();
        assert_eq!(result.text(), r#"{"e2":{"action":"decline"}}"#, "{name}");
        if name.starts_with("legacy") {
            for id in ["unknown", "e2", "e1", "e1"] {
                running.send(json!({ "jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": { "elicitationId": id } })).await;
            }
            let done = timeout(TEST_TIMEOUT, seen.recv()).await.unwrap();
            assert_eq!(done.as_deref(), Some("test: e1 is done"), "{name}");
        }
        client.close().await;
        drop(client);
        assert!(seen.recv().await.is_none(), "{name}: nothing else was seen");

        // With a host that supports no URLs, a legacy server gets an error, and a modern one no
        // retry.
        let (person, mut seen) = Person::new(true);
        let host = Host::new().elicitation(Person { modes: Modes::FORM, ..person });
        let client = Client::builder(server).handler(host).connect().await.unwrap();
        let calls = running.count("tools/call");
        let result = client.call_tool("login", &json!({})).await;
        if name.starts_with("legacy") {
            let answers: Value = serde_json::from_str(&result.unwrap().text()).unwrap();
            assert_eq!(answers["e1"]["error"]["code"], -32602, "{name}");
        } else {
            // MR-07
            assert!(matches!(result.unwrap_err().kind(), ErrorKind::Declined(error) if error.code == -32602));
            assert_eq!(running.count("tools/call"), calls + 1, "{name}: no retry");
        }
        client.close().await;
        drop(client);
        assert!(seen.recv().await.is_none(), "{name}");
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// EL-09, EL-10: the URL is never fetched, before or after consent, and no credential changes.
#[tokio::test]
async fn el_09_the_page_of_a_url_elicitation_is_not_fetched() {
    let site = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    site.set_nonblocking(true).unwrap();
    let url = format!("http://{}/in", site.local_addr().unwrap());
    let ask = Tool::asks("login", [ScriptedRequest::url_elicitation("e1", "Log in", &url)]);
    for script in [testkit::server().legacy(), testkit::server().modern()] {
        let server = script.tool(ask.clone()).tool("echo").run().await;
        let (person, _seen) = Person::new(true);
        let entry = http(&server).with_header("Authorization", "Bearer same").unwrap();
        let host = Host::new().elicitation(person);
        let client = Client::builder(entry).handler(host).connect().await.unwrap();
        client.call_tool("login", &json!({})).await.unwrap();
        client.call_tool("echo", &json!({})).await.unwrap();
        client.close().await;
        let calls = server.received_with_method("tools/call");
        assert!(calls.iter().all(|call| call.header("authorization") == Some("Bearer same")));
    }
    assert_eq!(site.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "somebody was there");
}

/// MR-08: every round is shown for the call that it belongs to, and answered separately.
#[tokio::test]
async fn mr_08_each_round_is_shown() {
    let rounds = Tool::asks_in_rounds(
        "trip",
        [
            [ScriptedRequest::form_elicitation("one", "Where?", city_schema())],
            [ScriptedRequest::form_elicitation("two", "And then?", city_schema())],
        ],
    );
    let server = testkit::server().modern().tool(rounds).run().await;
    let (person, mut seen) = Person::new(true);
    let host = Host::new().elicitation(person);
    let client = Client::builder(http(&server)).handler(host).connect().await.unwrap();
    client.call_tool("trip", &json!({})).await.unwrap();
    client.close().await;
    for expected in ["Where?", "And then?"] {
        assert_eq!(seen.recv().await, Some(format!("test for tools/call trip: {expected}")));
        assert_eq!(seen.recv().await.as_deref(), Some("closed"));
    }
    let last = server.received_with_method("tools/call").pop().unwrap();
    let keys: Vec<_> = last.params()["inputResponses"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["two"]);
    assert_eq!(server.violations(), Vec::<String>::new());
}

/// SA-07: a refusal is an error with its own code in the legacy era, and no message in the modern
/// one.
#[tokio::test]
async fn sa_07_a_refusal_on_modern_sends_nothing() {
    let ask = Tool::asks("think", [ScriptedRequest::sampling("model", "hi", 5)]);
    for (name, running, server) in run_everywhere(testkit::server().tool(ask)).await {
        let host = Host::new().sampling(FixedModel(Err(SamplingRefusal::Declined)));
        let client = Client::builder(server).handler(host).connect().await.unwrap();
        let result = client.call_tool("think", &json!({})).await;
        if name.starts_with("legacy") {
            let answers: Value = serde_json::from_str(&result.unwrap().text()).unwrap();
            assert_eq!(
                answers["model"]["error"],
                json!({ "code": -1, "message": "User rejected sampling request" }),
                "{name}"
            );
        } else {
            assert!(matches!(result.unwrap_err().kind(), ErrorKind::Declined(error) if error.code == -1));
            assert_eq!(running.count("tools/call"), 1, "{name}: no retry");
        }
        client.close().await;
    }
}

/// CN-04: the server cancels its elicitation; the dialog closes, and no response is sent.
#[tokio::test]
async fn cn_04_a_canceled_elicitation_closes_its_dialog() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let (person, mut seen) = Person::new(false);
    let host = Host::new().elicitation(person);
    let client = Client::builder(http(&server)).handler(host).connect().await.unwrap();
    let params = json!({ "message": "First?", "requestedSchema": city_schema() });
    let asked = server.send_request("elicitation/create", params).await;
    assert!(timeout(TEST_TIMEOUT, seen.recv()).await.unwrap().unwrap().ends_with("First?"));
    assert!(asked.cancel("changed my mind"));
    assert_eq!(timeout(TEST_TIMEOUT, seen.recv()).await.unwrap().as_deref(), Some("closed"));
    // The next elicitation is shown.
    let params = json!({ "message": "Second?", "requestedSchema": city_schema() });
    let second = server.send_request("elicitation/create", params).await;
    assert!(timeout(TEST_TIMEOUT, seen.recv()).await.unwrap().unwrap().ends_with("Second?"));
    assert!(second.cancel("also"));
    client.call_tool("echo", &json!({})).await.unwrap();
    client.close().await;
    assert_eq!(server.violations(), Vec::<String>::new());
    assert_eq!(server.count("response"), 0);
}

/// RT-03: changed roots are announced to legacy servers; modern ones have no such notification.
#[tokio::test]
async fn rt_03_changed_roots_are_announced() {
    const CHANGED: &str = "notifications/roots/list_changed";
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [first, second] = [&first, &second].map(|folder| Root::folder(folder.path()).unwrap());
    for (name, running, server) in run_everywhere(testkit::server().tool("echo")).await {
        let roots = Roots::new([first.clone()]);
        let host = Host::new().roots(roots.clone());
        let client = Client::builder(server).handler(host).connect().await.unwrap();
        client.call_tool("echo", &json!({})).await.unwrap();
        let before = running.count(CHANGED);
        roots.set([first.clone()]);
        roots.set([first.clone(), second.clone()]);
        if name.starts_with("legacy") {
            running.wait_until(|server| server.count(CHANGED) > before, TEST_TIMEOUT).await;
            let answer = running.request("roots/list", json!({})).await;
            assert_eq!(answer["result"]["roots"][1]["uri"], second.uri(), "{name}");
        }
        client.call_tool("echo", &json!({})).await.unwrap();
        client.close().await;
        let told = usize::from(name.starts_with("legacy"));
        assert_eq!(running.count(CHANGED), before + told, "{name}");
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}
