//! Tests of subscriptions: what is granted, tagged and sent.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::revision::Revision;
use crate::server::handshake::implementation;
use crate::wire::view::{SubscriptionAcknowledgment, subscription_id};
use crate::wire::{Message, parse_one};

fn json(value: &Value) -> Json {
    Json::encode(value).unwrap()
}

fn capabilities(value: &Value) -> Capabilities {
    Capabilities::decode(&json(value)).unwrap()
}

fn everything() -> Capabilities {
    capabilities(&json!({
        "tools": {"listChanged": true},
        "prompts": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    }))
}

/// A request whose host declares these extensions.
fn request(extensions: &Value) -> ModernRequest {
    let params = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions},
    }});
    ModernRequest::parse(Some(&json(&params)), &[Revision::V2026_07_28]).unwrap()
}

fn parse(notifications: &Value) -> Result<ListenFilter, Refusal> {
    let params = json(&json!({ "notifications": notifications }));
    ListenFilter::parse(Some(&params), &request(&json!({"io.modelcontextprotocol/tasks": {}})))
}

fn text(frame: &Frame) -> String {
    String::from_utf8(frame.body().to_vec()).unwrap()
}

fn all_requested() -> Value {
    json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["file:///a"], "taskIds": ["t"],
    })
}

// GW-08
#[test]
fn acknowledgment_names_what_is_requested_and_offered() {
    for (requested, offered, granted) in [
        (
            all_requested(),
            everything(),
            r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["file:///a"],"taskIds":["t"]}"#,
        ),
        (all_requested(), capabilities(&json!({})), "{}"),
        (
            all_requested(),
            capabilities(
                &json!({"tools": {}, "prompts": {"listChanged": true}, "resources": {"subscribe": true}}),
            ),
            r#"{"promptsListChanged":true,"resourceSubscriptions":["file:///a"]}"#,
        ),
        (
            all_requested(),
            capabilities(&json!({"resources": {"listChanged": true}})),
            r#"{"resourcesListChanged":true}"#,
        ),
        (json!({"toolsListChanged": true}), everything(), r#"{"toolsListChanged":true}"#),
        (json!({"toolsListChanged": false, "x": 1, "taskIds": null}), everything(), "{}"),
    ] {
        let filter = parse(&requested).unwrap().limit_to(&offered);
        let (_, acknowledgment) = ListenStream::open(&Id::Int(9), filter);
        assert_eq!(
            text(&acknowledgment),
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":{granted},"_meta":{{"io.modelcontextprotocol/subscriptionId":9}}}}}}"#
            )
        );
    }
}

#[test]
fn invalid_filters_are_refused() {
    // GW-08
    for invalid in [
        json!(null),
        json!([]),
        json!({"toolsListChanged": "true"}),
        json!({"resourceSubscriptions": "file:///a"}),
        json!({"resourceSubscriptions": [7]}),
        json!({"taskIds": {}}),
        json!({"taskIds": (0..=MAX_LISTEN_ITEMS).map(|n| n.to_string()).collect::<Vec<_>>()}),
    ] {
        assert_eq!(parse(&invalid).unwrap_err().error.code, -32602, "{invalid}");
    }
    let refusal = ListenFilter::parse(None, &request(&json!({}))).unwrap_err();
    assert_eq!(refusal.error.code, -32602);
}

#[test]
fn tasks_require_their_extension() {
    // TN-08
    let params = json(&json!({"notifications": {"taskIds": ["t"]}}));
    let refusal = ListenFilter::parse(Some(&params), &request(&json!({}))).unwrap_err();
    assert_eq!((refusal.status, refusal.error.code), (400, -32021));
    assert_eq!(
        refusal.error.data.unwrap().as_str(),
        r#"{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#
    );
    let none = json(&json!({"notifications": {"taskIds": []}}));
    assert!(ListenFilter::parse(Some(&none), &request(&json!({}))).is_ok());
}

