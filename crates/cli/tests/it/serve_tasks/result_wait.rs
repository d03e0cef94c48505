//! `tasks/result` of a host of 2025-11-25, and calls that request a task in a way that cannot be understood.

use bowline_testkit::StreamKind;

use super::*;

/// A server whose task ends when the test says so, and that wants to be polled seldom.
async fn slow_server() -> HttpServer {
    let plan = TaskPlan::manual().poll_interval(Duration::from_secs(60));
    testkit::server().legacy().reply_sse().tool(Tool::named("work").task(plan)).run().await
}

/// TA-04: a server holds the answer to `tasks/result` back until the task has ended, so the host gets it then, and
/// not when the interval of polls is over.
#[tokio::test]
async fn ta_04_a_result_is_passed_on_as_soon_as_the_server_has_it() {
    let server = slow_server().await;
    let site = Site::start(&server).await;
    let mut host = site.host(Revision::V2025_11_25).await;
    let id = host.create_id("work").await;
    let finish = async {
        server.wait_until(|server| server.count("tasks/result") == 1, TEST_TIMEOUT).await;
        assert!(server.finish_task(&only_task(&server)));
    };
    let (ended, ()) = tokio::join!(host.wait(&id), finish);
    assert_eq!(ended, (End::Text(r#"{"n":1}"#.into()), vec![]));
    assert_eq!(server.count("tasks/result"), 1);
    assert!(server.count("tasks/get") <= 1, "no interval was waited for");
    site.stop(&server).await;
}

/// CN-02: a host that cancels `tasks/result`, or closes its connection before anything came, is not waited for any
/// more. The task goes on.
#[tokio::test]
async fn cn_02_nothing_is_requested_for_a_result_that_nobody_waits_for() {
    let server = slow_server().await;
    let site = Site::start(&server).await;
    let mut host = site.host(Revision::V2025_11_25).await;
    let id = host.create_id("work").await;
    // The stream of the call that created the task may still be open for a moment.
    let is_requested = |count: usize| {
        move |server: &Control| {
            server.count("tasks/result") == count && server.open_streams(StreamKind::Post) == 1
        }
    };
    tokio::select! {
        _ = host.0.begin("tasks/result", json!({"taskId": id})) => panic!("the task has not ended"),
        () = server.wait_until(is_requested(1), TEST_TIMEOUT) => {}
    }
    server.wait_until(|server| server.open_streams(StreamKind::Post) == 0, TEST_TIMEOUT).await;
    // The session goes on, and the result can be requested again.
    let finish = async {
        server.wait_until(is_requested(2), TEST_TIMEOUT).await;
        assert!(server.finish_task(&only_task(&server)));
    };
    let (ended, ()) = tokio::join!(host.wait(&id), finish);
    assert_eq!(ended, (End::Text(r#"{"n":1}"#.into()), vec![]));
    assert_eq!(server.cancellations(), [Value::Null; 0]);
    site.stop(&server).await;
}

/// TA-01: nothing runs if a call requests a task in a way that cannot be understood, or that nobody could ask for.
#[tokio::test]
async fn ta_01_a_malformed_task_is_refused_before_anything_runs() {
    for era in [ServerEra::Legacy, ServerEra::Modern] {
        let server = server(era).await;
        let site = Site::start(&server).await;
        let mut host = site.host(Revision::V2025_11_25).await;
        for task in [json!(5), json!([]), json!(null), json!("x"), json!({"ttl": 0}), json!({"ttl": "1"})] {
            let error =
                host.error("tools/call", json!({"name": "work", "arguments": {}, "task": task})).await;
            assert_eq!(error["code"], -32_602, "{task}: {error}");
        }
        assert_eq!((server.count("tools/call"), server.executions("work")), (0, 0));
        site.stop(&server).await;
    }
}
