//! Results for modern hosts: their type, their cache hints and the identity of the server.

use super::methods::is_cacheable;
use crate::wire::object::{Edit, NotAnObject};
use crate::wire::view::{CacheHint, CacheScope};
use crate::wire::{Json, RpcError, code, meta};

/// Completes the result of a server of either era for a modern host: adds `resultType`, and
/// `ttlMs` and `cacheScope` where the method has them, and sets the identity of the server.
///
/// A valid hint of the server stays. Without one the result is stale at once and private. All other
/// members keep their text.
// GW-06
pub fn complete_result(method: &str, result: &Json, server_info: &Json) -> Result<Json, NotAnObject> {
    let [meta, kind, ttl, scope] = result.members_named(["_meta", "resultType", "ttlMs", "cacheScope"]);
    let meta = set_meta(meta, meta::SERVER_INFO, server_info);
    let kind = kind.filter(|kind| !kind.is_null());
    let mut edit = Edit::new().set("_meta", &meta);
    if kind.is_none() {
        edit = edit.set_str("resultType", "complete");
    }
    // A result that requests input is not cacheable (CA-04).
    if is_cacheable(method) && kind.is_none_or(|kind| is_text(&kind, &["complete"])) {
        if !ttl.is_some_and(|ttl| is_valid_ttl(&ttl)) {
            edit = edit.set_int("ttlMs", 0);
        }
        if !scope.is_some_and(|scope| is_text(&scope, &["public", "private"])) {
            edit = edit.set_str("cacheScope", scope_name(CacheScope::Private));
        }
    }
    edit.apply(Some(result))
}

/// Sets the cache hint of a result, such as that of a merged list.
// GW-06
pub fn set_cache_hint(result: &Json, hint: CacheHint) -> Result<Json, NotAnObject> {
    Edit::new()
        .set_int("ttlMs", hint.ttl_ms)
        .set_str("cacheScope", scope_name(hint.scope))
        .apply(Some(result))
}

/// The hint of a list that is merged from parts with these hints: the shortest lifetime, and
/// public only if all parts are. A list without parts is stale at once and private.
// GW-06
pub fn merge_cache_hints(parts: impl IntoIterator<Item = CacheHint>) -> CacheHint {
    let merge = |left: CacheHint, right: CacheHint| CacheHint {
        ttl_ms: left.ttl_ms.min(right.ttl_ms),
        scope: match (left.scope, right.scope) {
            (CacheScope::Public, CacheScope::Public) => CacheScope::Public,
            _ => CacheScope::Private,
        },
    };
    parts.into_iter().reduce(merge).unwrap_or_default()
}

/// The error of a server of either era, with a code that modern hosts know. `None` for -32042,
/// which has to become a request for input: see [`url_questions`](super::input::url_questions).
// BM-07, GW-16
pub fn error_for_modern_host(error: &RpcError) -> Option<RpcError> {
    match error.code {
        code::URL_ELICITATION_REQUIRED => None,
        code::RESOURCE_NOT_FOUND => Some(RpcError { code: code::INVALID_PARAMS, ..error.clone() }),
        _ => Some(error.clone()),
    }
}

/// Sets one member of a `_meta`, which is replaced if it is no object.
pub(super) fn set_meta(meta: Option<Json>, key: &str, value: &Json) -> Json {
    let meta = meta.filter(Json::is_object);
    Edit::new().set(key, value).apply(meta.as_ref()).expect("checked to be an object")
}

fn scope_name(scope: CacheScope) -> &'static str {
    match scope {
        CacheScope::Private => "private",
        CacheScope::Public => "public",
    }
}

fn is_valid_ttl(ttl: &Json) -> bool {
    ttl.decode::<f64>().is_ok_and(|ttl| ttl >= 0.0 && ttl.fract() == 0.0)
}

