//! Faults of servers that are kept, and of the `bowline serve` that keeps them.

use std::process::Output;
use std::time::Instant;

use bowline_testkit::{Fault, ProcessEvent};
use rustix::process::{Signal, kill_process};
use tokio::time::timeout;

use super::*;
use crate::context::to_pid;

async fn wait(child: Child) -> Output {
    timeout(TEST_TIMEOUT, child.wait_with_output()).await.expect("it ends in time").expect("it ends")
}

/// An error of the server, its end and its silence read the same as without a daemon: exit code, facts and label.
#[tokio::test]
async fn failures_read_the_same_as_without_a_daemon_legacy() {
    assert_failures_read_the_same(testkit::server().legacy()).await;
}

#[tokio::test]
async fn failures_read_the_same_as_without_a_daemon_modern() {
    assert_failures_read_the_same(testkit::server().modern()).await;
}

type MakeFault = fn() -> Fault;

async fn assert_failures_read_the_same(script: Script) {
    let pool = Pool::of(script.tool("echo").tool("slow")).await;
    pool.run(&["info", "knots", "--no-daemon"]);
    let faults: [(&[&str], MakeFault); 5] = [
        (&["call", "knots", "echo"], || Fault::error(-32603, "out of rope").on_tool("echo")),
        (&["call", "knots", "echo", "--json"], || Fault::exit(3).on_tool("echo").executed()),
        (&["call", "knots", "echo"], || Fault::exit(3).on_tool("echo").executed()),
        (&["read", "knots", "knot://none"], || Fault::error(-32002, "no such knot").on("resources/read")),
        (&["call", "knots", "slow", "ms=60000", "--timeout", "3s", "--json"], || {
            Fault::noise("tying...").on_tool("slow")
        }),
    ];
    for (words, fault) in faults {
        pool.run(&["call", "knots", "echo"]);
        let [direct, kept] = [&["--no-daemon"][..], &[]].map(|more| {
            pool.server.arm(fault());
            let shown = pool.run(&[words, more].concat());
            pool.server.disarm();
            shown
        });
        assert_eq!(kept, direct, "{words:?}");
        assert!(!direct.starts_with("exit: 0\n"), "{direct}");
    }
    assert!(pool.run(&["call", "knots", "echo"]).starts_with("exit: 0\n"));
}

/// A server that ends while it starts is not blamed on the daemon.
#[tokio::test]
async fn a_server_that_does_not_start_fails_as_without_a_daemon() {
    let context = Context::new();
    context.user_config("[servers.knots]\ncommand = 'sh'\nargs = ['-c', 'echo frayed >&2; exit 3']\n");
    let _gateway = Pool::serve(&context).await;
    let [direct, kept] = [&["--no-daemon"][..], &[]]
        .map(|more| context.run(context.bowline([&["info", "knots"], more].concat())));
    assert_eq!(kept, direct);
    assert!(direct.contains("exited with code 3") && direct.contains("frayed"), "{direct}");
    context.user_config("[servers.knots]\ncommand = 'no-such-program'\n");
    let [direct, kept] = [&["--no-daemon"][..], &[]]
        .map(|more| context.run(context.bowline([&["info", "knots"], more].concat())));
    assert_eq!(kept, direct);
    assert!(direct.starts_with("exit: 3\n"), "{direct}");
}

/// Ctrl-C cancels the call on the server. The process may still be at it, so the next command gets another one.
#[tokio::test]
async fn an_interrupted_call_is_canceled_and_its_process_is_ended() {
    let pool = Pool::of(testkit::server().legacy().tool("slow").tool("counter")).await;
    pool.run(&["call", "knots", "counter"]);
    let child = spawn(&pool.context, &["call", "knots", "slow", "ms=60000"]);
    pool.server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    kill_process(to_pid(child.id().expect("it runs")), Signal::INT).expect("it runs");
    assert_eq!(wait(child).await.status.code(), Some(130));
    pool.server.wait_until(|server| server.cancellations().len() == 1, TEST_TIMEOUT).await;
    pool.wait_until_running(0).await;
    assert_eq!(pool.starts(), 1);
    assert!(pool.run(&["call", "knots", "counter"]).starts_with("exit: 0\n"));
    assert_eq!(pool.starts(), 2);
}

#[tokio::test]
async fn a_command_that_is_killed_ends_its_process() {
    let pool = Pool::of(testkit::server().legacy().tool("slow")).await;
    let mut child = spawn(&pool.context, &["call", "knots", "slow", "ms=60000"]);
    pool.server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    child.kill().await.expect("it runs");
    pool.wait_until_running(0).await;
}

/// The daemon is killed during a call that may have effects: it has one outcome, which says that the server may
/// have executed it, and it is not sent again.
#[tokio::test]
async fn a_call_under_a_daemon_that_is_killed_has_one_outcome() {
    let Pool { context, server, gateway } = Pool::of(testkit::server().legacy().tool("slow")).await;
    let child = spawn(&context, &["call", "knots", "slow", "ms=60000", "--json"]);
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    gateway.kill().await;
    let output = wait(child).await;
    assert_eq!(output.status.code(), Some(3));
    let error: Value = serde_json::from_slice(&output.stderr).expect("an object");
    assert_eq!(
        (&error["error"]["executed"], &error["error"]["method"]),
        (&Value::Null, &json!("tools/call")),
        "{error}"
    );
    assert_eq!(server.received().iter().filter(|received| received.tool() == Some("slow")).count(), 1);
    // The watchdog of the daemon ends its processes.
    server.wait_until(|_| server.processes().iter().all(|process| !process.is_running()), TEST_TIMEOUT).await;
}

