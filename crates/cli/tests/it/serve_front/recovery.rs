//! A daemon that is killed or ended while its hosts are there.

use std::collections::HashMap;
use std::time::Duration;

use bowline_testkit::{self as testkit, Fault, HttpServer, TaskPlan, Tool};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::interval;

use super::daemons::{Daemons, wait_until};
use super::start;
use crate::connect::host::{Host, TEST_TIMEOUT, result_text};
use crate::context::Context;
use crate::status::{http_entry, stdio_entry};

async fn server() -> HttpServer {
    let lookup = Tool::like("lookup", "echo").read_only();
    testkit::server().legacy().tool(lookup).tool("counter").tool("slow").run().await
}

async fn send_lookup(host: &mut Host, number: u64) -> u64 {
    host.send_request("tools/call", json!({"name": "lookup", "arguments": {"n": number}})).await
}

/// A daemon that was stopped does not answer and does not end. Its host is told so in bounded time, nothing is sent
/// again, and everything goes on when the daemon does.
#[tokio::test]
async fn a_host_of_a_daemon_that_was_stopped_is_answered() {
    let context = Context::new();
    let web = server().await;
    context.user_config(&http_entry("web", &web));
    let daemons = Daemons::of(&context);
    let mut host = start(&context, &[]).await;
    assert_eq!(result_text(&host.call("counter").await), "1");
    let daemon = daemons.signal(Signal::STOP);
    let answer = host.call("counter").await;
    assert_eq!(answer["error"]["code"], -31050, "{answer}");
    let facts = &answer["error"]["data"]["bowline"];
    assert_eq!((&facts["cause"], &facts["execution"]), (&json!("hung"), &json!("unknown")), "{answer}");
    assert_eq!(web.executions("counter"), 1);
    assert_eq!(daemons.signal(Signal::CONT), daemon);
    let last = result_text(&host.call("counter").await).to_owned();
    // The daemon had received the other call, and may execute it now. No call is executed twice.
    assert!(["2", "3"].contains(&&*last), "{last}");
    assert!(web.executions("counter") <= 3);
    assert_eq!(daemons.only(), daemon, "it was not started again");
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// 50 calls a second go on while the daemon is killed, twice. Each is answered with its own result,
/// and once.
#[tokio::test]
async fn no_harmless_call_fails_when_the_daemon_is_killed() {
    const CALLS: u64 = 200;
    let context = Context::new();
    let web = server().await;
    let child = testkit::server().legacy().tool("echo").stdio().await;
    context.user_config(&format!("{}{}", http_entry("web", &web), stdio_entry("child", &child.command())));
    let daemons = Daemons::of(&context);
    let mut host = start(&context, &[]).await;
    let mut open: HashMap<u64, u64> = HashMap::new();
    let mut answered = 0;
    let mut killed = Vec::new();
    let mut ticks = interval(Duration::from_millis(20));
    let mut number = 0;
    while answered < CALLS {
        tokio::select! {
            _ = ticks.tick(), if number < CALLS => {
                number += 1;
                open.insert(send_lookup(&mut host, number).await, number);
                if number == 50 {
                    killed.push(daemons.kill());
                }
            }
            message = host.next_message() => {
                if message.get("method").is_some() {
                    continue;
                }
                let number = open.remove(&message["id"].as_u64().unwrap()).expect("an open call");
                assert_eq!(result_text(&message), json!({"n": number}).to_string());
                answered += 1;
                if answered == 120 {
                    killed.push(daemons.kill());
                }
            }
        }
    }
    assert_eq!(open, HashMap::new());
    assert!(killed.len() == 2 && !killed.contains(&daemons.only()), "{killed:?}");
    // The processes of the daemons that were killed have ended with them.
    wait_until(|| super::running(&child) == 1).await;
    // Nothing else is said about any of them.
    assert_eq!(host.request("ping", Value::Null).await["result"], json!({}));
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// The daemon may have sent the call to the server, so the host is told that nothing is known; and
/// it is not sent again.
#[tokio::test]
async fn a_call_with_effects_is_not_repeated_when_the_daemon_is_killed() {
    let context = Context::new();
    let web = server().await;
    context.user_config(&http_entry("web", &web));
    let daemons = Daemons::of(&context);
    let mut host = start(&context, &[]).await;
    let arguments = json!({"ms": 600_000, "steps": 60_000});
    let params = json!({"name": "slow", "arguments": arguments, "_meta": {"progressToken": "steps"}});
    let id = host.send_request("tools/call", params).await;
    // Once progress has arrived, the response has an event stream that can be resumed.
    while host.next_message().await["method"] != "notifications/progress" {}
    daemons.kill();
    let answer = host.wait_for_response(id).await;
    assert_eq!(answer["error"]["code"], -31050, "{answer}");
    assert_eq!(answer["error"]["data"]["bowline"]["execution"], "unknown", "{answer}");
    // It is the daemon that says so: it was started again and knows the session.
    let message = "bowline: bowline was restarted during the call (the server may have executed it)";
    assert_eq!(answer["error"]["message"], message);
    // The session goes on.
    assert_eq!(result_text(&host.call("counter").await), "1");
    let sent = web.received_with_method("tools/call");
    assert_eq!(sent.iter().filter(|received| received.tool() == Some("slow")).count(), 1);
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// SIGTERM lets the open call end. The next one starts a new daemon.
#[tokio::test]
async fn a_host_outlives_a_daemon_that_is_asked_to_end() {
    let context = Context::new();
    let web = server().await;
    context.user_config(&http_entry("web", &web));
    let daemons = Daemons::of(&context);
    let mut host = start(&context, &[]).await;
    let id = host.send_request("tools/call", json!({"name": "slow", "arguments": {"ms": 300}})).await;
    web.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    let ended = daemons.signal(Signal::TERM);
    result_text(&host.wait_for_response(id).await);
    wait_until(|| !daemons.all().contains(&ended)).await;
    assert_eq!(result_text(&host.call("lookup").await), "{}");
    assert_ne!(daemons.only(), ended);
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// A call that is open at the end of the drain is retried at the next daemon if that is harmless, also if its response has
/// begun as an event stream. Of any other the host is told that nothing is known.
#[tokio::test]
async fn harmless_calls_outlive_the_drain_of_a_daemon() {
    let context = Context::new();
    let web = server().await;
    web.edit(|script| script.tool(Tool::like("steps", "slow").read_only()));
    context.user_config(&http_entry("web", &web));
    let daemons = Daemons::of(&context);
    let mut host = start(&context, &[]).await;
    web.arm(Fault::silent().on_tool("lookup"));
    let slow = |ms: u64| json!({"ms": ms, "steps": ms / 10});
    let silent = send_lookup(&mut host, 1).await;
    let effects = host.send_request("tools/call", json!({"name": "slow", "arguments": slow(600_000)})).await;
    // Longer than the drain.
    let params = json!({"name": "steps", "arguments": slow(12_000), "_meta": {"progressToken": "steps"}});
    let talking = host.send_request("tools/call", params).await;
    for tool in ["lookup", "slow", "steps"] {
        web.wait_for(|received| received.tool() == Some(tool), TEST_TIMEOUT).await;
    }
    while host.next_message().await["method"] != "notifications/progress" {}
    daemons.signal(Signal::TERM);
    let mut answers = HashMap::new();
    while answers.len() < 3 {
        let message = host.next_message().await;
        if let Some(id) = message["id"].as_u64() {
            answers.insert(id, message);
        }
    }
    assert_eq!(result_text(&answers[&silent]), r#"{"n":1}"#);
    result_text(&answers[&talking]);
    let unknown = &answers[&effects]["error"]["data"]["bowline"]["execution"];
    assert_eq!(unknown, "unknown", "{:?}", answers[&effects]);
    let sent = |tool: &str| {
        let calls = web.received_with_method("tools/call");
        calls.iter().filter(|received| received.tool() == Some(tool)).count()
    };
    assert_eq!([sent("lookup"), sent("steps"), sent("slow")], [2, 2, 1]);
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// A host that read the configuration before it was changed starts a daemon that has the new one.
/// Whoever reads the old one again does not join it.
#[tokio::test]
async fn a_daemon_with_another_configuration_is_not_joined() {
    let context = Context::new();
    let web = server().await;
    let entry = http_entry("web", &web);
    context.user_config(&entry);
    let daemons = Daemons::of(&context);
    let mut first = start(&context, &[]).await;
    context.user_config(&format!("{entry}headers = {{ X-Team = 'knots' }}\n"));
    let killed = daemons.kill();
    assert_eq!(result_text(&first.call("lookup").await), "{}");
    assert_ne!(daemons.only(), killed);
    context.user_config(&entry);
    let mut second = start(&context, &[]).await;
    assert_eq!(result_text(&second.call("lookup").await), "{}");
    let exit = second.close().await;
    assert!(exit.stderr.contains("so this process serves alone"), "{}", exit.stderr);
    assert_eq!(first.close().await.status.code(), Some(0));
}

/// TN-09, PR-03: a task of a host on stdio outlives the daemon, and its progress reaches the host.
#[tokio::test]
async fn a_task_outlives_the_daemon() {
    let plan = TaskPlan::manual().poll_interval(Duration::from_millis(20));
    let server = testkit::server().legacy().tool(Tool::named("work").task(plan)).run().await;
    let context = Context::new();
    context.user_config(&http_entry("up", &server));
    let daemons = Daemons::of(&context);
    let mut host = start(&context, &[]).await;
    let call = json!({
        "name": "work", "arguments": {"n": 1}, "task": {"ttl": 60_000}, "_meta": {"progressToken": "mine"},
    });
    let created = host.request("tools/call", call).await;
    let id = &created["result"]["task"]["taskId"];
    assert!(id.is_string(), "{created}");
    let own = server.tasks()[0].id.clone();
    server.report_task_progress(&own, 1.0, None).await;
    loop {
        let message = host.next_message().await;
        if message["method"] == "notifications/progress" {
            assert_eq!(message["params"]["progressToken"], "mine");
            break;
        }
    }
    let waiting = host.send_request("tasks/result", json!({"taskId": id})).await;
    server.wait_for(|received| received.has_method("tasks/get"), TEST_TIMEOUT).await;
    daemons.kill();
    assert!(server.finish_task(&own));
    assert_eq!(result_text(&host.wait_for_response(waiting).await), r#"{"n":1}"#);
    assert_eq!(server.executions("work"), 1);
    assert_eq!(host.close().await.status.code(), Some(0));
}
