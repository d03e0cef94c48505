//! A listener behind which each host is served by a script that its own messages drive.
//!
//! | request | what it does |
//! |---|---|
//! | `echo` | responds with its params |
//! | `talk` | sends one progress notification per `notifications/go`, `steps` times, then responds |
//! | `ask` | sends `roots/list` as a part of itself, and responds with the result |
//! | `view` | responds with the view of its host |
//! | `hang` | never responds |
//! | `record` | records itself, waits for `notifications/go`, or `after` of them, and says whether it was repeated |
//! | `record_and_hang` | records itself and never responds |
//! | `drop` | is dropped without a response |
//! | `flood` | sends `count` notifications of `bytes` bytes as a part of itself, then responds |
//! | `burst` | the same, with notifications that may be dropped |
//!
//! | notification | what it does |
//! |---|---|
//! | `notifications/go` | lets `talk` go on |
//! | `notifications/announce` | sends a list change that belongs to no request |
//! | `notifications/question` | sends `roots/list` that belongs to no request; reports the outcome |

use bowline_proto::server::handshake::{ServerOffer, implementation};
use bowline_proto::wire::{Json, RpcError, code};
use bowline_server::{
    Host, HostEvent, HttpControl, HttpListener, HttpSettings, InitializeRequest, OpenRequest,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::http_client::{HttpClient, soon};

/// A running listener.
pub(crate) struct TestServer {
    pub(crate) client: HttpClient,
    pub(crate) reports: mpsc::UnboundedReceiver<Report>,
    /// Lets `talk` of hosts without a session go on.
    pub(crate) go: watch::Sender<u64>,
    accepting: JoinHandle<()>,
}

/// What happened to a host.
#[derive(Debug, PartialEq)]
pub(crate) enum Report {
    /// A request or notification arrived.
    Arrived(String),
    /// What served a request was dropped.
    Gone(String),
    /// A question that belongs to no request has this outcome.
    Answered(Result<Value, String>),
    /// The host has ended.
    Ended,
}

type Reports = mpsc::UnboundedSender<Report>;

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::start_with(HttpSettings::new()).await
    }

    /// Starts a listener whose settings can be changed.
    pub(crate) async fn start_with_control(settings: HttpSettings) -> (Self, HttpControl) {
        let listener = bind(settings).await;
        let control = listener.control();
        (Self::serve(listener), control)
    }

    pub(crate) async fn start_with(settings: HttpSettings) -> Self {
        Self::serve(bind(settings).await)
    }

    /// Starts a listener that serves hosts without a session too.
    pub(crate) async fn start_both(settings: HttpSettings) -> Self {
        let listener = bind(settings).await;
        let mut requests = listener.accept_stateless();
        let (server, reports) = Self::serve_reporting(listener);
        let steps = server.go.subscribe();
        tokio::spawn(async move {
            while let Some(request) = requests.next().await {
                let _ = reports.send(Report::Arrived(request.method.to_string()));
                let gone = ReportOnDrop(reports.clone(), request.method.to_string());
                let steps = steps.clone();
                if &*request.method == "view" {
                    let view = encode(&json!({"view": request.view()}));
                    request.request.respond(Ok(&view)).await;
                    continue;
                }
                request.spawn(|request| async move {
                    let _gone = gone;
                    let params =
                        request.params.as_ref().map_or(Value::Null, |params| params.decode().unwrap());
                    serve_request(request.request, &request.method, params, steps).await;
                });
            }
        });
        server
    }

    fn serve(listener: HttpListener) -> Self {
        Self::serve_reporting(listener).0
    }

    fn serve_reporting(mut listener: HttpListener) -> (Self, Reports) {
        let client = HttpClient::new(listener.local_addr().unwrap());
        let (sender, reports) = mpsc::unbounded_channel();
        let reporter = sender.clone();
        let accepting = tokio::spawn(async move {
            // Dropping them aborts them.
            let mut hosts = JoinSet::new();
            while let Some(host) = listener.accept().await {
                hosts.spawn(serve_host(host, sender.clone()));
            }
            while hosts.join_next().await.is_some() {}
        });
        (Self { client, reports, go: watch::Sender::new(0), accepting }, reporter)
    }

    /// Ends the listener and its hosts at once.
    pub(crate) async fn kill(self) {
        self.accepting.abort();
        let _ = self.accepting.await;
    }

    /// Expects that this request arrives next.
    pub(crate) async fn expect_next_arrival(&mut self, method: &str) {
        loop {
            if let Report::Arrived(arrived) = self.next_report().await {
                return assert_eq!(arrived, method);
            }
        }
    }

    /// The next report.
    pub(crate) async fn next_report(&mut self) -> Report {
        soon(self.reports.recv()).await.expect("the server runs")
    }

    /// Begins a session of this revision.
    pub(crate) async fn initialize(&self, revision: &str) -> HttpClient {
        begin_session(&self.client, revision).await
    }

    /// Waits for this report; others are skipped.
    pub(crate) async fn expect(&mut self, expected: Report) {
        soon(async { while self.reports.recv().await.expect("the server runs") != expected {} }).await;
    }
}

pub(crate) async fn bind(settings: HttpSettings) -> HttpListener {
    HttpListener::tcp(TcpListener::bind("127.0.0.1:0").await.unwrap(), settings)
}

