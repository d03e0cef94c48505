//! Layers: they see, change and refuse requests, and see each end exactly once.

use std::sync::Arc;

use bowline::{
    CallReport, Client, ErrorKind, Execution, Json, Layer, LayerFuture, Outcome, OutgoingRequest, Refusal,
    Registry,
};
use bowline_testkit::{self as testkit, Fault};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{TEST_TIMEOUT, http, run_everywhere};

type Log = Arc<Mutex<Vec<String>>>;

/// Records what it sees, and treats the tools `forbidden`, `renamed` and `pondered` in the way of
/// their names.
struct Recorder {
    name: &'static str,
    log: Log,
    ponders: Arc<Notify>,
}

impl Recorder {
    fn new(name: &'static str, log: &Log) -> Self {
        Self { name, log: Arc::clone(log), ponders: Arc::default() }
    }
}

impl Layer for Recorder {
    fn on_request<'a>(&'a self, request: &'a mut OutgoingRequest) -> LayerFuture<'a> {
        Box::pin(async move {
            let tool = request.tool().unwrap_or_default().to_owned();
            self.log.lock().push(format!("{} {} {tool}", self.name, request.method()));
            match &*tool {
                "forbidden" => return Err(Refusal::new("not here")),
                "renamed" => {
                    let arguments = json!({ "by": self.name });
                    request.set_params(
                        Json::encode(&json!({ "name": "echo", "arguments": arguments })).unwrap(),
                    );
                }
                "pondered" => {
                    self.ponders.notify_one();
                    std::future::pending::<()>().await;
                }
                _ => {}
            }
            Ok(())
        })
    }

    fn on_end(&self, request: &OutgoingRequest, report: &CallReport) {
        let CallReport { outcome, attempts, .. } = report;
        self.log.lock().push(format!(
            "{} {} {} {} {attempts}",
            self.name,
            request.server(),
            request.tool().unwrap_or_default(),
            outcome.as_str()
        ));
    }
}

fn take(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock())
}

/// Layers see a request in order and its end in reverse, with the true report.
#[tokio::test]
async fn layers_nest() {
    for (name, running, server) in run_everywhere(testkit::server().tool("echo").tool("fail")).await {
        let log = Log::default();
        let builder = Client::builder(server).layer(Recorder::new("outer", &log));
        let client = builder.layer(Recorder::new("inner", &log)).connect().await.unwrap();
        assert_eq!(take(&log), Vec::<String>::new(), "{name}: connecting is no request of a caller");
        client.call_tool("echo", &Value::Null).await.unwrap();
        let seen = [
            "outer tools/call echo",
            "inner tools/call echo",
            "inner test echo done 1",
            "outer test echo done 1",
        ];
        assert_eq!(take(&log), seen, "{name}");
        client.call_tool("fail", &Value::Null).await.unwrap();
        assert_eq!(
            take(&log)[2..],
            ["inner test fail tool_error 1", "outer test fail tool_error 1"],
            "{name}"
        );
        running.arm(Fault::error(-32050, "out of rope").on("tools/call"));
        client.request("tools/call", &json!({ "name": "echo" })).await.unwrap_err();
        assert_eq!(take(&log)[2..], ["inner test echo refused 1", "outer test echo refused 1"], "{name}");
        client.list_tools().await.unwrap();
        assert_eq!(take(&log)[1..3], ["inner tools/list ", "inner test  done 1"], "{name}");
        client.close().await;
    }
}

/// A refused request is never sent, and the layers behind the one that refused do not see it.
#[tokio::test]
async fn refused_request_is_not_sent() {
    for (name, running, server) in run_everywhere(testkit::server().tool("forbidden")).await {
        let log = Log::default();
        let builder = Client::builder(server).layer(Recorder::new("outer", &log));
        let client = builder.layer(Recorder::new("inner", &log)).connect().await.unwrap();
        let error = client.call_tool("forbidden", &Value::Null).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::LayerRefused(reason) if reason == "not here"), "{error}");
        assert!(error.to_string().contains("not here"), "{error}");
        assert_eq!(
            (error.outcome(), error.execution()),
            (Outcome::Declined, Execution::NotExecuted),
            "{name}"
        );
        assert_eq!(error.report().unwrap().attempts, 0, "{name}");
        assert_eq!(take(&log), ["outer tools/call forbidden", "outer test forbidden declined 0"], "{name}");
        let error = client.request("tools/call", &json!({ "name": "forbidden" })).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Declined, "{name}");
        client.close().await;
        assert_eq!(running.count("tools/call"), 0, "{name}");
    }
}

