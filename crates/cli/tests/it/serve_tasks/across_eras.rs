//! What holds for hosts of both kinds of tasks, at servers of both kinds.
// GW-16

use super::*;
use crate::status::stdio_entry;

/// GW-14, TA-02, TN-03: the task has an id of its own, is running, and ends with the result of the call.
async fn completes(revision: Revision, era: ServerEra) {
    let server = server(era).await;
    let site = Site::start(&server).await;
    let mut host = site.host(revision).await;
    let created = host.create("work").await;
    assert_eq!(created["status"], "working");
    let (id, own) = (id_of(&created), only_task(&server));
    assert!(!id.contains(&own), "{id}");
    assert_eq!(host.state(&id).await["status"], "working");
    assert!(server.finish_task(&own));
    assert_eq!(host.wait(&id).await, (End::Text(r#"{"n":1}"#.into()), vec![]));
    assert_eq!(host.state(&id).await["status"], "completed");
    assert_eq!(server.executions("work"), 1);
    site.stop(&server).await;
}

/// TN-04: a tool that fails is told apart from a call that fails, and from what the other kind of tasks
/// says about it.
async fn fails(revision: Revision, era: ServerEra) {
    let server = server(era).await;
    let site = Site::start(&server).await;
    let mut host = site.host(revision).await;
    let id = host.create_id("broken").await;
    assert_eq!(host.wait(&id).await, (End::ToolError("it broke".into()), vec![]));
    let status = if host.is_modern() { "completed" } else { "failed" };
    assert_eq!(host.state(&id).await["status"], status);
    let id = host.create_id("error").await;
    assert_eq!(host.wait(&id).await, (End::Error(-32_099), vec![]));
    assert_eq!(host.state(&id).await["status"], "failed");
    site.stop(&server).await;
}

/// CN-02, TN-06: a task is canceled with `tasks/cancel`, and with nothing else.
async fn is_canceled(revision: Revision, era: ServerEra) {
    let server = server(era).await;
    let site = Site::start(&server).await;
    let mut host = site.host(revision).await;
    let id = host.create_id("work").await;
    let answer = host.about("tasks/cancel", &id).await;
    if host.is_modern() {
        assert_eq!((&answer["resultType"], answer.get("taskId")), (&json!("complete"), None));
    } else {
        assert_eq!((&answer["taskId"], &answer["status"]), (&json!(id), &json!("cancelled")));
    }
    server.wait_until(|server| server.tasks()[0].status == "cancelled", TEST_TIMEOUT).await;
    assert_eq!(host.wait(&id).await, (End::Canceled, vec![]));
    assert_eq!(server.count("tasks/cancel"), 1);
    assert_eq!(server.cancellations(), [Value::Null; 0]);
    if !host.is_modern() {
        // TA-05
        assert_eq!(host.error("tasks/cancel", json!({"taskId": id})).await["code"], -32_602);
    }
    site.stop(&server).await;
}

/// TA-04, TN-05: a question inside a task reaches its host once, and the answer its server.
async fn asks(revision: Revision, era: ServerEra) {
    let server = server(era).await;
    let site = Site::start(&server).await;
    let mut host = site.host(revision).await;
    let id = host.create_id("asks").await;
    let (end, asked) = host.wait(&id).await;
    assert_eq!(asked, ["elicitation/create"]);
    let End::Text(text) = end else { panic!("{end:?}") };
    assert!(text.contains("Bergen"), "{text}");
    assert_eq!(server.tasks()[0].input_responses["k"]["content"]["city"], "Bergen");
    site.stop(&server).await;
}

/// TN-09: an id finds its task after a sudden end of the gateway, also one that waits for input.
async fn survives_a_kill(revision: Revision, era: ServerEra) {
    let server = server(era).await;
    let site = Site::start(&server).await;
    let mut host = site.host(revision).await;
    let (work, asks) = (host.create_id("work").await, host.create_id("asks").await);
    host.wait_for_status(&asks, "input_required").await;
    let site = site.kill_and_restart().await;
    host.0.reconnect().await;
    if !host.is_modern() {
        // TA-05
        let list = host.0.result("tasks/list", json!({})).await;
        let listed: Vec<_> = list["tasks"].as_array().expect("a list").iter().map(id_of).collect();
        assert_eq!(listed, [work.clone(), asks.clone()]);
    }
    assert_eq!(host.state(&work).await["status"], "working");
    assert!(server.finish_task(&server.tasks()[0].id));
    assert_eq!(host.wait(&work).await, (End::Text(r#"{"n":1}"#.into()), vec![]));
    let (end, asked) = host.wait(&asks).await;
    assert!(matches!(&end, End::Text(text) if text.contains("Bergen")), "{end:?}");
    assert_eq!(asked, ["elicitation/create"]);
    assert_eq!((server.executions("work"), server.executions("asks")), (1, 1));
    site.stop(&server).await;
}

/// TA-05, TN-09: a task that the server has dropped is unknown.
async fn vanishes(revision: Revision, era: ServerEra) {
    let server = server(era).await;
    let site = Site::start(&server).await;
    let mut host = site.host(revision).await;
    let id = host.create_id("work").await;
    assert!(server.forget_task(&only_task(&server)));
    assert_eq!(host.error("tasks/get", json!({"taskId": id})).await["code"], -32_602);
    site.stop(&server).await;
}

/// GW-15, TA-04: a server on stdio names the task that it asks for, and each of two tasks that ask at the
/// same time gets its own answer.
async fn two_tasks_ask_on_stdio(revision: Revision) {
    let server = script().legacy().stdio().await;
    let context = Context::new();
    context.user_config(&stdio_entry("up", &server.command()));
    let site = Site::start_in(context, "127.0.0.1:0").await;
    let mut host = site.host(revision).await;
    let ids = [host.create_id("asks").await, host.create_id("asks").await];
    for id in &ids {
        host.wait_for_status(id, "input_required").await;
    }
    for id in &ids {
        let (end, asked) = host.wait(id).await;
        assert!(matches!(&end, End::Text(text) if text.contains("Bergen")), "{end:?}");
        assert_eq!(asked, ["elicitation/create"]);
    }
    site.stop(&server).await;
}

#[tokio::test]
async fn gw_15_two_tasks_of_a_legacy_host_ask_on_stdio() {
    two_tasks_ask_on_stdio(Revision::V2025_11_25).await;
}

#[tokio::test]
async fn gw_15_two_tasks_of_a_modern_host_ask_on_stdio() {
    two_tasks_ask_on_stdio(Revision::V2026_07_28).await;
}

/// One test for each pair of eras.
macro_rules! pairs {
    ($($scenario:ident: $name:ident;)*) => {$(
        mod $name {
            use super::{Revision, ServerEra, $scenario};

            #[tokio::test]
            async fn for_a_legacy_host_at_a_legacy_server() {
                $scenario(Revision::V2025_11_25, ServerEra::Legacy).await;
            }

            #[tokio::test]
            async fn for_a_legacy_host_at_a_modern_server() {
                $scenario(Revision::V2025_11_25, ServerEra::Modern).await;
            }

            #[tokio::test]
            async fn for_a_modern_host_at_a_legacy_server() {
                $scenario(Revision::V2026_07_28, ServerEra::Legacy).await;
            }

            #[tokio::test]
            async fn for_a_modern_host_at_a_modern_server() {
                $scenario(Revision::V2026_07_28, ServerEra::Modern).await;
            }
        }
    )*};
}

pairs! {
    completes: gw_16_a_task_completes;
    fails: tn_04_a_task_fails_as_its_kind_has_it;
    is_canceled: cn_02_a_task_is_canceled;
    asks: ta_04_a_task_asks_its_host;
    survives_a_kill: tn_09_a_task_survives_a_kill_of_the_gateway;
    vanishes: ta_05_a_dropped_task_is_unknown;
}
