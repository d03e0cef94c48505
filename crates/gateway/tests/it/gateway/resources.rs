//! Resources: read from their server, told apart where two have the same URI, and watched.

use std::time::Duration;

use bowline_gateway::{FolderCatalog, Gateway};
use bowline_testkit::{self as testkit, Fault, StreamKind, Tool};
use serde_json::{Value, json};

use super::{at, gateway, wait_for_cached_lists};
use crate::support::{TEST_TIMEOUT, TestHost};

#[tokio::test]
async fn resources_are_read_from_their_server() {
    let one =
        testkit::server().legacy().resource("file:///a", "of one").resource("x://same", "1").run().await;
    let two =
        testkit::server().modern().resource("file:///b", "of two").resource("x://same", "2").run().await;
    let mut host = TestHost::join_with(&gateway([at("one", &one), at("two", &two)]), json!({})).await;
    assert_eq!(
        host.names("resources/list", "resources", "uri").await,
        ["file:///a", "bowline://one/x://same", "file:///b", "bowline://two/x://same"]
    );
    for (uri, text) in [("file:///a", "of one"), ("file:///b", "of two"), ("bowline://two/x://same", "2")] {
        let read = host.result("resources/read", json!({"uri": uri})).await;
        assert_eq!((&read["contents"][0]["uri"], &read["contents"][0]["text"]), (&json!(uri), &json!(text)));
    }
    host.send_request(1, "resources/read", json!({"uri": "nobody://has/this"})).await;
    let answer = host.response(1).await;
    assert_eq!(answer["error"], json!({"code": -32002, "message": "Resource not found: nobody://has/this"}));
}

/// GW-14: links in results lead to the server that they came from.
#[tokio::test]
async fn gw_14_links_in_results_are_told_apart() {
    let link = |text: &str| {
        Tool::named(text).result(json!({"content": [
            {"type": "resource_link", "uri": "x://same", "name": "l"},
            {"type": "resource", "resource": {"uri": "x://same", "text": text}},
            {"type": "text", "text": "x://same"},
        ]}))
    };
    let one = testkit::server().legacy().resource("x://same", "1").tool(link("one")).run().await;
    let two = testkit::server().legacy().resource("x://same", "2").tool(link("two")).run().await;
    let mut host = TestHost::join_with(&gateway([at("a", &one), at("b", &two)]), json!({})).await;
    assert_eq!(host.tools().await, ["one", "two"]);
    let answer = host.call_tool(1, "two", json!({})).await;
    let content = &answer["result"]["content"];
    assert_eq!(content[0]["uri"], "bowline://b/x://same");
    assert_eq!(content[1]["resource"]["uri"], "bowline://b/x://same");
    assert_eq!(content[2]["text"], "x://same");
    let read = host.result("resources/read", json!({"uri": content[0]["uri"]})).await;
    assert_eq!(read["contents"][0]["text"], "2");
}

/// RS-03: in both eras, and after the server has lost its session.
#[tokio::test]
async fn rs_03_changes_reach_the_host_that_subscribed() {
    for script in [testkit::server().legacy(), testkit::server().modern()] {
        let server = script.resource("file:///a", "a").resource("file:///b", "b").run().await;
        let gateway = gateway([at("one", &server)]);
        let mut host = TestHost::join_with(&gateway, json!({})).await;
        let mut other = TestHost::join_with(&gateway, json!({})).await;
        assert_eq!(other.names("resources/list", "resources", "uri").await, ["file:///a", "file:///b"]);
        assert_eq!(host.result("resources/subscribe", json!({"uri": "file:///a"})).await, json!({}));
        server
            .wait_until(
                |server| server.open_streams(StreamKind::Get) > 1 || server.subscription_count() > 0,
                TEST_TIMEOUT,
            )
            .await;
        server.announce_resource("file:///b");
        server.announce_resource("file:///a");
        let updated = host.notification("notifications/resources/updated").await;
        assert_eq!(updated["params"], json!({"uri": "file:///a"}));
        assert_eq!(host.result("resources/unsubscribe", json!({"uri": "file:///a"})).await, json!({}));
        assert!(other.is_silent().await, "it subscribed to nothing");
        host.send_request(1, "resources/subscribe", json!({"uri": "file:///none"})).await;
        assert_eq!(host.response(1).await["error"]["code"], -32602);
        assert_eq!(host.result("ping", Value::Null).await, json!({}));
    }
}

/// What a template makes is not listed. A server that is known and still being connected is waited
/// for.
#[tokio::test]
async fn a_resource_of_a_template_is_read_from_a_server_that_is_being_connected() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = testkit::server().legacy().template("db://rows/{id}").run().await;
    let build =
        || Gateway::builder([at("one", &server)]).catalog_cache(FolderCatalog::new(folder.path())).build();
    let mut host = TestHost::join_with(&build(), json!({})).await;
    let templates = host.names("resources/templates/list", "resourceTemplates", "uriTemplate").await;
    assert_eq!(templates, ["db://rows/{id}"]);
    host.close().await;
    wait_for_cached_lists(folder.path()).await;
    server.arm(Fault::delay(Duration::from_millis(500)).on("initialize"));
    let mut host = TestHost::join_with(&build(), json!({})).await;
    let read = host.result("resources/read", json!({"uri": "db://rows/7"})).await;
    assert_eq!(read["contents"][0]["uri"], "db://rows/7");
}

/// AP-01, AP-02, AP-03: what a tool says about its app, and the app itself, pass as they are.
/// Which tools a model sees is up to the host.
#[tokio::test]
async fn ap_03_apps_pass_untouched() {
    let meta = json!({"ui": {"resourceUri": "ui://shop/cart.html", "visibility": ["app"], "later": [1.0]}});
    let page = "<html>cart</html>";
    let script = testkit::server().legacy().tool(Tool::like("cart", "echo").member("_meta", meta.clone()));
    let shop = script.tool("counter").resource("ui://shop/cart.html", page).run().await;
    let other = testkit::server().legacy().tool("other").resource("file:///x", "x").run().await;
    let mut host = TestHost::join_with(&gateway([at("other", &other), at("shop", &shop)]), json!({})).await;
    let tools = host.result("tools/list", Value::Null).await;
    let cart = tools["tools"].as_array().expect("a list").iter().find(|tool| tool["name"] == "cart");
    assert_eq!(cart.expect("it is listed")["_meta"], meta);
    let read = host.result("resources/read", json!({"uri": "ui://shop/cart.html"})).await;
    assert_eq!(
        (&read["contents"][0]["uri"], &read["contents"][0]["text"]),
        (&json!("ui://shop/cart.html"), &json!(page))
    );
    host.result("tools/call", json!({"name": "cart", "arguments": {}})).await;
    assert_eq!(shop.executions("cart"), 1);
}
