//! The graceful stop, and what dropping does.

use std::time::{Duration, Instant};

use bowline_server::{HttpListener, HttpSettings};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::http_client::{HttpClient, TEST_TIMEOUT, TestReply, soon};
use crate::stateless::send;
use crate::test_server::{
    Report, begin_session, bind, initialize, notification, refusal, request, result, serve_host,
};

const NEWEST: &str = "2025-11-25";

/// A listener whose first host is served, and that host.
async fn start() -> (HttpListener, HttpClient, mpsc::UnboundedReceiver<Report>) {
    start_with(HttpSettings::new()).await
}

async fn start_with(settings: HttpSettings) -> (HttpListener, HttpClient, mpsc::UnboundedReceiver<Report>) {
    let mut listener = bind(settings).await;
    let client = HttpClient::new(listener.local_addr().unwrap());
    let (sender, reports) = mpsc::unbounded_channel();
    let (host, session) = tokio::join!(
        async {
            let host = soon(listener.accept()).await.unwrap();
            tokio::spawn(serve_host(host, sender));
        },
        begin_session(&client, "2025-06-18"),
    );
    let () = host;
    (listener, session, reports)
}

#[tokio::test]
async fn open_requests_are_answered_before_the_end() {
    let (listener, host, mut reports) = start().await;
    let client = host.without("mcp-session-id");
    assert_eq!(client.send("GET", "/readyz", "").await.status, 200);
    let stream = host.get().await.expect_events();
    let open = {
        let host = host.clone();
        tokio::spawn(async move {
            host.post(&request(1, "talk", json!({"steps": 0}))).await.expect_json(200).await
        })
    };
    assert_eq!(soon(reports.recv()).await, Some(Report::Arrived("talk".into())));
    let addr = listener.local_addr().unwrap();
    listener.drain();
    let stopping = tokio::spawn(listener.shut_down(TEST_TIMEOUT));
    let ready = client.send("GET", "/readyz", "").await;
    assert_eq!((ready.status, &*ready.text().await), (503, "draining"));
    assert_eq!(client.send("GET", "/healthz", "").await.status, 200);
    let refused = client.post(&initialize(NEWEST)).await;
    assert_eq!(refused.header("retry-after"), Some("5"));
    assert_eq!(refused.expect_json(503).await, refusal(-32603, "no more sessions are accepted"));
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
    assert_eq!(soon(open).await.unwrap(), result(1, json!({"said": 0})));
    soon(stopping).await.unwrap();
    stream.expect_end().await;
    while soon(reports.recv()).await.is_some_and(|report| report != Report::Ended) {}
    assert!(TcpStream::connect(addr).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn requests_that_do_not_end_are_given_up() {
    let (listener, host, mut reports) = start().await;
    let open = {
        let host = host.clone();
        tokio::spawn(async move { host.post(&request(1, "hang", json!({}))).await.expect_json(200).await })
    };
    assert_eq!(soon(reports.recv()).await, Some(Report::Arrived("hang".into())));
    soon(listener.shut_down(Duration::from_millis(10))).await;
    assert_eq!(
        soon(open).await.unwrap()["error"]["message"],
        "bowline: the request was given up (the server may have executed it)"
    );
}

/// A request of a relayed session has no response, so that the process that relays it can retry it.
#[tokio::test]
async fn requests_of_relayed_sessions_end_without_an_error() {
    let begun = Instant::now();
    let (listener, host, mut reports) = start_with(HttpSettings::new().with_relayed_pipes()).await;
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
    let talking = host.post(&request(1, "talk", json!({"steps": 1, "token": 1}))).await.expect_events();
    let silent = tokio::spawn(async move { host.post(&request(2, "hang", json!({}))).await });
    while soon(reports.recv()).await != Some(Report::Arrived("hang".into())) {}
    soon(listener.shut_down(Duration::from_millis(10))).await;
    // The listener waits 5 s at most for connections that do not end.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(messages(&soon(silent).await.unwrap().expect_events().text().await), Vec::<Value>::new());
    let talking = messages(&talking.text().await);
    assert_eq!((talking.len(), &talking[0]["params"]["progress"]), (1, &json!(1)), "{talking:?}");
}

/// The error for the request with this id that is open at the end.
fn given_up(id: u64) -> Value {
    let message = "bowline: the request was given up (the server may have executed it)";
    let data = json!({"bowline": {"cause": "closed", "execution": "unknown"}});
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -31050, "message": message, "data": data}})
}

