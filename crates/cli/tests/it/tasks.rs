//! `bowline call --task` and `bowline tasks`.

use std::time::Duration;

use bowline_testkit::{self as testkit, Fault, HttpServer, Script, TaskPlan, Tool};
use serde_json::{Value, json};

use crate::context::{Context, snapshot};
#[cfg(unix)]
use crate::pty::Person;

fn work_server(plan: TaskPlan) -> Script {
    testkit::server().tool(Tool::named("work").task(plan)).tool("echo")
}

async fn start_configured(context: &Context, script: Script) -> HttpServer {
    let server = script.run().await;
    context.user_config(&format!("[servers.media]\nurl = '{}'\n", server.url()));
    server
}

/// TN-09: a task is started by one command and listed, awaited and canceled by others, in both
/// eras.
#[tokio::test]
async fn tn_09_a_task_outlives_its_command() {
    for script in [work_server(TaskPlan::manual()).legacy(), work_server(TaskPlan::manual()).modern()] {
        let context = Context::new();
        let server = start_configured(&context, script).await;
        let begun = context.run(context.bowline(["call", "media", "work", "n=1", "--task"]));
        let id = server.tasks()[0].id.clone();
        assert_eq!(
            begun,
            format!(
                "exit: 0\n--- stdout\n{id}\n--- stderr\nnote: the task is running; `bowline tasks media --wait {id}` \
                 waits for it\n---"
            )
        );
        server.set_task_message(&id, "half of it");
        let listed = context.bowline(["tasks", "media"]).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let cells: Vec<&str> = listed.trim_end().split('\t').collect();
        assert_eq!((cells[0], cells[1], cells[3], cells[4]), (&*id, "working", "work", "half of it"));
        let early = context.run(context.bowline(["tasks", "media", "--result", &id]));
        assert_eq!(
            early,
            format!(
                "exit: 4\n--- stdout\n--- stderr\nerror: the task has not ended: working (half of it)\n\n\
                 hint: `bowline tasks media --wait {id}` waits\n---"
            )
        );
        server.finish_task(&id);
        for how in ["--wait", "--result"] {
            let shown = context.run(context.bowline(["tasks", "media", how, &id[..id.len() - 1]]));
            assert_eq!(shown, "exit: 0\n--- stdout\n{\"n\":\"1\"}\n--- stderr\n---", "{how}");
        }
        assert_eq!(server.executions("work"), 1);

        context.run(context.bowline(["call", "media", "work", "--task"]));
        let second = server.tasks()[1].id.clone();
        let cancelled = context.run(context.bowline(["tasks", "media", "--cancel", &second]));
        assert_eq!(cancelled, "exit: 0\n--- stdout\ncancelled\n--- stderr\n---");
        assert_eq!(
            context.run(context.bowline(["tasks", "media", "--wait", &second])),
            "exit: 6\n--- stdout\n--- stderr\nerror: `media`: the task was canceled\n---"
        );
    }
}

/// JSON output contains objects.
#[tokio::test]
async fn tasks_as_json() {
    let context = Context::new();
    let server =
        start_configured(&context, work_server(TaskPlan::manual().ttl(Duration::from_secs(60))).modern())
            .await;
    let parsed = |args: &[&str]| {
        let output = context.bowline(args).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    };
    let begun = parsed(&["call", "media", "work", "--task", "--json"]);
    let id = begun["task"]["id"].as_str().unwrap();
    assert_eq!(begun["task"]["ttl_ms"], 60_000);
    assert_eq!((&begun["kept"], &begun["server"]), (&json!(true), &json!("media")));
    let listed = parsed(&["tasks", "media", "--json"]);
    assert_eq!(listed[0]["id"], id);
    assert_eq!((&listed[0]["status"], &listed[0]["tool"]), (&json!("working"), &json!("work")));
    let cancelled = parsed(&["tasks", "media", "--cancel", id, "--json"]);
    assert_eq!(cancelled["status"], "cancelled");
    let server_side = server.task(id);
    assert_eq!(server_side.status, "cancelled");
}

