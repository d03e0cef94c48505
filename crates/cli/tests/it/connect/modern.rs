//! Hosts of 2026-07-28, which have no session. The grid of `bowline serve` has the features; here is what `bowline
//! connect` adds to them: nothing of the server is changed.

use bowline_testkit::{self as testkit, Fault, HttpServer, Script, ScriptedRequest, TaskPlan, Tool};
use serde_json::{Value, json};

use super::host::{Host, SUBSCRIPTION, TEST_TIMEOUT, modern_call, result_text, retry_with_city, with_meta};
use crate::context::Context;

/// Names and URIs that `bowline serve` would change.
fn odd_script() -> Script {
    let long = "long".repeat(30);
    let names = ["a.read", "web__search", "b/c d", "é", "x_0badcafe", &*long];
    let script = testkit::server().info("odd", "3.1").instructions("Be brief.\n").page_size(2);
    let script =
        names.into_iter().fold(script, |script, name| script.tool(Tool::like(name, "echo").read_only()));
    script
        .tool("counter")
        .resource("bowline://web/x://1", "looks qualified")
        .template("t://{id}")
        .prompt("p.q", "Hello {who}")
}

fn connect(context: &Context, url: &str, flags: &[&str]) -> Host {
    Host::start(context.bowline([&["connect", url], flags].concat()))
}

async fn result(host: &mut Host, method: &str, params: Value) -> Value {
    let answer = host.request(method, with_meta(params)).await;
    assert!(answer["result"].is_object(), "{method}: {answer}");
    answer["result"].clone()
}

async fn call(host: &mut Host, tool: &str) -> Value {
    host.request("tools/call", modern_call(tool, json!({}))).await
}

/// GW-01, GW-06, GW-10: `server/discover` says what the server is, and a host may use the handshake all the same, until
/// another request decides.
#[tokio::test]
async fn gw_10_a_host_of_connect_chooses_its_era() {
    for script in [odd_script().legacy(), odd_script().modern()] {
        let context = Context::new();
        let server = script.run().await;
        let mut host = connect(&context, &server.url(), &[]);
        let offer = result(&mut host, "server/discover", json!({})).await;
        assert_eq!(offer["supportedVersions"], json!(["2026-07-28"]), "{offer}");
        assert_eq!(offer["instructions"], "Be brief.\n");
        let info = json!({"name": "odd", "version": "3.1"});
        assert_eq!(offer["_meta"]["io.modelcontextprotocol/serverInfo"], info, "{offer}");
        assert_eq!(offer["capabilities"]["tools"]["listChanged"], true, "{offer}");
        assert_eq!(host.initialize().await["result"]["serverInfo"], info);
        assert_eq!(result_text(&host.call("a.read").await), "{}");
        assert_eq!(host.close().await.status.code(), Some(0));

        let mut host = connect(&context, &server.url(), &[]);
        assert_eq!(result_text(&call(&mut host, "a.read").await), "{}");
        assert_eq!(host.initialize().await["error"]["code"], -32022);
        assert_eq!(host.request("ping", with_meta(json!({}))).await["error"]["code"], -32601);
        assert_eq!(host.close().await.status.code(), Some(0));
    }
}

/// A host that only asked before it used the handshake leaves no second session behind.
#[tokio::test]
async fn the_session_of_a_probe_is_ended_when_the_host_uses_the_handshake() {
    let context = Context::new();
    let server = odd_script().legacy().run().await;
    let mut host = connect(&context, &server.url(), &[]);
    result(&mut host, "server/discover", json!({})).await;
    assert!(host.initialize().await["result"].is_object());
    server
        .wait_until(|server| server.initialize_count() == 2 && server.sessions().len() == 1, TEST_TIMEOUT)
        .await;
    assert_eq!(result_text(&host.call("a.read").await), "{}");
}