/// The messages in the text of an event stream.
fn messages(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|message| serde_json::from_str(message).expect("JSON")).collect()
}

#[tokio::test]
async fn requests_on_event_streams_are_given_up() {
    let (listener, host, _reports) = start().await;
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
    let mut one = host.post(&request(1, "talk", json!({"steps": 1, "token": 1}))).await.expect_events();
    assert_eq!(one.message().await["params"]["progress"], 1);
    let batch = json!([request(2, "echo", json!({})), request(3, "hang", json!({}))]);
    let mut several = host.post(&batch).await.expect_events();
    assert_eq!(several.message().await, result(2, json!({})));
    let mut broken = host.post(&request(4, "talk", json!({"steps": 1, "token": 4}))).await.expect_events();
    let progress = broken.next().await.unwrap();
    drop(broken);
    let resumed = host.with("last-event-id", &progress.id).get().await.expect_events();
    soon(listener.shut_down(Duration::from_millis(10))).await;
    assert_eq!(messages(&resumed.text().await), [given_up(4)]);
    assert_eq!(messages(&one.text().await), [given_up(1)]);
    assert_eq!(messages(&several.text().await), [given_up(3)]);
}

/// A host that accepts no event stream gets the responses that there are, and an error for each other request.
#[tokio::test]
async fn the_rest_of_a_batch_is_given_up() {
    let (listener, host, mut reports) = start().await;
    let batch = json!([request(2, "echo", json!({})), request(3, "hang", json!({}))]);
    let open = tokio::spawn({
        let host = host.with("accept", "application/json");
        async move { host.post(&batch).await.expect_json(200).await }
    });
    let mut awaited = vec![Report::Gone("echo".into()), Report::Arrived("hang".into())];
    while !awaited.is_empty() {
        let seen = soon(reports.recv()).await.unwrap();
        awaited.retain(|report| *report != seen);
    }
    soon(listener.shut_down(Duration::from_millis(10))).await;
    assert_eq!(soon(open).await.unwrap(), json!([result(2, json!({})), given_up(3)]));
}

/// Canceled requests do not use up the memory for those that are open.
#[tokio::test]
async fn a_long_request_is_given_up_after_many_canceled_ones() {
    let (listener, host, _reports) = start().await;
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
    let mut long = host.post(&request(0, "talk", json!({"steps": 1, "token": 0}))).await.expect_events();
    assert_eq!(long.message().await["params"]["progress"], 1);
    for id in 1..=513 {
        let call = request(id, "talk", json!({"steps": 1, "token": id}));
        let mut canceled = host.post(&call).await.expect_events();
        assert_eq!(canceled.message().await["params"]["progress"], 1);
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        host.post(&cancel).await.expect_empty(202).await;
    }
    soon(listener.shut_down(Duration::from_millis(10))).await;
    assert_eq!(messages(&long.text().await), [given_up(0)]);
}

/// Hosts of 2026-07-28 cannot come back, so this is all that they learn.
#[tokio::test]
async fn requests_without_a_session_are_given_up() {
    let [silent, talking] = shut_down_without_sessions(HttpSettings::new()).await;
    assert_eq!(silent.expect_json(200).await, given_up(1));
    let talking = talking.expect_events().text().await;
    assert_eq!(messages(&talking), [notification("notifications/progress"), given_up(2)]);
}

/// The process that relays a pipe may retry a request that has no response, and takes an error for one.
#[tokio::test]
async fn requests_of_relayed_pipes_end_at_once_without_an_error() {
    let begun = Instant::now();
    let [silent, talking] = shut_down_without_sessions(HttpSettings::new().with_relayed_pipes()).await;
    // The listener waits 5 s at most for connections that do not end.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(messages(&silent.expect_events().text().await), Vec::<Value>::new());
    let talking = talking.expect_events().text().await;
    assert_eq!(messages(&talking), [notification("notifications/progress")]);
}

/// Shuts down a listener while two requests of hosts of 2026-07-28 are open: one without any message, and one with an
/// event stream. Returns how they are answered.
async fn shut_down_without_sessions(settings: HttpSettings) -> [TestReply; 2] {
    let listener = bind(settings).await;
    let client = HttpClient::new(listener.local_addr().unwrap());
    let mut requests = listener.accept_stateless();
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            let arrived = arrived.clone();
            request.spawn(|request| async move {
                if &*request.method == "talk" {
                    request.request.notify("notifications/progress", None).await;
                }
                let _ = arrived.send(());
                std::future::pending::<()>().await;
            });
        }
    });
    let silent = tokio::spawn({
        let client = client.clone();
        async move { send(&client, 1, "hang", json!({})).await }
    });
    let talking = send(&client, 2, "talk", json!({})).await;
    for _ in 0..2 {
        soon(arrivals.recv()).await.unwrap();
    }
    soon(listener.shut_down(Duration::from_millis(10))).await;
    [soon(silent).await.unwrap(), talking]
}

