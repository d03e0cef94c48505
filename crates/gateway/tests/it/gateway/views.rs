//! Views: what a view does not show is in no list, and cannot be reached by any request.

mod modern;
mod roots;
mod users;

use bowline::Server;
use bowline::config::{Share, ToolPattern, View};
use bowline_config::TransportSettings as _;
use bowline_gateway::{Gateway, STALE_SERVERS};
use bowline_testkit::{self as testkit, Completion, HttpServer, StreamKind, with};
use serde_json::{Value, json};

use super::at;
use crate::support::{TEST_TIMEOUT, TestHost};

/// Three servers, of which the view `review` shows one, and not all of its tools.
struct Fixture {
    shown: HttpServer,
    hidden: HttpServer,
    /// Hidden, and without resources, so that it might have any.
    blank: HttpServer,
    gateway: Gateway,
}

impl Fixture {
    async fn start() -> Self {
        let shown = testkit::server().legacy().instructions("Use search.");
        let shown = shown.tool("search").tool("get_x").tool("delete").prompt("open", "of shown");
        let shown = shown.resource("shown://a", "a").resource("x://same", "of shown").run().await;
        let hidden = testkit::server().legacy().instructions("Use secret.");
        let hidden = hidden.tool("search").tool("secret").prompt("closed", "of hidden");
        let hidden = hidden.resource("hidden://a", "b").resource("x://same", "of hidden");
        let hidden =
            hidden.template("hidden://rows/{id}").completes(Completion::prompt("closed", "x", &["a"]));
        let hidden = hidden.run().await;
        let blank = testkit::server().legacy().tool("idle").run().await;
        let tools = [("shown".to_owned(), ["search", "get_*"].map(ToolPattern::new).to_vec())].into();
        let review = with!(View::default(), servers: Some(["shown".to_owned()].into()), tools: tools);
        let servers = [at("shown", &shown), at("hidden", &hidden), at("blank", &blank)];
        let gateway = Gateway::builder(servers).view("review", review).build();
        Self { shown, hidden, blank, gateway }
    }

    /// A session without a view, so that the lists of all servers are known.
    async fn warm_up(&self) {
        let mut host = TestHost::join_with(&self.gateway, json!({})).await;
        let all = ["shown__search", "get_x", "delete", "hidden__search", "secret", "idle"];
        assert_eq!(host.tools().await, all);
        host.close().await;
    }

    /// How many messages the hidden servers have got.
    fn seen_by_hidden(&self) -> (usize, usize, u64, u64) {
        let (hidden, blank) = (&self.hidden, &self.blank);
        (hidden.received().len(), blank.received().len(), hidden.connections(), blank.connections())
    }
}

/// The server that is shown may still be being connected.
fn assert_no_hidden_server_is_stale(list: &Value) {
    let stale = list["_meta"][STALE_SERVERS].as_object();
    assert!(stale.is_none_or(|stale| stale.keys().eq(["shown"])), "{list}");
}

fn error(code: i64, message: &str) -> Value {
    json!({"code": code, "message": message})
}

