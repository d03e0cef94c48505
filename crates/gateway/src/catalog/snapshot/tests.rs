//! Tests of merged lists.

use serde_json::{Value, json};

use super::super::ServerLists;
use super::*;
use bowline::config::{Exposure, ToolPattern};
use bowline_testkit::with;

fn items(values: Value) -> Vec<Json> {
    values.as_array().unwrap().iter().map(|value| Json::encode(value).unwrap()).collect()
}

fn server(name: &str, lists: ServerLists) -> ExposedLists {
    exposed(name, lists, &Exposure::default())
}

fn exposed(name: &str, lists: ServerLists, exposure: &Exposure) -> ExposedLists {
    ExposedLists::new(&name.into(), &Arc::new(lists), exposure)
}

fn tools(names: &[&str]) -> ServerLists {
    let tools = names.iter().map(|name| Json::encode(&json!({"name": name, "inputSchema": {}})).unwrap());
    ServerLists { tools: tools.collect(), ..ServerLists::default() }
}

fn build(servers: &[ExposedLists]) -> Snapshot {
    build_view(servers, &View::default())
}

fn build_view(servers: &[ExposedLists], view: &View) -> Snapshot {
    let configured: Vec<_> = servers.iter().map(|exposed| &*exposed.server).collect();
    Snapshot::build(servers, &configured, (Naming::default(), &mut NameOwners::default()), view)
}

fn listed(snapshot: &Snapshot, kind: ListKind) -> Value {
    snapshot.result(kind).decode().unwrap()
}