pub(crate) fn initialize(revision: &str) -> Value {
    let params =
        json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    request(0, "initialize", params)
}

pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

pub(crate) fn notification(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

pub(crate) fn result(id: impl Into<Value>, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": result})
}

/// An error that has no id.
pub(crate) fn refusal(code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "error": {"code": code, "message": message}})
}

/// Begins a session and returns a client with its headers.
pub(crate) async fn begin_session(client: &HttpClient, revision: &str) -> HttpClient {
    let reply = client.post(&initialize(revision)).await;
    assert_eq!(reply.status, 200);
    let id = reply.header("mcp-session-id").expect("a session id").to_owned();
    let session = client.with("mcp-session-id", &id).with("mcp-protocol-version", revision);
    session.post(&notification("notifications/initialized")).await.expect_empty(202).await;
    session
}

/// Serves a host as the table says.
pub(crate) async fn serve_host(mut host: Host, reports: Reports) {
    let (go, steps) = watch::channel(0u64);
    while let Some(event) = host.next().await {
        match event {
            HostEvent::Initialize(request) => answer_initialize(&request).await,
            HostEvent::Request { request, method, params } => {
                let _ = reports.send(Report::Arrived(method.to_string()));
                let params = params.map_or(Value::Null, |params| params.decode().unwrap());
                let gone = ReportOnDrop(reports.clone(), method.to_string());
                let steps = steps.clone();
                if &*method == "view" {
                    request.respond(Ok(&encode(&json!({"view": host.view()})))).await;
                    continue;
                }
                request.spawn(|request| async move {
                    let _gone = gone;
                    serve_request(request, &method, params, steps).await;
                });
            }
            HostEvent::Stateless(request) => panic!("a session has no such request: {request:?}"),
            HostEvent::Overload(request) => {
                request.respond(&RpcError::new(code::INTERNAL_ERROR, "overload")).await;
            }
            HostEvent::Notification { method, .. } => {
                let link = host.link().clone();
                match &*method {
                    "notifications/go" => go.send_modify(|count| *count += 1),
                    "notifications/announce" => link.notify("notifications/tools/list_changed", None).await,
                    "notifications/question" => {
                        let reports = reports.clone();
                        tokio::spawn(async move {
                            let outcome = link.send_request("roots/list", &Json::empty_object()).await;
                            let outcome = outcome.map(|result| result.decode().unwrap());
                            let _ = reports.send(Report::Answered(outcome.map_err(|error| error.message)));
                        });
                    }
                    _ => {}
                }
                let _ = reports.send(Report::Arrived(method.to_string()));
            }
        }
    }
    let _ = reports.send(Report::Ended);
}

async fn answer_initialize(request: &InitializeRequest) {
    let params = request.params();
    if params.client_info.as_str().contains("unwanted") {
        return request.respond(Err(&RpcError::new(code::INVALID_PARAMS, "not you"))).await;
    }
    let offer = ServerOffer {
        revision: params.revision,
        capabilities: Json::empty_object(),
        server_info: implementation("test", "1"),
        instructions: None,
    };
    request.respond(Ok(&offer.to_result())).await;
    request.accept();
}

async fn serve_request(request: OpenRequest, method: &str, params: Value, mut steps: watch::Receiver<u64>) {
    let outcome = match method {
        "echo" => Ok(encode(&params)),
        "talk" => {
            let token = params.get("token").unwrap_or(&params["_meta"]["progressToken"]);
            for step in 1..=params["steps"].as_u64().unwrap() {
                steps.wait_for(|count| *count >= step).await.unwrap();
                let progress = encode(&json!({"progressToken": token, "progress": step}));
                request.notify("notifications/progress", Some(&progress)).await;
            }
            let last = params["steps"].as_u64().unwrap() + 1;
            steps.wait_for(|count| *count >= last).await.unwrap();
            Ok(encode(&json!({"said": params["steps"]})))
        }
        "ask" => request.send_request("roots/list", &Json::empty_object()).await,
        "flood" | "burst" => {
            let text = "x".repeat(usize::try_from(params["bytes"].as_u64().unwrap()).unwrap());
            let params_of = |number| encode(&json!({"data": text, "number": number}));
            for number in 0..params["count"].as_u64().unwrap() {
                let params = params_of(number);
                match method {
                    "flood" => request.notify("notifications/message", Some(&params)).await,
                    _ => request.try_notify("notifications/message", Some(&params)),
                }
            }
            Ok(Json::empty_object())
        }
        "hang" => std::future::pending().await,
        "record" => {
            request.record().await;
            let after = params["after"].as_u64().unwrap_or(1);
            if !request.is_repeated() && steps.wait_for(|count| *count >= after).await.is_err() {
                return;
            }
            Ok(encode(&json!({"repeated": request.is_repeated()})))
        }
        "record_and_hang" => {
            request.record().await;
            std::future::pending().await
        }
        "drop" => return,
        _ => Err(RpcError::new(code::METHOD_NOT_FOUND, "no such method")),
    };
    request.respond(outcome.as_ref()).await;
}

fn encode(value: &Value) -> Json {
    Json::encode(value).unwrap()
}

/// Reports that what served a request is gone.
struct ReportOnDrop(Reports, String);

impl Drop for ReportOnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(Report::Gone(self.1.clone()));
    }
}