/// SE-12: neither a list nor a request of any kind reaches what the view hides.
#[tokio::test]
async fn se_12_what_a_view_hides_cannot_be_reached() {
    let fixture = Fixture::start().await;
    fixture.warm_up().await;
    let before = fixture.seen_by_hidden();
    let mut host = TestHost::join_view(&fixture.gateway, "review");
    let hello = host.initialize(json!({})).await;
    assert_eq!(hello["result"]["instructions"], "# Server `shown`\nUse search.");
    let list = host.result("tools/list", Value::Null).await;
    let names: Vec<_> = list["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["shown__search", "get_x"], "names do not depend on the view");
    assert_no_hidden_server_is_stale(&list);
    assert_eq!(host.names("prompts/list", "prompts", "name").await, ["open"]);
    let uris = host.names("resources/list", "resources", "uri").await;
    assert_eq!(uris, ["shown://a", "bowline://shown/x://same"]);
    let templates = host.names("resources/templates/list", "resourceTemplates", "uriTemplate").await;
    assert_eq!(templates, [""; 0]);
    // What is shown works.
    assert!(host.result("tools/call", json!({"name": "shown__search"})).await["content"].is_array());
    for uri in ["shown://a", "bowline://shown/x://same"] {
        assert!(host.result("resources/read", json!({"uri": uri})).await["contents"].is_array());
    }
    let complete = |reference: Value| json!({"ref": reference, "argument": {"name": "x", "value": ""}});
    let prompt = |name: &str| complete(json!({"type": "ref/prompt", "name": name}));
    let template = |uri: &str| complete(json!({"type": "ref/resource", "uri": uri}));
    for (method, params, expected) in [
        ("tools/call", json!({"name": "secret"}), error(-32602, "Unknown tool: secret")),
        ("tools/call", json!({"name": "hidden__search"}), error(-32602, "Unknown tool: hidden__search")),
        ("tools/call", json!({"name": "delete"}), error(-32602, "Unknown tool: delete")),
        ("tools/call", json!({"name": "idle"}), error(-32602, "Unknown tool: idle")),
        (
            "tools/call",
            json!({"name": "search"}),
            error(-32602, "Unknown tool: search; it is now called shown__search"),
        ),
        ("prompts/get", json!({"name": "closed"}), error(-32602, "Unknown prompt: closed")),
        ("resources/read", json!({"uri": "hidden://a"}), error(-32002, "Resource not found: hidden://a")),
        (
            "resources/read",
            json!({"uri": "bowline://hidden/x://same"}),
            error(-32002, "Resource not found: bowline://hidden/x://same"),
        ),
        (
            "resources/read",
            json!({"uri": "hidden://rows/1"}),
            error(-32002, "Resource not found: hidden://rows/1"),
        ),
        ("resources/read", json!({"uri": "other://x"}), error(-32002, "Resource not found: other://x")),
        (
            "resources/subscribe",
            json!({"uri": "hidden://a"}),
            error(-32602, "no server lists the resource hidden://a"),
        ),
        (
            "resources/subscribe",
            json!({"uri": "bowline://hidden/x://same"}),
            error(-32602, "no server lists the resource bowline://hidden/x://same"),
        ),
        ("completion/complete", prompt("closed"), error(-32602, "Unknown prompt: closed")),
        (
            "completion/complete",
            template("hidden://rows/{id}"),
            error(-32602, "no server has the resource template hidden://rows/{id}"),
        ),
        ("example/method", json!({}), error(-32601, "Method not found: example/method")),
        ("tasks/list", json!({}), error(-32601, "Method not found: tasks/list")),
        ("tasks/get", json!({"taskId": "1"}), error(-32601, "Method not found: tasks/get")),
    ] {
        assert_eq!(host.error(method, params.clone()).await, expected, "{method} {params}");
    }
    assert_eq!(host.result("resources/unsubscribe", json!({"uri": "hidden://a"})).await, json!({}));
    assert_eq!(host.result("logging/setLevel", json!({"level": "debug"})).await, json!({}));
    host.send_notification("notifications/roots/list_changed", json!({})).await;
    assert!(host.is_silent().await);
    host.close().await;
    assert_eq!(fixture.seen_by_hidden(), before, "the hidden servers know nothing of the host");
    assert_eq!(fixture.shown.executions("delete"), 0);
}

/// A session with a view waits for nothing of the other servers, and never connects to them.
#[tokio::test]
async fn a_view_needs_only_its_own_servers() {
    let fixture = Fixture::start().await;
    fixture.hidden.stop().await;
    fixture.blank.stop().await;
    let mut host = TestHost::join_view(&fixture.gateway, "review");
    host.initialize(json!({})).await;
    let list = host.result("tools/list", Value::Null).await;
    assert_eq!(list["tools"].as_array().unwrap().len(), 2, "{list}");
    assert_no_hidden_server_is_stale(&list);
    host.close().await;
    assert_eq!(fixture.seen_by_hidden(), (0, 0, 0, 0));
}

/// A view that is not configured shows nothing: it is not taken for everything.
#[tokio::test]
async fn a_view_that_does_not_exist_shows_nothing() {
    let fixture = Fixture::start().await;
    fixture.warm_up().await;
    let (before, of_shown) = (fixture.seen_by_hidden(), fixture.shown.received().len());
    let mut host = TestHost::join_view(&fixture.gateway, "reviews");
    let hello = host.initialize(json!({})).await;
    assert_eq!(hello["result"].get("instructions"), None);
    assert_eq!(host.tools().await, [""; 0]);
    let unknown = error(-32602, "Unknown tool: get_x");
    assert_eq!(host.error("tools/call", json!({"name": "get_x"})).await, unknown);
    let missing = error(-32002, "Resource not found: shown://a");
    assert_eq!(host.error("resources/read", json!({"uri": "shown://a"})).await, missing);
    host.close().await;
    assert_eq!((fixture.seen_by_hidden(), fixture.shown.received().len()), (before, of_shown));
}

/// Hides prompts and resources of a server that is shown, also those that it does not list.
#[tokio::test]
async fn hidden_prompts_and_resources_are_not_searched_for() {
    let one = testkit::server().legacy().tool("echo").prompt("greet", "hello").resource("x://a", "a");
    let one = one.resource("x://b", "b").template("rows://{id}").run().await;
    let two = testkit::server().legacy().resource("x://b", "b").run().await;
    let tools_only = with!(View::default(), prompts: false, resources: false);
    let gateway = Gateway::builder([at("one", &one), at("two", &two)]).view("tools", tools_only).build();
    let mut host = TestHost::join_view(&gateway, "tools");
    host.initialize(json!({})).await;
    assert_eq!(host.tools().await, ["echo"]);
    for (method, list, member) in [
        ("prompts/list", "prompts", "name"),
        ("resources/list", "resources", "uri"),
        ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ] {
        assert_eq!(host.names(method, list, member).await, [""; 0], "{method}");
    }
    assert_eq!(
        host.error("prompts/get", json!({"name": "greet"})).await,
        error(-32602, "Unknown prompt: greet")
    );
    for uri in ["x://a", "x://b", "bowline://one/x://b", "rows://1", "other://x"] {
        let expected = error(-32002, &format!("Resource not found: {uri}"));
        assert_eq!(host.error("resources/read", json!({"uri": uri})).await, expected);
        let expected = error(-32602, &format!("no server lists the resource {uri}"));
        assert_eq!(host.error("resources/subscribe", json!({"uri": uri})).await, expected);
    }
    for server in [&one, &two] {
        for method in ["prompts/get", "resources/read", "resources/subscribe"] {
            assert_eq!(server.count(method), 0, "{method}");
        }
    }
}

/// What a method reaches that is not known here is not known either.
#[tokio::test]
async fn unknown_methods_reach_the_only_server_if_the_view_hides_nothing_of_it() {
    let (one, two) = (testkit::server().legacy().tool("echo"), testkit::server().legacy().tool("other"));
    let (one, two) = (one.run().await, two.run().await);
    let only = || with!(View::default(), servers: Some(["one".to_owned()].into()));
    let tools = [("one".to_owned(), vec![ToolPattern::new("*")])].into();
    let gateway = Gateway::builder([at("one", &one), at("two", &two)])
        .view("all-of-one", only())
        .view("tools-of-one", with!(only(), tools: tools))
        .view("without-prompts", with!(only(), prompts: false))
        .build();
    for (view, reached) in [("tools-of-one", 0), ("without-prompts", 0), ("all-of-one", 1)] {
        let mut host = TestHost::join_view(&gateway, view);
        host.initialize(json!({})).await;
        assert_eq!(host.error("example/method", json!({})).await["code"], -32601, "{view}");
        host.close().await;
        assert_eq!((one.count("example/method"), two.count("example/method")), (reached, 0), "{view}");
    }
}

/// The host hears of a change if it sees it.
#[tokio::test]
async fn only_changes_within_the_view_are_announced() {
    let server = testkit::server().legacy().tool("get_a").run().await;
    let tools = [("one".to_owned(), vec![ToolPattern::new("get_*")])].into();
    // They share a connection, so both are told of each change at the same time.
    let gateway = Gateway::builder([at("one", &server).with_share(Share::All)])
        .view("get", with!(View::default(), tools: tools))
        .build();
    let mut all = TestHost::join_with(&gateway, json!({})).await;
    let mut limited = TestHost::join_view(&gateway, "get");
    limited.initialize(json!({})).await;
    assert_eq!(
        (all.tools().await, limited.tools().await),
        (vec!["get_a".to_owned()], vec!["get_a".to_owned()])
    );
    server.wait_until(|server| server.open_streams(StreamKind::Get) > 0, TEST_TIMEOUT).await;
    server.edit(|script| script.tool("delete"));
    server.announce_tools();
    all.notification("notifications/tools/list_changed").await;
    assert_eq!(limited.tools().await, ["get_a"]);
    server.edit(|script| script.tool("get_b"));
    server.announce_tools();
    all.notification("notifications/tools/list_changed").await;
    limited.notification("notifications/tools/list_changed").await;
    assert_eq!(limited.tools().await, ["get_a", "get_b"]);
    assert!(limited.is_silent().await, "it was told once");
    assert_eq!(server.initialize_count(), 1);
}

/// Views are not a reason to start a server twice.
#[tokio::test]
async fn hosts_with_different_views_share_a_process() {
    let server = testkit::server().legacy().tool("get_a").tool("delete").stdio().await;
    let command = server.command();
    let program = command.program.to_str().expect("UTF-8");
    let configured = Server::stdio("one", program).args(command.args).build().unwrap();
    let configured = command.env.into_iter().fold(configured, |configured, (name, value)| {
        configured.with_env(name, value).expect("a valid variable")
    });
    let tools = |pattern: &str| [("one".to_owned(), vec![ToolPattern::new(pattern)])].into();
    let gateway = Gateway::builder([configured.with_share(Share::All)])
        .view("get", with!(View::default(), tools: tools("get_*")))
        .view("delete", with!(View::default(), tools: tools("delete")))
        .build();
    let mut hosts = Vec::new();
    for (view, tool, other) in [("get", "get_a", "delete"), ("delete", "delete", "get_a")] {
        let mut host = TestHost::join_view(&gateway, view);
        host.initialize(json!({})).await;
        assert_eq!(host.tools().await, [tool]);
        assert!(host.result("tools/call", json!({"name": tool})).await.is_object());
        let refused = error(-32602, &format!("Unknown tool: {other}"));
        assert_eq!(host.error("tools/call", json!({"name": other})).await, refused);
        hosts.push(host);
    }
    // Lists that were made for a view are not those of a host without one.
    let mut all = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(all.tools().await, ["get_a", "delete"]);
    assert_eq!((server.runs(), server.executions("get_a"), server.executions("delete")), (1, 1, 1));
}