/// Whether a value is one of these strings.
fn is_text(value: &Json, expected: &[&str]) -> bool {
    value.decode::<String>().is_ok_and(|text| expected.contains(&&*text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::try_from(text).unwrap()
    }

    fn complete(method: &str, result: &str) -> String {
        let info = json(r#"{"name":"g","version":"1"}"#);
        complete_result(method, &json(result), &info).unwrap().to_string()
    }

    const IDENTITY: &str = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"g","version":"1"}}"#;

    // GW-06
    #[test]
    fn results_get_their_type_their_hints_and_the_identity() {
        assert_eq!(
            complete("tools/call", r#"{"content":[ ], "x": 1.50}"#),
            format!(r#"{{"content":[ ],"x":1.50,{IDENTITY},"resultType":"complete"}}"#)
        );
        for (method, list) in [
            ("tools/list", "tools"),
            ("prompts/list", "prompts"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
            ("resources/read", "contents"),
            ("server/discover", "x"),
        ] {
            assert_eq!(
                complete(method, &format!(r#"{{"{list}":[]}}"#)),
                format!(
                    r#"{{"{list}":[],{IDENTITY},"resultType":"complete","ttlMs":0,"cacheScope":"private"}}"#
                )
            );
        }
        for method in ["prompts/get", "completion/complete", "tasks/update", "com.example/x"] {
            assert_eq!(complete(method, "{}"), format!(r#"{{{IDENTITY},"resultType":"complete"}}"#));
        }
        assert_eq!(complete_result("tools/list", &json("[]"), &json("{}")), Err(NotAnObject));
    }

    // GW-06
    #[test]
    fn valid_members_of_the_server_stay() {
        let given = r#"{"resultType":"complete","ttlMs":5000.0,"cacheScope":"public","tools":[]}"#;
        assert_eq!(complete("tools/list", given), format!("{{{},{IDENTITY}}}", &given[1..given.len() - 1]));
        let task = r#"{"resultType":"task","taskId":"1","ttlMs":null}"#;
        assert_eq!(complete("tools/call", task), format!("{{{},{IDENTITY}}}", &task[1..task.len() - 1]));
        // CA-04
        let asking = r#"{"resultType":"input_required","requestState":"s"}"#;
        assert_eq!(
            complete("resources/read", asking),
            format!("{{{},{IDENTITY}}}", &asking[1..asking.len() - 1])
        );
        // The identity is that of this hop (MT-03), and other keys are kept.
        assert_eq!(
            complete(
                "prompts/get",
                r#"{"_meta":{"a/b":1,"io.modelcontextprotocol/serverInfo":{"name":"u"}},"resultType":null}"#
            ),
            r#"{"_meta":{"a/b":1,"io.modelcontextprotocol/serverInfo":{"name":"g","version":"1"}},"resultType":"complete"}"#
        );
        assert_eq!(
            complete("prompts/get", r#"{"_meta":null}"#),
            format!(r#"{{{IDENTITY},"resultType":"complete"}}"#)
        );
    }

    #[test]
    fn invalid_hints_are_replaced() {
        // CA-01
        for (ttl, scope) in [("-1", r#""Public""#), ("1.5", "null"), (r#""9""#, "7"), ("null", "[]")] {
            let given = format!(r#"{{"ttlMs":{ttl},"cacheScope":{scope},"tools":[]}}"#);
            assert_eq!(
                complete("tools/list", &given),
                format!(
                    r#"{{"ttlMs":0,"cacheScope":"private","tools":[],{IDENTITY},"resultType":"complete"}}"#
                )
            );
        }
    }

    // GW-06
    #[test]
    fn merged_lists_have_the_least_of_their_hints() {
        use CacheScope::{Private, Public};
        let hint = |ttl_ms, scope| CacheHint { ttl_ms, scope };
        for (parts, expected) in [
            (vec![], hint(0, Private)),
            (vec![hint(9, Public)], hint(9, Public)),
            (vec![hint(9, Public), hint(5, Public)], hint(5, Public)),
            (vec![hint(9, Public), hint(10, Private), hint(11, Public)], hint(9, Private)),
        ] {
            assert_eq!(merge_cache_hints(parts), expected);
        }
        let set = set_cache_hint(&json(r#"{"tools":[],"ttlMs":1}"#), hint(5, Public)).unwrap();
        assert_eq!(set.as_str(), r#"{"tools":[],"ttlMs":5,"cacheScope":"public"}"#);
    }

    // BM-07, GW-16
    #[test]
    fn legacy_error_codes_do_not_reach_modern_hosts() {
        let error = |code| RpcError { code, message: "m".into(), data: Some(json(r#"{"uri":"a"}"#)) };
        assert_eq!(error_for_modern_host(&error(-32002)), Some(error(-32602)));
        assert_eq!(error_for_modern_host(&error(-32603)), Some(error(-32603)));
        assert_eq!(error_for_modern_host(&error(-32042)), None);
    }
}
