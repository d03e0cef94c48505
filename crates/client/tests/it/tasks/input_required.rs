//! Tasks that require input from the host.

use bowline::{Cause, Client, ErrorKind, Misbehavior};
use bowline_testkit::{ScriptedRequest, TaskPlan};
use serde_json::json;

use super::{AcceptingHandler, form, work_server};
use crate::support::{TEST_TIMEOUT, http, run_everywhere};

/// TA-04, TN-05: one handler answers in both eras; a key that appears in several states is asked
/// once; responses name their task. The scripted server records unrelated or unrequested responses
/// as violations.
#[tokio::test]
async fn tn_05_a_task_asks_and_is_answered_once() {
    let plan = TaskPlan::after_polls(2).asks([form("a"), form("b")]).lingers(3).required();
    for (name, running, server) in run_everywhere(work_server(plan)).await {
        let handler = AcceptingHandler::default();
        let client = Client::builder(server).handler(handler.clone()).connect().await.unwrap();
        client.list_tools().await.unwrap();
        let result = client.call_tool("work", &json!({})).await.unwrap();
        let answers: serde_json::Value = serde_json::from_str(&result.text()).unwrap();
        for key in ["a", "b"] {
            assert_eq!(answers[key]["content"], json!({"city": "Oslo"}), "{name}: {answers}");
        }
        assert_eq!(handler.count(), 2, "{name}");
        if name.starts_with("modern") {
            let task = &running.tasks()[0];
            assert!(task.polls >= 4, "{name}: the questions stood in several states");
            assert_eq!(running.count("tasks/update"), 1, "{name}");
        } else {
            // TA-04: the result was requested before the task ended, or there would have been no
            // elicitation.
            assert!(running.count("tasks/result") >= 1, "{name}");
        }
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// MR-07: an undeclared input request is not answered, and the task is not left waiting.
#[tokio::test]
async fn mr_07_an_undeclared_input_request_ends_the_wait() {
    let plan = TaskPlan::after_polls(1).asks([ScriptedRequest::sampling("k", "Hello", 5)]);
    let server = work_server(plan).modern().run().await;
    let client = Client::builder(http(&server)).handler(AcceptingHandler::default()).connect().await.unwrap();
    let error = client.call_tool("work", &json!({})).await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Protocol(Misbehavior::UndeclaredInput));
    server.wait_for(|received| received.has_method("tasks/cancel"), TEST_TIMEOUT).await;
    assert_eq!(server.count("tasks/update"), 0);
    client.close().await;
}

/// A refusal by the host ends the wait as it ends a call.
#[tokio::test]
async fn a_host_that_refuses_ends_the_wait() {
    struct RefusingHandler;
    impl bowline::Handler for RefusingHandler {
        fn capabilities(&self) -> bowline::Json {
            AcceptingHandler::default().capabilities()
        }
        fn handle(
            &self,
            _: bowline::ServerRequest,
        ) -> std::pin::Pin<Box<dyn Future<Output = bowline::HandlerResult> + Send + '_>> {
            let refusal = bowline::RpcError { code: -1, message: "no".into(), data: None };
            Box::pin(async { Err(refusal) })
        }
    }
    let server = work_server(TaskPlan::after_polls(1).asks([form("k")])).modern().run().await;
    let client = Client::builder(http(&server)).handler(RefusingHandler).connect().await.unwrap();
    let error = client.call_tool("work", &json!({})).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Declined(_)), "{error}");
    client.close().await;
}