/// GW-14: both kinds of hosts see the same, under the names of the server; and what the server does not list can be
/// used all the same.
#[tokio::test]
async fn gw_14_nothing_of_the_server_is_changed() {
    for script in [odd_script().legacy(), odd_script().modern(), odd_script().http_sse()] {
        let context = Context::new();
        let server = script.run().await;
        // What a gateway would rename is not renamed here.
        let entry =
            format!("[servers.odd]\nurl = '{}'\ntool_names = {{ counter = 'count' }}\n", server.url());
        context.user_config(&entry);
        let mut modern = connect(&context, "odd", &[]);
        let mut legacy = Host::start_initialized(context.bowline(["connect", "odd"])).await;
        let listed = result(&mut modern, "tools/list", json!({})).await["tools"].clone();
        assert_eq!(listed, list_pages(&mut legacy, "tools/list", "tools").await);
        assert_eq!(listed.as_array().map(Vec::len), Some(7));
        for tool in listed.as_array().into_iter().flatten() {
            result_text(&call(&mut modern, tool["name"].as_str().expect("a name")).await);
        }
        for (method, member) in [
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
            ("prompts/list", "prompts"),
        ] {
            let listed = result(&mut modern, method, json!({})).await[member].clone();
            assert_eq!(listed, list_pages(&mut legacy, method, member).await);
        }
        let read = json!({"uri": "bowline://web/x://1"});
        let read = result(&mut modern, "resources/read", read).await;
        assert_eq!(read["contents"][0]["uri"], "bowline://web/x://1");
        let got = json!({"name": "p.q", "arguments": {"who": "you"}});
        let got = result(&mut modern, "prompts/get", got).await;
        assert_eq!(got["messages"][0]["content"]["text"], "Hello you");
        // Errors are those of the server.
        let (mine, other) = (call(&mut modern, "none").await, legacy.call("none").await);
        assert_eq!(mine["error"], other["error"], "{mine}");
        server.edit(|script| script.tool(Tool::like("unlisted", "echo")));
        assert_eq!(result_text(&call(&mut modern, "unlisted").await), "{}");
        for host in [modern, legacy] {
            assert_eq!(host.close().await.status.code(), Some(0));
        }
    }
}

/// What the entry or an option hides is hidden, and cannot be called.
#[tokio::test]
async fn hidden_tools_are_hidden_without_a_session() {
    let context = Context::new();
    let server = odd_script().legacy().run().await;
    let mut host = connect(&context, &server.url(), &["--ignore-tool", "a.*"]);
    let listed = result(&mut host, "tools/list", json!({})).await["tools"].clone();
    let names = listed.as_array().expect("a list").iter().map(|tool| tool["name"].as_str().unwrap());
    assert_eq!(names.filter(|name| *name == "a.read").count(), 0);
    assert_eq!(listed.as_array().map(Vec::len), Some(6));
    let refused = call(&mut host, "a.read").await;
    assert_eq!(refused["error"]["code"], -32602);
    assert_eq!(refused["error"]["message"], "Unknown tool: a.read");
    assert_eq!(server.executions("a.read"), 0);
}

/// A host that has roots is brought into a session, since only there a server can ask for them at any time. One that
/// knows no handshake asks again, and is served.
#[tokio::test]
async fn a_host_with_roots_is_brought_into_a_session() {
    let context = Context::new();
    let server = odd_script().legacy().run().await;
    let mut probe = with_meta(json!({}));
    probe["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"roots": {}});
    let mut host = connect(&context, &server.url(), &[]);
    let refused = host.request("server/discover", probe.clone()).await;
    assert_eq!(refused["error"]["code"], -32022);
    assert!(refused["error"]["data"]["supported"].to_string().contains("2025-11-25"), "{refused}");
    assert!(host.initialize().await["result"].is_object());
    assert_eq!(server.initialize_count(), 1, "the probe has opened nothing");

    let mut host = connect(&context, &server.url(), &[]);
    assert_eq!(host.request("server/discover", probe.clone()).await["error"]["code"], -32022);
    let offer = host.request("server/discover", probe).await;
    assert_eq!(offer["result"]["supportedVersions"], json!(["2026-07-28"]), "{offer}");
}

async fn list_pages(host: &mut Host, method: &str, member: &str) -> Value {
    let (mut all, mut params) = (Vec::new(), json!({}));
    loop {
        let page = host.request(method, params).await["result"].take();
        all.extend(page[member].as_array().cloned().expect("a page"));
        match page.get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => return all.into(),
        }
    }
}