#[tokio::test]
async fn drained_listener_accepts_no_more_hosts() {
    let (mut listener, host, _reports) = start().await;
    listener.drain();
    assert!(soon(listener.accept()).await.is_none());
    assert_eq!(host.post(&request(1, "echo", json!({}))).await.expect_json(200).await, result(1, json!({})));
}

#[tokio::test]
async fn dropped_listener_ends_its_hosts() {
    let (listener, host, mut reports) = start().await;
    let stream = host.get().await.expect_events();
    drop(listener);
    assert_eq!(soon(reports.recv()).await, Some(Report::Ended));
    stream.expect_end().await;
}

/// A host that is no longer served has no session.
#[tokio::test]
async fn dropped_host_ends_its_session() {
    let mut listener = bind(HttpSettings::new()).await;
    let client = HttpClient::new(listener.local_addr().unwrap());
    let serving = async {
        let host = soon(listener.accept()).await.unwrap();
        tokio::spawn(serve_host(host, mpsc::unbounded_channel().0)).abort_handle()
    };
    let (serving, session) = tokio::join!(serving, begin_session(&client, "2025-06-18"));
    let stream = session.get().await.expect_events();
    serving.abort();
    stream.expect_end().await;
    let gone = session.post(&request(1, "echo", json!({}))).await;
    assert_eq!(gone.expect_json(404).await, refusal(-32600, "no such session"));
}

/// Whoever serves a host may end its session: open streams are read to their end, and its id is
/// forgotten.
#[tokio::test]
async fn closed_link_ends_the_session() {
    let mut listener = bind(HttpSettings::new()).await;
    let client = HttpClient::new(listener.local_addr().unwrap());
    let (link, session) = tokio::join!(
        async {
            let host = soon(listener.accept()).await.unwrap();
            let link = host.link().clone();
            tokio::spawn(serve_host(host, mpsc::unbounded_channel().0));
            link
        },
        begin_session(&client, "2025-06-18"),
    );
    let mut stream = session.get().await.expect_events();
    link.notify("notifications/tools/list_changed", None).await;
    soon(link.close(TEST_TIMEOUT)).await;
    assert_eq!(stream.message().await, notification("notifications/tools/list_changed"));
    stream.expect_end().await;
    assert_eq!(session.get().await.status, 404);
    soon(link.wait_for_disconnect()).await;
    link.notify("notifications/tools/list_changed", None).await;
    assert_eq!(
        link.send_request("roots/list", &bowline_proto::wire::Json::empty_object())
            .await
            .unwrap_err()
            .message,
        "the host has left"
    );
}

/// The POST of such a host ends before its request is answered, which is waited for all the same.
#[tokio::test]
async fn open_requests_over_http_and_sse_are_answered_before_the_end() {
    let mut listener = bind(HttpSettings::new().with_sse("/sse", "/messages")).await;
    let client = HttpClient::new(listener.local_addr().unwrap());
    let (sender, mut reports) = mpsc::unbounded_channel();
    let accepting = async {
        let host = soon(listener.accept()).await.unwrap();
        tokio::spawn(serve_host(host, sender));
    };
    let ((), (mut events, endpoint)) = tokio::join!(accepting, crate::sse::open(&client));
    crate::sse::post(&client, &endpoint, &initialize("2024-11-05")).await;
    assert_eq!(events.message().await["result"]["protocolVersion"], "2024-11-05");
    crate::sse::post(&client, &endpoint, &notification("notifications/initialized")).await;
    crate::sse::post(&client, &endpoint, &request(1, "talk", json!({"steps": 0}))).await;
    assert_eq!(soon(reports.recv()).await, Some(Report::Arrived("talk".into())));
    let stopping = tokio::spawn(listener.shut_down(TEST_TIMEOUT));
    while client.send("GET", "/readyz", "").await.status != 503 {}
    crate::sse::post(&client, &endpoint, &notification("notifications/go")).await;
    assert_eq!(events.message().await, result(1, json!({"said": 0})));
    events.expect_end().await;
    soon(stopping).await.unwrap();
}
