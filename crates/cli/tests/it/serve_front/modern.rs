//! Hosts of 2026-07-28 on stdio, which have no session.

use bowline_testkit::{self as testkit, HttpServer, ScriptedRequest, Tool};
use rustix::process::{Signal, kill_process};
use serde_json::json;

use super::daemons::{Daemons, wait_until};
use crate::connect::host::{
    Host, SUBSCRIPTION, TEST_TIMEOUT, modern_call, result_text, retry_with_city, with_meta,
};
use crate::context::{Context, to_pid};
use crate::status::http_entry;

async fn server() -> HttpServer {
    let lookup = Tool::like("lookup", "echo").read_only();
    let server = testkit::server().legacy().tool(lookup).tool("counter").tool("slow");
    server.resource("x://a", "the text of a").run().await
}

fn start(context: &Context, args: &[&str]) -> Host {
    Host::start(context.bowline([&["serve", "--stdio"], args].concat()))
}

/// A context in which a server is configured, and that server.
async fn configure() -> (Context, HttpServer) {
    let context = Context::new();
    let web = server().await;
    context.user_config(&http_entry("web", &web));
    (context, web)
}

/// GW-01, GW-06, GW-10, LC-11: `server/discover` is answered, and a host may use the handshake all the
/// same, until another request decides.
#[tokio::test]
async fn gw_10_a_host_on_stdio_chooses_its_era() {
    let (context, _web) = configure().await;
    let _daemons = Daemons::of(&context);
    for args in [&[][..], &["--alone"]] {
        let mut host = start(&context, args);
        let offer = host.request("server/discover", with_meta(json!({}))).await;
        let offer = &offer["result"];
        assert_eq!(offer["supportedVersions"], json!(["2026-07-28"]), "{offer}");
        assert_eq!((&offer["ttlMs"], &offer["cacheScope"]), (&json!(0), &json!("private")), "{offer}");
        assert_eq!(host.initialize().await["result"]["protocolVersion"], "2025-11-25");
        assert_eq!(result_text(&host.call("lookup").await), "{}");
        assert_eq!(host.close().await.status.code(), Some(0));

        let mut host = start(&context, args);
        let list = host.request("tools/list", with_meta(json!({}))).await;
        assert_eq!(list["result"]["tools"].as_array().map(Vec::len), Some(3), "{list}");
        assert_eq!(list["result"]["cacheScope"], "private");
        assert_eq!(host.initialize().await["error"]["code"], -32022);
        assert_eq!(host.request("tools/list", json!({})).await["error"]["code"], -32602);
        assert_eq!(host.request("ping", with_meta(json!({}))).await["error"]["code"], -32601);
        let said = host.request("tools/call", modern_call("lookup", json!({"a": 1}))).await;
        assert_eq!(result_text(&said), r#"{"a":1}"#);
        assert_eq!(host.close().await.status.code(), Some(0));
    }
}

/// A context in which a server is configured with a tool that asks for a city, and that server.
async fn configure_form() -> (Context, HttpServer) {
    let context = Context::new();
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let form = Tool::asks("form", [ScriptedRequest::form_elicitation("k", "Where?", schema)]);
    let web = testkit::server().legacy().tool(form).run().await;
    context.user_config(&http_entry("web", &web));
    (context, web)
}

/// GW-07: what a server asks is the result of the call, and its state goes with the retry. After a
/// restart of the daemon nobody knows the state.
#[tokio::test]
async fn gw_07_input_is_required_of_a_host_on_stdio() {
    let (context, _web) = configure_form().await;
    let daemons = Daemons::of(&context);
    let mut host = start(&context, &[]);
    for is_restarted in [false, true] {
        let asked = host.request("tools/call", modern_call("form", json!({}))).await;
        let retry = retry_with_city("form", &asked);
        if is_restarted {
            daemons.kill();
        }
        let answer = host.request("tools/call", retry).await;
        if is_restarted {
            assert_eq!(answer["error"]["code"], -31050, "{answer}");
            assert_eq!(answer["error"]["data"]["bowline"]["execution"], "unknown");
        } else {
            assert!(result_text(&answer).contains("Bergen"), "{answer}");
        }
    }
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// GW-07, SE-09: the `requestState` of a host is of no use to another one with the same name at the same daemon.
#[tokio::test]
async fn gw_07_a_request_state_is_of_use_to_its_own_host_only() {
    let (context, _web) = configure_form().await;
    let _daemons = Daemons::of(&context);
    let (mut host, mut other) = (start(&context, &[]), start(&context, &[]));
    let asked = host.request("tools/call", modern_call("form", json!({}))).await;
    let retry = retry_with_city("form", &asked);
    let refused = other.request("tools/call", retry.clone()).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(refused["error"]["message"], "requestState is not valid for this request");
    let answer = host.request("tools/call", retry).await;
    assert!(result_text(&answer).contains("Bergen"), "{answer}");
    for host in [host, other] {
        assert_eq!(host.close().await.status.code(), Some(0));
    }
}

/// The daemon is killed during a harmless call, which is sent again, and during one with effects, which
/// is not.
#[tokio::test]
async fn only_harmless_calls_are_repeated_when_the_daemon_is_killed() {
    let context = Context::new();
    let wait = Tool::like("wait", "slow").read_only();
    let web = testkit::server().legacy().tool(wait).tool("slow").tool("counter").run().await;
    context.user_config(&http_entry("web", &web));
    let daemons = Daemons::of(&context);
    let mut host = start(&context, &[]);
    for (tool, expected) in [("wait", 2), ("slow", 1)] {
        let id = host.send_request("tools/call", modern_call(tool, json!({"ms": 1500}))).await;
        web.wait_for(|received| received.tool() == Some(tool), TEST_TIMEOUT).await;
        daemons.kill();
        let answer = host.wait_for_response(id).await;
        if tool == "wait" {
            result_text(&answer);
        } else {
            assert_eq!(answer["error"]["code"], -31050, "{answer}");
            assert_eq!(answer["error"]["data"]["bowline"]["execution"], "unknown", "{answer}");
        }
        let sent = web.received_with_method("tools/call");
        assert_eq!(sent.iter().filter(|received| received.tool() == Some(tool)).count(), expected);
    }
    // A call that finds no daemon waits for it, whatever its effects. Until the next one is started, the
    // socket of the last may still take what nobody reads.
    let killed = daemons.kill();
    wait_until(|| daemons.all().iter().any(|daemon| *daemon != killed)).await;
    assert_eq!(result_text(&host.request("tools/call", modern_call("counter", json!({}))).await), "1");
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// A host that sends a signal may still read: its calls are answered with an error, its subscriptions with a
/// result.
#[tokio::test]
async fn a_signal_answers_what_is_open() {
    let (context, web) = configure().await;
    let _daemons = Daemons::of(&context);
    let mut host = start(&context, &[]);
    let subscription = host.listen(json!({"toolsListChanged": true})).await;
    let call = host.send_request("tools/call", modern_call("slow", json!({"ms": 60_000}))).await;
    web.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    kill_process(to_pid(host.id()), Signal::TERM).unwrap();
    let ended = host.wait_for_response(subscription).await;
    assert_eq!(ended["result"]["resultType"], "complete", "{ended}");
    let answer = host.wait_for_response(call).await;
    assert_eq!(answer["error"]["code"], -31050, "{answer}");
    assert_eq!(answer["error"]["data"]["bowline"]["execution"], "unknown", "{answer}");
    assert_eq!(host.wait().await.status.code(), Some(0));
    web.wait_until(|web| web.cancellations().len() == 1, TEST_TIMEOUT).await;
}

/// SB-03, SB-05, ST-05: a subscription outlives the daemon, killed or asked to end. Everything may have
/// changed meanwhile.
#[tokio::test]
async fn sb_05_a_subscription_on_stdio_outlives_the_daemon() {
    let (context, web) = configure().await;
    let daemons = Daemons::of(&context);
    let mut host = start(&context, &[]);
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["x://a"]});
    let id = host.listen(filter).await;
    for signal in [Signal::KILL, Signal::TERM] {
        let ended = daemons.signal(signal);
        let expected = ["notifications/tools/list_changed", "notifications/resources/updated"];
        for method in expected {
            let change = host.next_message().await;
            assert_eq!(change["method"], method, "{change}");
            assert_eq!(change["params"]["_meta"][SUBSCRIPTION], id);
        }
        assert_ne!(daemons.only(), ended);
        web.wait_until(|web| web.announce_resource("x://a") > 0, TEST_TIMEOUT).await;
        let change = host.next_message().await;
        assert_eq!((&change["method"], &change["params"]["uri"]), (&json!(expected[1]), &json!("x://a")));
    }
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// GW-08: a subscription ends with a result, and on a pipe with a cancellation, when the host has closed
/// its end.
#[tokio::test]
async fn gw_08_subscriptions_on_stdio_end_with_a_result() {
    let (context, _web) = configure().await;
    let _daemons = Daemons::of(&context);
    for args in [&[][..], &["--alone"]] {
        let mut host = start(&context, args);
        let id = host.listen(json!({"toolsListChanged": true})).await;
        host.close_stdin();
        let (end, canceled) = (host.next_message().await, host.next_message().await);
        assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!(id), &json!("complete")), "{end}");
        assert_eq!(end["result"]["_meta"][SUBSCRIPTION], id);
        assert_eq!(canceled["method"], "notifications/cancelled", "{canceled}");
        assert_eq!(canceled["params"]["requestId"], id);
        assert_eq!(host.wait().await.status.code(), Some(0));
    }
}

/// A daemon is not idle while it has a host, although the host requests nothing.
#[tokio::test]
async fn a_silent_host_without_a_session_keeps_the_daemon() {
    let (context, _web) = configure().await;
    let daemons = Daemons::of(&context);
    let mut host = start(&context, &[]);
    result_text(&host.request("tools/call", modern_call("lookup", json!({}))).await);
    let first = daemons.only();
    // Its subscription to nothing is open once the daemon has started again without any request.
    daemons.kill();
    wait_until(|| daemons.all().iter().any(|daemon| *daemon != first)).await;
    assert_eq!(host.close().await.status.code(), Some(0));
}