#[test]
fn lists_are_merged_in_the_order_of_the_servers() {
    let snapshot = build(&[server("b", tools(&["one", "two"])), server("a", tools(&["two", "three"]))]);
    let names: Vec<_> = listed(&snapshot, ListKind::Tools)["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["one", "b__two", "a__two", "three"]);
    let target = snapshot.named(ListKind::Tools, "a__two").unwrap();
    assert_eq!((&*target.server, &*target.name), ("a", "two"));
    assert_eq!(snapshot.named(ListKind::Tools, "two"), None);
    assert_eq!(snapshot.names_of(ListKind::Tools, "two"), ["a__two", "b__two"]);
}

/// An element that needs no other name passes as the server wrote it, and the others keep all but
/// their name.
#[test]
fn elements_pass_byte_for_byte() {
    let odd = r#"{"name":"x","inputSchema":{"a":1.0,"b":1e400},"com.example/z":[ 1 ]}"#;
    let lists = ServerLists { tools: vec![Json::parse(odd).unwrap()], ..ServerLists::default() };
    let alone = build(&[server("a", lists.clone())]);
    assert_eq!(alone.result(ListKind::Tools).as_str(), format!(r#"{{"tools":[{odd}]}}"#));
    let both = build(&[server("a", lists), server("b", tools(&["x"]))]);
    let renamed = odd.replace(r#""name":"x""#, r#""name":"a__x""#);
    assert!(
        both.result(ListKind::Tools).as_str().contains(&renamed),
        "{}",
        both.result(ListKind::Tools).as_str()
    );
}

#[test]
fn lists_are_compared_one_by_one() {
    let first = build(&[server("a", tools(&["x"]))]);
    let same = build(&[server("a", tools(&["x"]))]);
    let other = build(&[server("a", tools(&["y"]))]);
    assert!(first.has_same(ListKind::Tools, &same) && !first.has_same(ListKind::Tools, &other));
    assert!(first.has_same(ListKind::Prompts, &other));
}

/// GW-14, AP-02: a URI that two servers have is told apart everywhere that it appears.
#[test]
fn gw_14_shared_uris_are_qualified() {
    let lists = |ui: &str| ServerLists {
        resources: items(json!([{"uri": "file:///a", "name": "a"}, {"uri": ui, "name": "u"}])),
        templates: items(json!([{"uriTemplate": "db://{id}", "name": "t"}])),
        tools: items(
            json!([{"name": format!("{}-tool", ui.len()), "_meta": {"ui": {"resourceUri": ui, "x": 1}, "ui/resourceUri": ui}}]),
        ),
        ..ServerLists::default()
    };
    let snapshot = build(&[server("a", lists("ui://app/x")), server("b", lists("ui://app/x"))]);
    let uris: Vec<_> = listed(&snapshot, ListKind::Resources)["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["uri"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        uris,
        ["bowline://a/file:///a", "ui://bowline.a/app/x", "bowline://b/file:///a", "ui://bowline.b/app/x"]
    );
    let templates = listed(&snapshot, ListKind::Templates);
    assert_eq!(templates["resourceTemplates"][1]["uriTemplate"], "bowline://b/db://{id}");
    let tool = &listed(&snapshot, ListKind::Tools)["tools"][1];
    assert_eq!(
        tool["_meta"],
        json!({"ui": {"resourceUri": "ui://bowline.b/app/x", "x": 1}, "ui/resourceUri": "ui://bowline.b/app/x"})
    );
    let target = snapshot.resource("bowline://b/db://7").unwrap();
    assert_eq!((&*target.server, &*target.name), ("b", "db://7"));
    assert_eq!(snapshot.resource("bowline://nobody/db://7"), None);
    assert_eq!(snapshot.resource("file:///a"), None);
    assert_eq!(snapshot.exposed_uri("a", "file:///a").unwrap(), "bowline://a/file:///a");
    // A link to what no server lists, below a template that both have.
    assert_eq!(snapshot.exposed_uri("b", "db://8").unwrap(), "bowline://b/db://8");
    assert_eq!(snapshot.exposed_uri("b", "other://8"), None);
}

/// A server cannot stand in for another by listing a URI of the form that the gateway makes.
#[test]
fn uris_that_look_qualified_are_qualified() {
    let shared =
        ServerLists { resources: items(json!([{"uri": "x://1", "name": "real"}])), ..ServerLists::default() };
    let evil = ServerLists {
        resources: items(
            json!([{"uri": "x://1", "name": "e"}, {"uri": "bowline://one/x://1", "name": "fake"}]),
        ),
        ..ServerLists::default()
    };
    let snapshot = build(&[server("evil", evil), server("one", shared)]);
    let listed = listed(&snapshot, ListKind::Resources);
    let real =
        listed["resources"].as_array().unwrap().iter().find(|item| item["uri"] == "bowline://one/x://1");
    assert_eq!(real.unwrap()["name"], "real");
    let target = snapshot.resource("bowline://evil/bowline://one/x://1").unwrap();
    assert_eq!((&*target.server, &*target.name), ("evil", "bowline://one/x://1"));
}

#[test]
fn unique_uris_stay_as_they_are() {
    let lists = ServerLists {
        resources: items(json!([{"uri": "file:///a", "name": "a"}])),
        ..ServerLists::default()
    };
    let snapshot = build(&[server("a", lists), server("b", ServerLists::default())]);
    assert_eq!(snapshot.resource("file:///a"), Some(Target { server: "a".into(), name: "file:///a".into() }));
    assert_eq!(snapshot.resource("bowline://a/file:///a"), None);
    assert!(!snapshot.has_qualified_uris("a"));
}

#[test]
fn unlisted_resources_are_looked_for_where_they_may_be() {
    let templates = ServerLists {
        templates: items(json!([{"uriTemplate": "db://rows/{id}", "name": "t"}])),
        ..ServerLists::default()
    };
    let listing =
        ServerLists { resources: items(json!([{"uri": "DB://x", "name": "x"}])), ..ServerLists::default() };
    let other =
        ServerLists { resources: items(json!([{"uri": "web://x", "name": "x"}])), ..ServerLists::default() };
    let snapshot = build(&[
        server("a", listing),
        server("b", ServerLists::default()),
        server("c", templates),
        server("d", other),
    ]);
    let likely = |uri| snapshot.likely_servers(uri).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(likely("db://rows/7"), ["c", "a", "b"]);
    assert_eq!(likely("db://other"), ["a", "c", "b"]);
    assert_eq!(likely("file:///x"), ["b"]);
}

#[test]
fn instructions_are_labeled_and_bounded() {
    let saying = |text: String| ServerLists { instructions: Some(text), ..ServerLists::default() };
    let snapshot = build(&[server("a", saying("Be brief.".into())), server("b", saying("  ".into()))]);
    assert_eq!(snapshot.instructions(), Some("# Server `a`\nBe brief."));
    let many: Vec<_> = (0..20).map(|at| server(&format!("s{at}"), saying("é".repeat(5_000)))).collect();
    let merged = build(&many).instructions().unwrap().to_owned();
    assert!(merged.len() <= MAX_INSTRUCTIONS && merged.starts_with("# Server `s0`\né"), "{}", merged.len());
    assert!(merged.contains("é\n[cut]"));
    assert_eq!(build(&[]).instructions(), None);
}

#[test]
fn elements_without_a_name_or_listed_twice_are_dropped() {
    let lists = ServerLists {
        tools: items(json!([{"name": "x"}, {"title": "none"}, {"name": "x", "again": true}, {"name": 7}])),
        ..ServerLists::default()
    };
    assert_eq!(listed(&build(&[server("a", lists)]), ListKind::Tools), json!({"tools": [{"name": "x"}]}));
}

fn tool_names(snapshot: &Snapshot) -> Vec<String> {
    let listed = listed(snapshot, ListKind::Tools);
    listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn tools_that_are_not_exposed_cannot_be_found() {
    let exposure = with!(Exposure::default(),
        enabled_tools: Some(vec![ToolPattern::new("read_*")]),
        disabled_tools: vec![ToolPattern::new("*_secret")]
    );
    let lists = tools(&["read_file", "read_secret", "delete"]);
    let snapshot = build(&[exposed("a", lists, &exposure), server("b", tools(&["delete"]))]);
    assert_eq!(tool_names(&snapshot), ["read_file", "delete"]);
    let target = snapshot.named(ListKind::Tools, "delete").unwrap();
    assert_eq!(&*target.server, "b", "what is not exposed takes no name either");
    assert_eq!(snapshot.named(ListKind::Tools, "read_secret"), None);
}

#[test]
fn tools_are_renamed_and_described_anew() {
    let exposure = with!(Exposure::default(),
        tool_names: [("x".into(), "search".into()), ("y".into(), "z".into())].into(),
        tool_descriptions: [("x".into(), "Finds things.".into())].into()
    );
    let snapshot = build(&[exposed("a", tools(&["x", "y", "z"]), &exposure)]);
    // A name that another tool has is not taken from it.
    assert_eq!(tool_names(&snapshot), ["search", "y", "z"]);
    let found = snapshot.named(ListKind::Tools, "search").unwrap();
    assert_eq!((&*found.server, &*found.name), ("a", "x"));
    assert_eq!(snapshot.named(ListKind::Tools, "x"), None);
    assert_eq!(&*snapshot.named(ListKind::Tools, "z").unwrap().name, "z");
    assert_eq!(listed(&snapshot, ListKind::Tools)["tools"][0]["description"], "Finds things.");
    assert_eq!(snapshot.names_of(ListKind::Tools, "x"), ["search"]);
    // Two servers with the same name for a tool, one of them a new one.
    let both = build(&[exposed("a", tools(&["x"]), &exposure), server("b", tools(&["search"]))]);
    assert_eq!(tool_names(&both), ["a__search", "b__search"]);
    assert_eq!(&*both.named(ListKind::Tools, "a__search").unwrap().name, "x");
}

#[test]
fn prompts_and_resources_that_are_not_exposed_cannot_be_found() {
    let lists = ServerLists {
        prompts: items(json!([{"name": "p"}])),
        resources: items(json!([{"uri": "x://a"}])),
        templates: items(json!([{"uriTemplate": "x://{y}"}])),
        ..tools(&["t"])
    };
    let hidden = with!(Exposure::default(), prompts: false, resources: false);
    let snapshot = build(&[exposed("a", lists, &hidden), server("b", tools(&["u"]))]);
    assert_eq!(tool_names(&snapshot), ["t", "u"]);
    assert_eq!(snapshot.named(ListKind::Prompts, "p"), None);
    assert_eq!(snapshot.resource("x://a"), None);
    assert_eq!(snapshot.resource("bowline://a/x://a"), None);
    let likely: Vec<_> = snapshot.likely_servers("x://a").iter().map(ToString::to_string).collect();
    assert_eq!(likely, ["b"], "the other server may have it");
}

/// Names and URIs are the same in every view, and nothing of a hidden server is found.
#[test]
fn a_view_shows_a_part_under_the_same_names() {
    let lists = |own: &str| ServerLists {
        instructions: Some(format!("Of {own}.")),
        prompts: items(json!([{"name": "ask"}, {"name": format!("ask_{own}")}])),
        resources: items(json!([{"uri": "x://same"}, {"uri": format!("{own}://a")}])),
        templates: items(json!([{"uriTemplate": format!("{own}://rows/{{id}}")}])),
        ..tools(&["search", &format!("get_{own}")])
    };
    let servers = [server("a", lists("a")), server("b", lists("b")), server("c", tools(&["idle"]))];
    let only_b = with!(View::default(), servers: Some(["b".to_owned()].into()));
    let (all, of_b) = (build(&servers), build_view(&servers, &only_b));
    for kind in ListKind::ALL {
        let [whole, part] = [&all, &of_b].map(|snapshot| listed(snapshot, kind));
        let (list, whole) = whole.as_object().unwrap().iter().next().unwrap();
        let shown = part[list].as_array().unwrap();
        assert!(!shown.is_empty() && shown.len() < whole.as_array().unwrap().len());
        assert!(shown.iter().all(|item| whole.as_array().unwrap().contains(item)), "{shown:?}");
    }
    assert_eq!(of_b.instructions(), Some("# Server `b`\nOf b."));
    assert!(of_b.named(ListKind::Tools, "b__search").is_some());
    assert_eq!(of_b.named(ListKind::Tools, "a__search"), None);
    assert_eq!(of_b.names_of(ListKind::Tools, "search"), ["b__search"]);
    assert!(of_b.resource("bowline://b/x://same").is_some());
    for hidden in ["a://a", "bowline://a/x://same", "bowline://a/x://other"] {
        assert_eq!(of_b.resource(hidden), None, "{hidden}");
    }
    // The likeliest of all would be `a`, and then `c`, which lists none.
    assert_eq!(all.likely_servers("a://rows/1"), ["a", "c"].map(Arc::<str>::from));
    assert!(of_b.likely_servers("a://rows/1").is_empty());
    let nothing = build_view(&servers, &View::nothing());
    assert!(nothing.likely_servers("b://rows/1").is_empty() && nothing.instructions().is_none());
}

/// The names that the view is about are those that the configuration gives to tools.
#[test]
fn a_view_selects_tools_by_their_exposed_names() {
    let renaming = [("read_text_file".to_owned(), "read".to_owned())].into();
    let files = exposed(
        "files",
        tools(&["read_text_file", "write"]),
        &with!(Exposure::default(), tool_names: renaming),
    );
    let patterns = |name: &str| [("files".to_owned(), vec![ToolPattern::new(name)])].into();
    let shown = build_view(&[files], &with!(View::default(), tools: patterns("read")));
    assert_eq!(shown.named(ListKind::Tools, "read").map(|target| &*target.name), Some("read_text_file"));
    assert_eq!(shown.named(ListKind::Tools, "write"), None);
}

#[test]
fn a_view_without_resources_finds_none() {
    let lists = || ServerLists { resources: items(json!([{"uri": "x://same"}])), ..tools(&["a"]) };
    let servers = [server("a", lists()), server("b", lists()), server("c", tools(&["c"]))];
    let snapshot = build_view(&servers, &with!(View::default(), resources: false));
    assert_eq!(listed(&snapshot, ListKind::Resources), json!({"resources": []}));
    for uri in ["x://same", "bowline://a/x://same", "bowline://a/x://other"] {
        assert_eq!(snapshot.resource(uri), None, "{uri}");
        assert!(snapshot.likely_servers(uri).is_empty(), "{uri}");
    }
    // Links in results are told apart as in every view.
    assert_eq!(snapshot.exposed_uri("a", "x://same").as_deref(), Some("bowline://a/x://same"));
}

#[test]
fn a_server_that_is_not_changed_keeps_names_uris_and_instructions() {
    let names = ["b.c", "b__c", "x_0badcafe", "é"];
    let lists = ServerLists {
        instructions: Some(" As it is.\n".into()),
        resources: items(json!([{"uri": "bowline://b/x://1"}])),
        ..tools(&names)
    };
    let mut owners = NameOwners::default();
    let naming = (Naming::Unchanged, &mut owners);
    let snapshot = Snapshot::build(&[server("b", lists)], &["b"], naming, &View::default());
    assert_eq!(owners.len(), 0, "names of other gateways are not taken");
    let listed = listed(&snapshot, ListKind::Tools);
    let listed = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone());
    assert_eq!(listed.collect::<Vec<_>>(), names);
    assert_eq!(snapshot.instructions(), Some(" As it is.\n"));
    for uri in ["bowline://b/x://1", "unlisted://x"] {
        assert_eq!(snapshot.resource(uri), Some(Target { server: "b".into(), name: uri.into() }));
    }
    assert!(!snapshot.has_qualified_uris("b"));
}