/// A server that is down keeps what it offered last, and its lists say that it is down.
#[tokio::test]
async fn a_server_that_is_down_keeps_its_lists() {
    let context = Context::new();
    let server = odd_script().legacy().run().await;
    let flags = &["--reconnect-wait", "0"];
    let mut host = connect(&context, &server.url(), flags);
    let before = result(&mut host, "tools/list", json!({})).await;
    let offer = result(&mut host, "server/discover", json!({})).await;
    assert_eq!(host.close().await.status.code(), Some(0));
    server.stop().await;
    let mut host = connect(&context, &server.url(), flags);
    assert_eq!(result(&mut host, "server/discover", json!({})).await, offer);
    let answer = call(&mut host, "counter").await;
    assert_eq!(answer["error"]["code"], -31050, "{answer}");
    assert_eq!(answer["error"]["data"]["bowline"]["execution"], "not_executed", "{answer}");
    let message = answer["error"]["message"].as_str().expect("text");
    assert!(message.contains("--reconnect-wait"), "{message}");
    let after = result(&mut host, "tools/list", json!({})).await;
    assert_eq!(after["tools"], before["tools"]);
    let stale = after["_meta"]["bowline/stale-servers"].as_object().expect("it says so");
    assert_eq!(stale.values().collect::<Vec<_>>(), ["connection refused"], "{after}");
    assert_eq!(server.executions("counter"), 0);
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// A server that was never there has empty lists after a while, and the host hears of it when it comes.
#[tokio::test]
async fn a_server_that_comes_later_is_announced() {
    let context = Context::new();
    let server = odd_script().legacy().run().await;
    server.stop().await;
    let mut host = connect(&context, &server.url(), &[]);
    let offer = result(&mut host, "server/discover", json!({})).await;
    assert_eq!(offer["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "bowline", "{offer}");
    host.listen(json!({"toolsListChanged": true})).await;
    let nothing = result(&mut host, "tools/list", json!({})).await;
    assert_eq!(nothing["tools"], json!([]));
    assert!(nothing["_meta"]["bowline/stale-servers"].is_object(), "{nothing}");
    server.start().await;
    let changed = host.next_message().await;
    assert_eq!(changed["method"], "notifications/tools/list_changed", "{changed}");
    assert_eq!(result(&mut host, "tools/list", json!({})).await["tools"].as_array().map(Vec::len), Some(7));
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// A server that cannot be used until a person helps is an error that says why, not an empty list.
#[tokio::test]
async fn a_program_that_cannot_be_started_is_an_error() {
    let context = Context::new();
    let mut host = Host::start(context.bowline(["connect", "--", "./no-such-program"]));
    for method in ["server/discover", "tools/list"] {
        let answer = host.request(method, with_meta(json!({}))).await;
        assert_eq!(answer["error"]["code"], -31050, "{answer}");
        let data = &answer["error"]["data"]["bowline"];
        assert_eq!(data["execution"], "not_executed", "{answer}");
        assert_eq!(data["cause"], "spawn", "{answer}");
    }
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// A server that ends during a call that may have effects is not asked twice.
#[tokio::test]
async fn a_call_that_may_have_been_executed_is_labeled() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("counter").stdio().await;
    let mut host = Host::start(context.bowline_with(&["connect"], &server.command()));
    result(&mut host, "tools/list", json!({})).await;
    server.arm(Fault::exit(1).on_tool("counter").executed());
    let answer = call(&mut host, "counter").await;
    assert_eq!(answer["error"]["data"]["bowline"]["execution"], "unknown", "{answer}");
    assert_eq!(answer["error"]["data"]["bowline"]["cause"], "exited", "{answer}");
    assert_eq!(result_text(&call(&mut host, "counter").await), "2");
    assert_eq!((server.executions("counter"), server.processes().len()), (2, 2));
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// GW-07: what a server asks is the result of the call, also if the server lost its sessions before; and a state is
/// valid once.
#[tokio::test]
async fn gw_07_input_is_required_through_connect() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let form = Tool::asks("form", [ScriptedRequest::form_elicitation("k", "Where?", schema)]);
    for script in [testkit::server().legacy(), testkit::server().modern()] {
        let context = Context::new();
        let server = script.tool(form.clone()).run().await;
        let mut host = connect(&context, &server.url(), &[]);
        for _ in 0..2 {
            let asked = call(&mut host, "form").await;
            let retry = retry_with_city("form", &asked);
            let answer = host.request("tools/call", retry.clone()).await;
            assert!(result_text(&answer).contains("Bergen"), "{answer}");
            let again = host.request("tools/call", retry).await;
            assert_eq!(again["error"]["code"], -32602, "{again}");
            server.drop_sessions();
        }
        assert_eq!(host.close().await.status.code(), Some(0));
    }
}

/// GW-08: subscriptions end with a result when the host closes its end, after its calls.
#[tokio::test]
async fn gw_08_subscriptions_of_connect_end_with_a_result() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("slow").resource("x://a", "a").run().await;
    let mut host = connect(&context, &server.url(), &[]);
    // No list has this URI, and the server agrees all the same.
    let id = host.listen(json!({"toolsListChanged": true, "resourceSubscriptions": ["x://b"]})).await;
    server.wait_until(|server| server.announce_resource("x://b") > 0, TEST_TIMEOUT).await;
    let updated = host.next_message().await;
    assert_eq!(
        (&updated["params"]["uri"], &updated["params"]["_meta"][SUBSCRIPTION]),
        (&json!("x://b"), &json!(id))
    );
    let open = host.send_request("tools/call", modern_call("slow", json!({"ms": 300}))).await;
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    host.close_stdin();
    let (end, canceled) = (host.next_message().await, host.next_message().await);
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!(id), &json!("complete")), "{end}");
    assert_eq!(canceled["params"]["requestId"], id, "{canceled}");
    result_text(&host.wait_for_response(open).await);
    assert_eq!(host.wait().await.status.code(), Some(0));
}

/// Who sends a signal is told what becomes of the open calls.
#[cfg(unix)]
#[tokio::test]
async fn a_signal_answers_what_is_open() {
    use rustix::process::{Signal, kill_process};

    use crate::context::to_pid;

    let context = Context::new();
    let server = testkit::server().legacy().tool("slow").run().await;
    let mut host = connect(&context, &server.url(), &[]);
    let open = host.send_request("tools/call", modern_call("slow", json!({"ms": 600_000}))).await;
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    kill_process(to_pid(host.id()), Signal::TERM).expect("it runs");
    let answer = host.wait_for_response(open).await;
    assert_eq!(answer["error"]["data"]["bowline"]["execution"], "unknown", "{answer}");
    assert_eq!(host.wait().await.status.code(), Some(0));
    server.wait_until(|server| server.cancellations().len() == 1, TEST_TIMEOUT).await;
}

/// The id of a task is known to the next process.
#[tokio::test]
async fn a_task_outlives_the_process() {
    let context = Context::new();
    let work = Tool::named("work").task(TaskPlan::manual());
    let server: HttpServer = testkit::server().modern().tool(work).run().await;
    let with_tasks = |mut params: Value| {
        let capabilities = &mut params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
        params
    };
    let mut host = connect(&context, &server.url(), &[]);
    let created =
        host.request("tools/call", with_tasks(modern_call("work", json!({})))).await["result"].take();
    assert_eq!(created["resultType"], "task", "{created}");
    assert_eq!(host.close().await.status.code(), Some(0));
    let mut host = connect(&context, &server.url(), &[]);
    let get = with_tasks(with_meta(json!({"taskId": created["taskId"]})));
    let state = host.request("tasks/get", get).await;
    assert_eq!(state["result"]["status"], "working", "{state}");
    assert_eq!(host.close().await.status.code(), Some(0));
}