/// Tasks that the server lists appear too; only a server of 2025-11-25 can be asked (TA-05, TN-10).
#[tokio::test]
async fn ta_05_what_the_server_lists_is_listed() {
    let context = Context::new();
    let server = start_configured(&context, work_server(TaskPlan::manual()).legacy()).await;
    // A task of another client, or started from another home.
    let elsewhere = Context::new();
    elsewhere.run(elsewhere.bowline(["call", &server.url(), "work", "--task"]));
    let id = server.tasks()[0].id.clone();
    let listed = context.run(context.bowline(["tasks", "media"]));
    assert!(listed.contains(&format!("{id}\tworking\t")), "{listed}");
    server.finish_task(&id);
    assert_eq!(
        context.run(context.bowline(["tasks", "media", "--wait", &id])),
        "exit: 0\n--- stdout\n{}\n--- stderr\n---"
    );
}

/// A server of the same name at another URL is a different server, and does not get the ids of this
/// one.
#[tokio::test]
async fn another_server_of_the_same_name_is_not_asked() {
    let context = Context::new();
    let first = start_configured(&context, work_server(TaskPlan::manual()).modern()).await;
    context.run(context.bowline(["call", "media", "work", "--task"]));
    assert_eq!(first.tasks().len(), 1);
    let second = start_configured(&context, work_server(TaskPlan::manual()).modern()).await;
    snapshot!(context.run(context.bowline(["tasks", "media"])), @"
    exit: 0
    --- stdout
    --- stderr
    note: no task of `media` is known
    ---
    ");
    assert_eq!(second.count("tasks/get"), 0);
    // The tasks of the first server are known only under the name that was used then.
    let by_url = context.run(context.bowline(["tasks", &first.url()]));
    assert!(by_url.contains("no task of"), "{by_url}");
}

/// TA-05, TN-09: a task that the server no longer knows is reported as lost, once.
#[tokio::test]
async fn tn_09_a_lost_task_is_removed_from_the_list() {
    let context = Context::new();
    let server = start_configured(&context, work_server(TaskPlan::manual()).modern()).await;
    context.run(context.bowline(["call", "media", "work", "--task"]));
    let id = server.tasks()[0].id.clone();
    server.forget_task(&id);
    snapshot!(context.run(context.bowline(["tasks", "media", "--wait", &id])), @"
    exit: 6
    --- stdout
    --- stderr
    error: `media`: the server does not know the task, or no longer

    hint: servers keep tasks only for a limited time; `bowline tasks` lists the remaining ones
    ---
    ");
    let listed = context.run(context.bowline(["tasks", "media"]));
    assert!(listed.contains("no task of `media` is known"), "{listed}");
}

/// A stdio server that ends with the command loses its tasks; a note warns of that.
#[tokio::test]
async fn a_stdio_server_loses_its_tasks() {
    let context = Context::new();
    let server = work_server(TaskPlan::manual()).modern().stdio().await;
    let begun = context.run(context.bowline_with(&["call", "work", "--task"], &server.command()));
    assert!(begun.contains("is a local command and ends with this one"), "{begun}");
    assert!(begun.contains("`bowline tasks SERVER --wait"), "{begun}");
    // The scripted server keeps its tasks; most servers do not.
    server.forget_task(&server.tasks()[0].id);
    let listed = context.run(context.bowline_with(&["tasks"], &server.command()));
    assert!(listed.contains("\tgone\t") && listed.contains("most lose their tasks then"), "{listed}");
}

/// A call with `--task` may be answered at once; one that becomes a task by itself is awaited.
#[tokio::test]
async fn a_call_prints_its_result_task_or_not() {
    let context = Context::new();
    let server = start_configured(&context, work_server(TaskPlan::after_polls(2)).modern()).await;
    snapshot!(context.run(context.bowline(["call", "media", "echo", "--task"])), @"
    exit: 0
    --- stdout
    {}
    --- stderr
    note: `media` ran the call directly; no task was created
    ---
    ");
    let waited = context.run(context.bowline(["call", "media", "work", "n=1"]));
    assert_eq!(waited, "exit: 0\n--- stdout\n{\"n\":\"1\"}\n--- stderr\n---");
    assert_eq!(server.tasks()[0].status, "completed");
}

/// A call that becomes a task by itself shows what the server says about the task while it is waited for.
#[cfg(unix)]
#[tokio::test]
async fn the_message_of_a_task_is_shown_during_its_call() {
    for script in
        [work_server(TaskPlan::manual().required()).legacy(), work_server(TaskPlan::manual()).modern()]
    {
        let context = Context::new();
        let server = start_configured(&context, script).await;
        let person = Person::sits_at(context.bowline(["call", "media", "work", "n=1", "--color", "never"]));
        server.wait_until(|server| !server.tasks().is_empty(), Duration::from_secs(20)).await;
        let id = server.tasks()[0].id.clone();
        server.set_task_message(&id, "half of\x1b[2J it");
        let screen = person.sees("working (half of");
        let line = screen.lines().find(|line| line.contains("half of")).unwrap();
        assert!(line.contains(" work working (half of\\u{1b}[2J it) "), "{line:?}");
        server.finish_task(&id);
        let left = person.leaves();
        assert_eq!((left.code, &*left.stdout, left.screen.trim()), (0, "{\"n\":\"1\"}\n", ""));
    }
}

/// CN-02: Ctrl-C during a call cancels its task; during `--wait` it does not.
#[cfg(unix)]
#[tokio::test]
async fn cn_02_interrupt_cancels_a_call_but_not_a_wait() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::process::Stdio;
    let context = Context::new();
    let server = start_configured(&context, work_server(TaskPlan::manual()).modern()).await;
    let interrupted = async |args: &[&str]| {
        let polls = server.count("tasks/get");
        let child = context.bowline(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        server.wait_until(|server| server.count("tasks/get") > polls, Duration::from_secs(20)).await;
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
        context.shown(&output)
    };
    let called = interrupted(&["call", "media", "work"]).await;
    assert!(called.starts_with("exit: 130"), "{called}");
    assert_eq!(server.tasks()[0].status, "cancelled");

    context.run(context.bowline(["call", "media", "work", "--task"]));
    let id = server.tasks()[1].id.clone();
    let waited = interrupted(&["tasks", "media", "--wait", &id]).await;
    assert!(waited.contains(&format!("the task goes on; `bowline tasks media --wait {id}`")), "{waited}");
    assert_eq!(server.tasks()[1].status, "working");
}

/// TA-05: servers may bind a task to its session, so the session is kept and resumed.
#[tokio::test]
async fn ta_05_the_session_of_a_task_stays() {
    let context = Context::new();
    let server = start_configured(&context, work_server(TaskPlan::manual()).legacy()).await;
    context.run(context.bowline(["call", "media", "work", "--task"]));
    let id = server.tasks()[0].id.clone();
    assert_eq!((server.initialize_count(), server.count("DELETE")), (1, 0));
    let session = server.sessions()[0].id.clone();
    for args in [&["tasks", "media"][..], &["tasks", "media", "--result", &id]] {
        let shown = context.run(context.bowline(args));
        assert!(shown.contains("working"), "{shown}");
    }
    server.finish_task(&id);
    let shown = context.run(context.bowline(["tasks", "media", "--wait", &id]));
    assert!(shown.starts_with("exit: 0"), "{shown}");
    // All commands used one session, which still exists.
    assert_eq!((server.initialize_count(), server.count("DELETE")), (1, 0));
    assert!(
        server.received_with_method("tasks/get").iter().all(|get| get.session.as_deref() == Some(&*session))
    );
    // Without a task no session is kept.
    context.run(context.bowline(["call", "media", "echo", "--task"]));
    assert_eq!((server.initialize_count(), server.count("DELETE")), (2, 1));
}

/// A lost session has lost its tasks; that is reported, and no session is kept.
#[tokio::test]
async fn ta_05_a_task_is_lost_with_its_session() {
    let context = Context::new();
    let server = start_configured(&context, work_server(TaskPlan::manual()).legacy()).await;
    context.run(context.bowline(["call", "media", "work", "--task"]));
    let id = server.tasks()[0].id.clone();
    server.forget_task(&id);
    server.drop_sessions();
    snapshot!(context.run(context.bowline(["tasks", "media", "--wait", &id])), @"
    exit: 6
    --- stdout
    --- stderr
    error: `media`: the server does not know the task, or no longer

    hint: the session that it was begun in is over, and this server keeps tasks per session only, or was restarted; without --task a call is waited for
    ---
    ");
    assert_eq!(server.count("DELETE"), 1);
}

/// TN-10: a task of the other revision is not lost, and is found again.
#[tokio::test]
async fn tn_10_a_task_of_the_other_revision_is_kept() {
    let context = Context::new();
    let server = start_configured(&context, work_server(TaskPlan::manual()).dual()).await;
    context.run(context.bowline(["call", "media", "work", "--task", "--protocol", "legacy"]));
    let id = server.tasks()[0].id.clone();
    let other = context.run(context.bowline(["tasks", "media", "--protocol", "modern"]));
    assert!(other.contains(&format!("{id}\tother revision\t")) && other.contains("--protocol"), "{other}");
    let again = context.run(context.bowline(["tasks", "media", "--protocol", "legacy"]));
    // The server lists it too, but without the tool's name, which was stored.
    assert!(again.contains(&format!("{id}\tworking\t")) && again.contains("\twork\n"), "{again}");
}

/// An unreadable task is a row like the others.
#[tokio::test]
async fn a_task_that_cannot_be_read_hides_no_other() {
    let context = Context::new();
    let server = start_configured(&context, work_server(TaskPlan::manual()).modern()).await;
    for _ in 0..2 {
        context.run(context.bowline(["call", "media", "work", "--task"]));
    }
    for fault in [Fault::error(-32603, "out of order"), Fault::reply(json!({"status": 7}))] {
        server.arm(fault.on("tasks/get"));
        let listed = context.run(context.bowline(["tasks", "media"]));
        assert!(listed.starts_with("exit: 0"), "{listed}");
        for status in ["unreadable", "working"] {
            assert_eq!(listed.matches(&format!("\t{status}\t")).count(), 1, "{listed}");
        }
    }
    // A server that does not answer has nothing to list.
    server.stop().await;
    let listed = context.run(context.bowline(["tasks", "media", "--connect-timeout", "1s"]));
    assert!(!listed.starts_with("exit: 0"), "{listed}");
}

/// TL-06: the result of a task is checked against the output schema too.
#[tokio::test]
async fn tl_06_the_result_of_a_task_is_checked() {
    let context = Context::new();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tool = Tool::named("work").task(TaskPlan::manual()).output_schema(schema);
    let server = start_configured(&context, testkit::server().tool(tool).modern()).await;
    context.run(context.bowline(["call", "media", "work", "--task"]));
    let id = server.tasks()[0].id.clone();
    let text = json!([{"type": "text", "text": "{}"}]);
    server.finish_task_with(&id, json!({"content": text, "structuredContent": {"n": "many"}}));
    for how in ["--wait", "--result"] {
        let shown = context.run(context.bowline(["tasks", "media", how, &id]));
        assert!(shown.starts_with("exit: 8") && shown.contains("does not fit the output schema"), "{shown}");
    }
}

/// The wait timed out, and the server is fine.
#[tokio::test]
async fn a_wait_that_times_out_prints_the_task_state() {
    let context = Context::new();
    let server = start_configured(&context, work_server(TaskPlan::manual()).modern()).await;
    context.run(context.bowline(["call", "media", "work", "--task"]));
    let id = server.tasks()[0].id.clone();
    let waited = context.run(context.bowline(["tasks", "media", "--wait", &id, "--max-timeout", "1s"]));
    let expected = format!(
        "exit: 4\n--- stdout\n--- stderr\nerror: timed out; the task is still working\n\n\
         hint: `bowline tasks media --wait {id}` waits\n---"
    );
    assert_eq!(waited, expected);
    assert_eq!(server.task(&id).status, "working");
    for flag in ["--wait", "--result", "--cancel"] {
        let empty = context.run(context.bowline(["tasks", "media", flag, ""]));
        assert!(empty.starts_with("exit: 2") && empty.contains("the id is empty"), "{empty}");
    }
}