/// A layer changes what is sent, and the layers behind it see the change.
#[tokio::test]
async fn layer_changes_the_request() {
    for (name, running, server) in run_everywhere(testkit::server().tool("echo")).await {
        let log = Log::default();
        let builder = Client::builder(server).layer(Recorder::new("outer", &log));
        let client = builder.layer(Recorder::new("inner", &log)).connect().await.unwrap();
        client.call_tool("renamed", &json!({ "by": "the caller" })).await.unwrap();
        let sent = running.received_with_method("tools/call");
        let params = sent[0].params();
        assert_eq!(
            (&params["name"], &params["arguments"]),
            (&json!("echo"), &json!({ "by": "outer" })),
            "{name}"
        );
        assert_eq!(
            take(&log)[1..],
            ["inner tools/call echo", "inner test echo done 1", "outer test echo done 1"]
        );
        client.close().await;
    }
}

/// A call that is dropped ends as abandoned, whether a layer or the server has it at that time.
#[tokio::test]
async fn dropped_call_ends_for_each_layer_that_saw_it() {
    let server = testkit::server().legacy().tool("slow").tool("pondered").run().await;
    let log = Log::default();
    let (outer, inner) = (Recorder::new("outer", &log), Recorder::new("inner", &log));
    let ponders = Arc::clone(&outer.ponders);
    let client = Client::builder(http(&server)).layer(outer).layer(inner).connect().await.unwrap();
    let call = client.call("pondered").start();
    ponders.notified().await;
    call.cancel();
    call.await.unwrap_err();
    assert_eq!(take(&log), ["outer tools/call pondered", "outer test pondered abandoned 0"]);
    assert_eq!(server.count("tools/call"), 0);
    let call = client.call("slow").arguments(&json!({ "ms": 30_000 })).start();
    server.wait_for(|received| received.has_method("tools/call"), TEST_TIMEOUT).await;
    call.cancel();
    call.await.unwrap_err();
    assert_eq!(take(&log)[2..], ["inner test slow abandoned 1", "outer test slow abandoned 1"]);
    client.close().await;
}

/// The layers of a registry are around those of each client.
#[tokio::test]
async fn registry_layers_are_outermost() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let log = Log::default();
    let client_log = Arc::clone(&log);
    let registry = Registry::builder()
        .layer(Recorder::new("registry", &log))
        .client_builder(move |server| Client::builder(server).layer(Recorder::new("client", &client_log)))
        .open([http(&server)]);
    let client = registry.get("test").unwrap();
    client.call_tool("echo", &Value::Null).await.unwrap();
    let seen = [
        "registry tools/call echo",
        "client tools/call echo",
        "client test echo done 1",
        "registry test echo done 1",
    ];
    assert_eq!(take(&log), seen);
    registry.close().await;
}

/// A layer sees only the methods that it observes.
#[tokio::test]
async fn unobserved_methods_do_not_reach_a_layer() {
    struct OnlyLists(Recorder);

    impl Layer for OnlyLists {
        fn observes(&self, method: &str) -> bool {
            method == "tools/list"
        }

        fn on_request<'a>(&'a self, request: &'a mut OutgoingRequest) -> LayerFuture<'a> {
            self.0.on_request(request)
        }

        fn on_end(&self, request: &OutgoingRequest, report: &CallReport) {
            self.0.on_end(request, report);
        }
    }

    for (name, _running, server) in run_everywhere(testkit::server().tool("echo")).await {
        let log = Log::default();
        let builder = Client::builder(server).layer(OnlyLists(Recorder::new("lists", &log)));
        let client = builder.layer(Recorder::new("all", &log)).connect().await.unwrap();
        client.call_tool("echo", &Value::Null).await.unwrap();
        assert_eq!(take(&log), ["all tools/call echo", "all test echo done 1"], "{name}");
        client.list_tools().await.unwrap();
        let seen = ["lists tools/list ", "all tools/list ", "all test  done 1", "lists test  done 1"];
        assert_eq!(take(&log), seen, "{name}");
        client.close().await;
    }
}
