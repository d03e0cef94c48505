//! `bowline serve --stdio` between a plain host and scripted servers.

use bowline_testkit::{self as testkit, HttpServer};
use serde_json::{Value, json};

use crate::connect::host::{Host, result_text};
use crate::context::{Context, snapshot};
use crate::status::{http_entry, stdio_entry};

async fn tools(host: &mut Host) -> Vec<String> {
    let answer = host.request("tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("no tools in {answer}"));
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

async fn server(tool: &str) -> HttpServer {
    testkit::server().legacy().tool("counter").tool(tool).run().await
}

#[tokio::test]
async fn a_host_gets_all_servers_as_one_and_keeps_its_session() {
    let context = Context::new();
    let one = server("echo").await;
    let two = testkit::server().legacy().tool("counter").tool("slow").stdio().await;
    context.user_config(&format!("{}{}", http_entry("one", &one), stdio_entry("two", &two.command())));
    let mut host = Host::start_initialized(context.bowline(["serve", "--stdio"])).await;
    assert_eq!(tools(&mut host).await, ["one__counter", "echo", "two__counter", "slow"]);
    assert_eq!(result_text(&host.call("one__counter").await), "1");
    assert_eq!(result_text(&host.call("two__counter").await), "1");
    one.drop_sessions();
    assert_eq!(result_text(&host.call("one__counter").await), "2");
    let exit = host.close().await;
    assert_eq!((exit.status.code(), &*exit.stderr), (Some(0), ""));
    assert_eq!(one.sessions().len(), 0, "its session was ended");
}

/// The second start knows what the first one saw, also while every server is down.
#[tokio::test]
async fn the_next_start_answers_from_what_was_seen_before() {
    let context = Context::new();
    let one = server("echo").await;
    context.user_config(&http_entry("one", &one));
    let mut host = Host::start_initialized(context.bowline(["serve", "--stdio"])).await;
    assert_eq!(tools(&mut host).await, ["counter", "echo"]);
    assert_eq!(host.close().await.status.code(), Some(0));
    one.stop().await;
    let mut host = Host::start_initialized(context.bowline(["serve", "--stdio"])).await;
    assert_eq!(tools(&mut host).await, ["counter", "echo"]);
    let list = host.request("tools/list", json!({})).await;
    assert!(list["result"]["_meta"]["bowline/stale-servers"]["one"].is_string(), "{list}");
    one.start().await;
    assert_eq!(result_text(&host.call("counter").await), "1");
    assert_eq!(host.close().await.status.code(), Some(0));
}

#[tokio::test]
async fn chosen_servers_with_prefixed_names() {
    let context = Context::new();
    let (one, two) = (server("echo").await, server("slow").await);
    context.user_config(&format!("{}{}", http_entry("one", &one), http_entry("two", &two)));
    let command = context.bowline(["serve", "--stdio", "--prefix", "two"]);
    let mut host = Host::start_initialized(command).await;
    assert_eq!(tools(&mut host).await, ["two__counter", "two__slow"]);
    assert_eq!(one.initialize_count(), 0);
    let answer = host.request("nobody/knows", Value::Null).await;
    assert_eq!(answer["error"]["code"], -32601);
    assert_eq!(host.close().await.status.code(), Some(0));
}

#[test]
fn mistakes_are_explained() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["serve"])), @r"");
    snapshot!(context.run(context.bowline(["serve", "--stdio"])), @r"");
    context.user_config("[servers.off]\ncommand = 'nothing'\nenabled = false\n");
    snapshot!(context.run(context.bowline(["serve", "--stdio"])), @r"");
    snapshot!(context.run(context.bowline(["serve", "--stdio", "nobody"])), @r"");
    snapshot!(context.run(context.bowline(["serve", "--stdio", "--trust-project"])), @r"");
}
