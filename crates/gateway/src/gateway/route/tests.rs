use serde_json::{Value, json};

use super::*;
use crate::catalog::{Catalog, Naming};

fn encode(value: &Value) -> Json {
    Json::encode(value).unwrap()
}

/// Two servers: both have a tool `search`, each has a prompt and a resource of its own.
fn snapshot() -> Arc<Snapshot> {
    Catalog::with_lists(
        &[
            ("a", json!({"tools": [{"name": "search"}, {"name": "a.read"}], "prompts": [{"name": "p"}],
                "resources": [{"uri": "file:///a"}, {"uri": "x://1"}], "templates": [{"uriTemplate": "t://{id}"}]})),
            ("b", json!({"tools": [{"name": "search"}], "prompts": [{"name": "q"}],
                "resources": [{"uri": "file:///b"}, {"uri": "x://1"}], "templates": []})),
        ],
        Naming::default(),
    )
    .snapshot()
}

fn forwarded(method: &str, params: Value) -> (String, Value) {
    match route(&snapshot(), method, Some(encode(&params))) {
        Route::Forward { server, params } => (server.to_string(), params.unwrap().decode().unwrap()),
        other => panic!("{method} {params}: {other:?}"),
    }
}

fn refused(method: &str, params: Value) -> (i64, String) {
    match route(&snapshot(), method, Some(encode(&params))) {
        Route::Refuse(error) | Route::NotFound { error, .. } => (error.code, error.message),
        other => panic!("{method} {params}: {other:?}"),
    }
}

/// GW-14: names and URIs are those of the server on its side.
#[test]
fn gw_14_names_are_rewritten_on_the_way() {
    let args = json!({"q": 1});
    assert_eq!(
        forwarded("tools/call", json!({"name": "b__search", "arguments": args, "_meta": {"x": 1}})),
        ("b".into(), json!({"name": "search", "arguments": args, "_meta": {"x": 1}}))
    );
    assert_eq!(forwarded("tools/call", json!({"name": "a_read"})), ("a".into(), json!({"name": "a.read"})));
    assert_eq!(forwarded("prompts/get", json!({"name": "q"})), ("b".into(), json!({"name": "q"})));
    assert_eq!(
        forwarded("resources/read", json!({"uri": "bowline://b/x://1"})),
        ("b".into(), json!({"uri": "x://1"}))
    );
    assert_eq!(
        forwarded(
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": "t://{id}"}, "argument": {}})
        ),
        ("a".into(), json!({"ref": {"type": "ref/resource", "uri": "t://{id}"}, "argument": {}}))
    );
    assert_eq!(
        forwarded("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "p"}})),
        ("a".into(), json!({"ref": {"type": "ref/prompt", "name": "p"}}))
    );
}

#[test]
fn params_without_another_name_pass_byte_for_byte() {
    let params = Json::parse(r#"{ "arguments":{"n":1.0} ,"name":"p" }"#).unwrap();
    let Route::Forward { params: Some(passed), .. } = route(&snapshot(), "prompts/get", Some(params.clone()))
    else {
        panic!("not forwarded")
    };
    assert_eq!(passed.as_str(), params.as_str());
}

#[test]
fn unknown_names_are_refused_with_what_they_are_called_now() {
    assert_eq!(
        refused("tools/call", json!({"name": "search"})),
        (-32602, "Unknown tool: search; it is now called a__search or b__search".into())
    );
    assert_eq!(refused("tools/call", json!({"name": "no"})), (-32602, "Unknown tool: no".into()));
    assert_eq!(refused("prompts/get", json!({})), (-32602, "params need name".into()));
    assert_eq!(refused("resources/subscribe", json!({"uri": "no://"})).0, -32602);
    assert_eq!(refused("tools/list", json!({"cursor": "x"})).0, -32602);
}

#[test]
fn other_requests() {
    let routed = |method: &str, params: Value| route(&snapshot(), method, Some(encode(&params)));
    assert_eq!(routed("tools/list", json!({"cursor": null})), Route::List(ListKind::Tools));
    assert_eq!(routed("resources/read", json!({"uri": "t://7"})), Route::Search { uri: "t://7".into() });
    let target = Target { server: "a".into(), name: "file:///a".into() };
    assert_eq!(routed("resources/subscribe", json!({"uri": "file:///a"})), Route::Subscribe(target));
    assert_eq!(routed("resources/unsubscribe", json!({"uri": "y"})), Route::Unsubscribe { uri: "y".into() });
    assert_eq!(routed("com.example/do", json!({})), Route::Unknown);
}

/// GW-14: the only server of a gateway that changes nothing gets everything as it is, apart from lists that it has.
#[test]
fn gw_14_everything_passes_to_a_server_that_is_not_changed() {
    let lists = json!({"capabilities": {"tools": {}}, "tools": [{"name": "a.read"}], "prompts": [],
        "resources": [], "templates": []});
    let snapshot = Catalog::with_lists(&[("a", lists)], Naming::Unchanged).snapshot();
    assert_eq!(route(&snapshot, "tools/list", None), Route::List(ListKind::Tools));
    let params = encode(&json!({"name": "no.such", "cursor": "c", "uri": "bowline://b/x"}));
    for method in [
        "tools/call",
        "prompts/get",
        "resources/read",
        "completion/complete",
        "x/y",
        "tools/list",
        "prompts/list",
    ] {
        let forwarded = Route::Forward { server: "a".into(), params: Some(params.clone()) };
        assert_eq!(route(&snapshot, method, Some(params.clone())), forwarded, "{method}");
    }
    // A list that the server does not declare is its own to refuse.
    assert_eq!(route(&snapshot, "prompts/list", None), Route::Forward { server: "a".into(), params: None });
}
