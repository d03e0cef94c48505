//! Whatever a host or a server sends, the modern half answers, and answers with valid JSON.

use proptest::prelude::*;
use proptest::sample::select;

use crate::revision::Revision;
use crate::server::handshake::implementation;
use crate::server::modern::input::{InputRetry, input_required, question_from_request};
use crate::server::modern::listen::{ListenFilter, ListenStream};
use crate::server::modern::request::ModernRequest;
use crate::server::modern::request_state::{Mac, SealedState, StateBinding, TAG_LEN};
use crate::server::modern::{discover, era, headers, legacy_results, results};
use crate::wire::mirror::HeaderAnnotations;
use crate::wire::view::Capabilities;
use crate::wire::{Id, Json, Message};

/// Names that the code looks for, and some that it does not.
const NAMES: [&str; 28] = [
    "_meta",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/logLevel",
    "progressToken",
    "name",
    "uri",
    "arguments",
    "properties",
    "x-mcp-header",
    "type",
    "notifications",
    "toolsListChanged",
    "resourceSubscriptions",
    "taskIds",
    "requestState",
    "inputResponses",
    "resultType",
    "ttlMs",
    "cacheScope",
    "tools",
    "outputSchema",
    "structuredContent",
    "content",
    "elicitation",
    "k",
    "\\ud800",
];

const METHODS: [&str; 9] = [
    "tools/call",
    "tools/list",
    "resources/read",
    "server/discover",
    "subscriptions/listen",
    "elicitation/create",
    "sampling/createMessage",
    "notifications/resources/updated",
    "x",
];

fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        select(&["null", "true", "false", "0", "-1", "42.0", "1e400", "9007199254740993", "{}", "[]"][..])
            .prop_map(str::to_owned),
        select(
            &[
                "2026-07-28",
                "complete",
                "input_required",
                "task",
                "form",
                "string",
                "t",
                "\\ud800",
                "\\u0000"
            ][..]
        )
        .prop_map(|text| format!("\"{text}\"")),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        let member = (select(&NAMES[..]), inner.clone()).prop_map(|(name, value)| format!("\"{name}\": {value}"));
        prop_oneof![
            4 => prop::collection::vec(member, 0..6).prop_map(|members| format!("{{{}}}", members.join(" ,"))),
            1 => prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
        ]
    })
}

/// Params whose `_meta` may be valid.
fn any_params() -> impl Strategy<Value = Json> {
    (any_json(), any::<bool>()).prop_map(|(text, is_valid)| {
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{}}}"#;
        let text = match text.strip_prefix('{') {
            Some("}") if is_valid => format!("{{{meta}}}"),
            Some(rest) if is_valid => format!("{{{meta},{rest}"),
            _ => text,
        };
        Json::parse(text).unwrap()
    })
}

struct NoMac;

impl Mac for NoMac {
    fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_LEN] {
        [u8::try_from(parts.concat().len() % 251).unwrap(); TAG_LEN]
    }
}

/// Checks that a value which was assembled is valid JSON.
fn assert_valid(json: &Json) {
    assert_eq!(Json::parse(json.clone().into_bytes()).as_ref().ok(), Some(json));
}

proptest! {
    #[test]
    fn no_request_is_too_odd(params in any_params(), other in any_json(), method in select(&METHODS[..])) {
        let other = Json::parse(other).unwrap();
        let request = Message::Request { id: Id::Int(1), method: method.into(), params: Some(params.clone()) };
        era::message_era(&request, Some("2026-07-28"));
        let binding = StateBinding { principal: "p", node: "n", method, params: Some(&params) };
        let state = SealedState { expires_at: 9, nonce: [0; 16], payload: Vec::new() };
        let text = state.seal(&binding, &NoMac).unwrap();
        prop_assert_eq!(SealedState::open(&text, &binding, 0, &NoMac), Ok(state));
        let question = question_from_request(method, Some(&other));
        if let Ok(Some(retry)) = InputRetry::parse(Some(&params)) {
            let _ = retry.answers(&vec![("k".into(), question.clone())]);
        }
        match ModernRequest::parse(Some(&params), &Revision::ALL) {
            Err(refusal) => prop_assert_eq!(refusal.status, 400),
            Ok(request) => {
                let annotations = HeaderAnnotations::from_schema(&other).ok();
                let mirrored = headers::MirroredRequest {
                    request: &request,
                    method,
                    params: Some(&params),
                    annotations: annotations.as_ref(),
                };
                let _ = headers::check_headers([("Mcp-Method", method.as_bytes())], &mirrored);
                if let Ok(result) = input_required(&vec![("k".into(), question)], None, &request.client_capabilities) {
                    assert_valid(&result);
                }
                if let Ok(filter) = ListenFilter::parse(Some(&params), &request) {
                    let (stream, _) = ListenStream::open(&Id::from_string("a"), filter);
                    let _ = stream.tag_notification(method, Some(&other));
                }
                request.accepts_notification(method, Some(&other));
            }
        }
    }

    #[test]
    fn no_result_is_too_odd(result in any_json(), method in select(&METHODS[..])) {
        let result = Json::parse(result).unwrap();
        let info = implementation("g", "1");
        let completed = results::complete_result(method, &result, &info);
        prop_assert_eq!(completed.is_ok(), result.is_object());
        if let Ok(completed) = &completed {
            assert_valid(completed);
            let again = results::complete_result(method, completed, &info).unwrap();
            prop_assert_eq!(&again, completed);
        }
        if let Ok(reduced) = legacy_results::result_for_legacy_host(method, &result) {
            assert_valid(&reduced);
            let again = legacy_results::result_for_legacy_host(method, &reduced).unwrap();
            prop_assert_eq!(again, reduced);
        }
        let capabilities = discover::capabilities_for_modern_host(&result);
        prop_assert!(Capabilities::decode(&capabilities).is_ok());
    }
}