/// A daemon that is to end waits for commands no longer than `--drain`. The process of one is ended as others are:
/// first its stdin is closed.
#[tokio::test]
async fn a_process_that_is_in_use_when_the_daemon_ends_is_ended_in_order() {
    let server = testkit::server().legacy().tool("slow").stdio().await;
    let context = Context::new();
    context.user_config(&stdio_entry("knots", &server.command()));
    let socket = context.path("socket");
    let args = ["--socket", socket.to_str().expect("a path"), "--drain", "1s"];
    let mut gateway = Gateway::start(&context, &args);
    gateway.note().await;
    let child = spawn(&context, &["call", "knots", "slow", "ms=60000"]);
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    assert_eq!(gateway.terminate().await.code(), Some(0));
    assert_eq!(wait(child).await.status.code(), Some(3));
    server.expect_all_exited().await;
    assert_eq!(server.processes()[0].events[0], ProcessEvent::Eof);
    assert_eq!(server.executions("slow"), 1, "it is not sent again");
}

/// A harmless call is sent again, to a process that the command starts.
#[tokio::test]
async fn a_harmless_call_survives_a_daemon_that_is_killed() {
    for script in both_eras(|| testkit::server().tool(Tool::like("look", "slow").read_only())) {
        let Pool { context, server, gateway } = Pool::of(script).await;
        server.arm(Fault::silent().on_tool("look").times(1));
        let child = spawn(&context, &["call", "knots", "look", "ms=1"]);
        server.wait_for(|received| received.tool() == Some("look"), TEST_TIMEOUT).await;
        gateway.kill().await;
        let output = wait(child).await;
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let calls = server.received().iter().filter(|received| received.tool() == Some("look")).count();
        assert_eq!((calls, server.processes().len()), (2, 2));
    }
}

/// If the daemon is killed while a command connects, the command starts the server. What it says of a task is what it
/// says without a daemon: the process ends with the command.
#[tokio::test]
async fn a_task_is_not_said_to_be_kept_by_a_daemon_that_was_killed() {
    let script = testkit::server().legacy().tool(Tool::named("work").task(TaskPlan::manual()));
    let Pool { context, server, gateway } = Pool::of(script).await;
    server.arm(Fault::silent().on("initialize").times(1));
    let child = spawn(&context, &["call", "knots", "work", "n=1", "--task"]);
    server.wait_for(|received| received.has_method("initialize"), TEST_TIMEOUT).await;
    gateway.kill().await;
    let output = wait(child).await;
    let notes = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{notes}");
    assert!(notes.contains("`knots` is a local command and ends with this one"), "{notes}");
    assert!(!notes.contains("`bowline serve` ends"), "{notes}");
    assert_eq!((server.processes().len(), server.tasks().len()), (2, 1));
}

/// What a killed daemon leaves behind is in nobody's way.
#[tokio::test]
async fn a_command_after_a_daemon_that_was_killed_starts_the_server() {
    let Pool { context, server, gateway } = Pool::of(testkit::server().tool("counter")).await;
    gateway.kill().await;
    let folder = context.path(RUN_FOLDER);
    let sockets = || std::fs::read_dir(&folder).expect("a folder").flatten().count();
    assert_eq!(sockets(), 1);
    assert!(context.run(context.bowline(["call", "knots", "counter"])).starts_with("exit: 0\n"));
    assert_eq!((sockets(), server.processes().len()), (0, 1));
}

/// A daemon that was stopped accepts connections and never answers.
#[tokio::test]
async fn a_command_does_not_wait_for_a_daemon_that_was_stopped() {
    let pool = Pool::of(testkit::server().tool("counter")).await;
    pool.run(&["call", "knots", "counter"]);
    pool.gateway.signal(Signal::STOP);
    let shown = pool.run(&["call", "knots", "counter"]);
    pool.gateway.signal(Signal::CONT);
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    assert_eq!(pool.starts(), 2);
}

/// A process that does not answer, as if it were busy with a task, is not ended: a command gets another one meanwhile,
/// and later commands get the first one again.
#[tokio::test]
async fn a_process_that_does_not_answer_is_used_again_when_it_does() {
    let pool = Pool::of(testkit::server().legacy().tool("counter")).await;
    let call = || {
        let shown = pool.run(&["call", "knots", "counter"]);
        assert!(shown.starts_with("exit: 0\n"), "{shown}");
        // The number of the process that was called.
        pool.server.received_with_method("tools/call").last().expect("a call").connection
    };
    assert_eq!(call(), 1);
    let busy = to_pid(pool.server.pid().expect("it runs"));
    kill_process(busy, Signal::STOP).expect("it runs");
    assert_eq!((call(), pool.starts()), (2, 2));
    kill_process(busy, Signal::CONT).expect("it was not ended");
    // A command that comes before its answer starts another process, and would keep the next command from the first
    // one: so that process is ended.
    let begun = Instant::now();
    loop {
        pool.server.exit(0);
        pool.wait_until_running(1).await;
        if call() == 1 {
            break;
        }
        assert!(begun.elapsed() < TEST_TIMEOUT, "the first process is not used again");
    }
    assert!(pool.server.processes()[0].events.is_empty(), "it was not told to end");
}

/// A process that ends while nobody uses it is not offered.
#[tokio::test]
async fn a_process_that_has_ended_is_replaced() {
    let pool = Pool::of(testkit::server().legacy().tool("counter")).await;
    pool.run(&["call", "knots", "counter"]);
    pool.server.exit(0);
    pool.wait_until_running(0).await;
    assert!(pool.run(&["call", "knots", "counter"]).starts_with("exit: 0\n"));
    assert_eq!(pool.starts(), 2);
}