// GW-08
#[test]
fn notifications_are_tagged_and_otherwise_unchanged() {
    let filter = parse(&all_requested()).unwrap();
    let (stream, _) = ListenStream::open(&Id::from_string("s"), filter);
    let tagged = |method: &str, params: Option<&str>| {
        let params = params.map(|params| Json::try_from(params).unwrap());
        stream.tag_notification(method, params.as_ref()).map(|frame| text(&frame))
    };
    let tag = r#""io.modelcontextprotocol/subscriptionId":"s""#;
    assert_eq!(
        tagged("notifications/tools/list_changed", None).unwrap(),
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{{tag}}}}}}}"#
        )
    );
    assert_eq!(
        tagged(
            "notifications/resources/updated",
            Some(r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7,"a/b":1.0},"uri":"file:///a"}"#)
        )
        .unwrap(),
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"_meta":{{{tag},"a/b":1.0}},"uri":"file:///a"}}}}"#
        )
    );
    for (method, params, is_sent) in [
        ("notifications/resources/updated", r#"{"uri":"file:///a/b/c"}"#, true),
        ("notifications/resources/updated", r#"{"uri":"file:///ab"}"#, false),
        ("notifications/resources/updated", r#"{"uri":"file:///"}"#, false),
        ("notifications/resources/updated", "{}", false),
        ("notifications/tasks", r#"{"taskId":"t","status":"working"}"#, true),
        ("notifications/tasks", r#"{"taskId":"u","status":"working"}"#, false),
        ("notifications/tasks", "[]", false),
        ("notifications/tasks/status", r#"{"taskId":"t"}"#, false),
        ("notifications/progress", r#"{"progressToken":1}"#, false),
        ("notifications/message", r#"{"level":"error"}"#, false),
        ("notifications/cancelled", r#"{"requestId":1}"#, false),
    ] {
        assert_eq!(tagged(method, Some(params)).is_some(), is_sent, "{method} {params}");
    }
}

#[test]
fn resources_below_a_directory_are_included() {
    let filter = parse(&json!({"resourceSubscriptions": ["file:///d/"]})).unwrap();
    assert!(filter.includes_resource("file:///d/x"));
    assert!(filter.includes_resource("file:///d/"));
    assert!(!filter.includes_resource("file:///d"));
}

// GW-08, SB-04
#[test]
fn end_is_a_result_and_on_a_pipe_a_cancellation() {
    let (mut stream, _) = ListenStream::open(&Id::Int(9), parse(&all_requested()).unwrap());
    let end = stream.end(&implementation("g", "1")).unwrap();
    assert_eq!(
        text(&end.result),
        r#"{"jsonrpc":"2.0","id":9,"result":{"_meta":{"io.modelcontextprotocol/subscriptionId":9,"io.modelcontextprotocol/serverInfo":{"name":"g","version":"1"}},"resultType":"complete"}}"#
    );
    assert_eq!(
        text(&end.cancellation),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9,"_meta":{"io.modelcontextprotocol/subscriptionId":9}}}"#
    );
    assert_eq!(stream.end(&implementation("g", "1")), None);
    assert_eq!(stream.granted(), None);
}

#[test]
fn closed_stream_says_nothing_more() {
    // GW-09
    let (mut stream, _) = ListenStream::open(&Id::Int(9), parse(&all_requested()).unwrap());
    stream.close();
    assert_eq!(stream.tag_notification("notifications/tools/list_changed", None), None);
    assert_eq!(stream.end(&implementation("g", "1")), None);
}

/// What happens to a stream.
#[derive(Clone, Debug)]
enum Step {
    Notify(&'static str, Value),
    End,
    Close,
}

fn any_step() -> impl Strategy<Value = Step> {
    let uri = proptest::sample::select(&["a:/x", "a:/x/y", "a:/z"][..]);
    prop_oneof![
        4 => proptest::sample::select(&[
            "notifications/tools/list_changed",
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
            "notifications/message",
        ][..]).prop_map(|method| Step::Notify(method, json!({}))),
        4 => uri.prop_map(|uri| Step::Notify("notifications/resources/updated", json!({ "uri": uri }))),
        2 => "[ab]".prop_map(|id| Step::Notify("notifications/tasks", json!({ "taskId": id }))),
        1 => Just(Step::End),
        1 => Just(Step::Close),
    ]
}

proptest! {
    // GW-08: the acknowledgment comes first, every message has the tag, nothing comes that was
    /// not requested and offered, and nothing after the end.
    #[test]
    fn nothing_unrequested_is_sent(
        requested: [bool; 5],
        offered: [bool; 5],
        id in prop_oneof![any::<i64>().prop_map(Id::Int), "\\PC{0,8}".prop_map(|id| Id::from_string(&id))],
        steps in proptest::collection::vec(any_step(), 0..30),
    ) {
        let some = |is_wanted: bool, list: &[&str]| if is_wanted { json!(list) } else { json!([]) };
        let filter = parse(&json!({
            "toolsListChanged": requested[0],
            "promptsListChanged": requested[1],
            "resourcesListChanged": requested[2],
            "resourceSubscriptions": some(requested[3], &["a:/x"]),
            "taskIds": some(requested[4], &["a"]),
        })).unwrap();
        let mut extensions = json!({});
        if offered[4] {
            extensions["io.modelcontextprotocol/tasks"] = json!({});
        }
        let offer = capabilities(&json!({
            "tools": {"listChanged": offered[0]},
            "prompts": {"listChanged": offered[1]},
            "resources": {"listChanged": offered[2], "subscribe": offered[3]},
            "extensions": extensions,
        }));
        let granted: Vec<bool> = requested.iter().zip(offered).map(|(left, right)| *left && right).collect();
        let (mut stream, acknowledgment) = ListenStream::open(&id, filter.limit_to(&offer));
        let mut sent = vec![acknowledgment];
        let mut is_open = true;
        for step in steps {
            match step {
                Step::Notify(method, params) => {
                    let is_granted = match method {
                        "notifications/tools/list_changed" => granted[0],
                        "notifications/prompts/list_changed" => granted[1],
                        "notifications/resources/list_changed" => granted[2],
                        "notifications/resources/updated" => granted[3] && params["uri"] != "a:/z",
                        "notifications/tasks" => granted[4] && params["taskId"] == "a",
                        _ => false,
                    };
                    let frame = stream.tag_notification(method, Some(&json(&params)));
                    prop_assert_eq!(frame.is_some(), is_open && is_granted);
                    sent.extend(frame);
                }
                Step::End => {
                    let end = stream.end(&implementation("g", "1"));
                    prop_assert_eq!(end.is_some(), is_open);
                    is_open = false;
                    if let Some(end) = end {
                        let Ok(Message::Result { id: answered, result }) = parse_one(&end.result.body()) else {
                            panic!("{:?}", end.result);
                        };
                        prop_assert_eq!((Some(answered), subscription_id(&result)), (Some(id.clone()), Some(id.clone())));
                    }
                }
                Step::Close => {
                    stream.close();
                    is_open = false;
                }
            }
        }
        for (at, frame) in sent.iter().enumerate() {
            let Ok(Message::Notification { method, params: Some(params) }) = parse_one(&frame.body()) else {
                panic!("{frame:?}");
            };
            prop_assert_eq!(subscription_id(&params), Some(id.clone()));
            prop_assert_eq!(&*method == "notifications/subscriptions/acknowledged", at == 0);
            if at == 0 {
                let read = SubscriptionAcknowledgment::decode(&params).unwrap();
                let read =
                    [read.tools, read.prompts, read.resources, !read.resource_uris.is_empty(), !read.task_ids.is_empty()];
                prop_assert_eq!(&read[..], &granted[..]);
            }
        }
    }
}
