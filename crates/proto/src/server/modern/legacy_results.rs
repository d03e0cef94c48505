//! Results of modern servers for legacy hosts, without what those hosts do not know.

use std::fmt;

use bytes::Bytes;

use super::methods::is_cacheable;
use crate::wire::object::{Edit, NotAnObject};
use crate::wire::view::{ResultType, result_type};
use crate::wire::{Json, RpcError, code, meta, method, scan};

/// Why a result cannot be given to a legacy host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegacyResultError {
    /// It is no object.
    NotAnObject,
    /// It is not complete: it requests input, it is a task, or its type is unknown.
    Incomplete(ResultType),
}

/// Removes from a complete result what hosts up to 2025-11-25 do not know: `resultType`, the cache
/// hints, the identity of the server in `_meta`, structured content that is no object, and output
/// schemas whose root is not of type `object`. All other members keep their text.
///
/// Structured content that is removed is added to an empty `content` as text, so that it is not
/// lost. Results of servers of any era may be given.
// GW-16
pub fn result_for_legacy_host(method: &str, result: &Json) -> Result<Json, LegacyResultError> {
    if !result.is_object() {
        return Err(LegacyResultError::NotAnObject);
    }
    match result_type(result) {
        ResultType::Complete => {}
        other => return Err(LegacyResultError::Incomplete(other)),
    }
    let meta = legacy_meta(result)?;
    let tools = if method == method::TOOLS_LIST { legacy_tools(result) } else { None };
    let content = if method == method::TOOLS_CALL { legacy_content(result) } else { ContentEdit::Keep };
    let mut edit = Edit::new().remove("resultType");
    if is_cacheable(method) {
        // A task has a `ttlMs` of its own, which stays.
        edit = edit.remove("ttlMs").remove("cacheScope");
    }
    match &meta {
        MetaEdit::Keep => {}
        MetaEdit::Remove => edit = edit.remove("_meta"),
        MetaEdit::Set(meta) => edit = edit.set("_meta", meta),
    }
    if let Some(tools) = &tools {
        edit = edit.set("tools", tools);
    }
    match &content {
        ContentEdit::Keep => {}
        ContentEdit::RemoveStructured => edit = edit.remove("structuredContent"),
        ContentEdit::MoveStructured(content) => {
            edit = edit.remove("structuredContent").set("content", content);
        }
    }
    Ok(edit.apply(Some(result))?)
}

/// The error of a server of either era for a request of a legacy host: -32602 for a resource that
/// does not exist becomes -32002.
///
/// A modern -32602 may also mean something else. It is taken for a missing resource if it has a
/// `uri` in its data.
// GW-16
pub fn error_for_legacy_host(method: &str, error: &RpcError) -> RpcError {
    let names_uri = error.data.as_ref().is_some_and(|data| data.member("uri").is_some());
    let is_not_found = method == method::RESOURCES_READ && error.code == code::INVALID_PARAMS && names_uri;
    let code = if is_not_found { code::RESOURCE_NOT_FOUND } else { error.code };
    RpcError { code, ..error.clone() }
}

impl fmt::Display for LegacyResultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAnObject => "the result is not an object",
            Self::Incomplete(ResultType::InputRequired) => "the result requires input",
            Self::Incomplete(ResultType::Task) => "the result is a task",
            Self::Incomplete(_) => "the type of the result is unknown",
        })
    }
}

impl std::error::Error for LegacyResultError {}

impl From<NotAnObject> for LegacyResultError {
    fn from(_: NotAnObject) -> Self {
        Self::NotAnObject
    }
}

/// What becomes of `_meta`.
enum MetaEdit {
    Keep,
    Remove,
    Set(Json),
}

/// Removes the identity of the server, and `_meta` if nothing else is in it.
fn legacy_meta(result: &Json) -> Result<MetaEdit, NotAnObject> {
    let meta = result.member("_meta").filter(|meta| meta.member(meta::SERVER_INFO).is_some());
    let Some(meta) = meta else { return Ok(MetaEdit::Keep) };
    let meta = Edit::new().remove(meta::SERVER_INFO).apply(Some(&meta))?;
    Ok(if meta == Json::empty_object() { MetaEdit::Remove } else { MetaEdit::Set(meta) })
}

/// The list of tools without output schemas that legacy hosts do not know. `None` if it may stay.
fn legacy_tools(result: &Json) -> Option<Json> {
    let tools = result.member("tools")?;
    let mut is_changed = false;
    let mut list = vec![b'['];
    for tool in scan::elements(tools.as_bytes())? {
        if list.len() > 1 {
            list.push(b',');
        }
        let tool = tools.slice(tool);
        let schema = tool.member("outputSchema").filter(|schema| !has_object_root(schema));
        let edited = schema.and_then(|_| Edit::new().remove("outputSchema").apply(Some(&tool)).ok());
        is_changed |= edited.is_some();
        list.extend_from_slice(edited.as_ref().unwrap_or(&tool).as_bytes());
    }
    list.push(b']');
    // Valid elements make a valid list.
    is_changed.then(|| Json::from_trusted(Bytes::from(list)))
}

/// Whether a schema says, at its root, that its values are objects. Without that, legacy hosts
/// refuse the tool or the whole list.
fn has_object_root(schema: &Json) -> bool {
    schema.member("type").is_some_and(|kind| kind.decode::<String>().is_ok_and(|kind| kind == "object"))
}

/// What becomes of structured content.
enum ContentEdit {
    Keep,
    RemoveStructured,
    /// It is removed, and this `content` says the same.
    MoveStructured(Json),
}

fn legacy_content(result: &Json) -> ContentEdit {
    let structured = result.member("structuredContent").filter(|structured| !structured.is_object());
    let Some(structured) = structured else { return ContentEdit::Keep };
    let content = result.member("content");
    let has_content = content.is_some_and(|content| {
        scan::elements(content.as_bytes()).is_some_and(|mut blocks| blocks.next().is_some())
    });
    if has_content {
        return ContentEdit::RemoveStructured;
    }
    let block = Edit::new().set_str("type", "text").set_str("text", structured.as_str()).apply(None);
    let block = block.expect("a new object is one");
    ContentEdit::MoveStructured(Json::encode(&[block]).expect("a list is JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::try_from(text).unwrap()
    }

    fn legacy(method: &str, result: &str) -> String {
        result_for_legacy_host(method, &json(result)).unwrap().to_string()
    }

    // GW-16
    #[test]
    fn modern_members_are_removed_and_the_rest_stays() {
        assert_eq!(
            legacy(
                "tools/list",
                r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public","tools":[ ],"x": 1.50,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"u"},"a/b": 1}}"#
            ),
            r#"{"tools":[ ],"x":1.50,"_meta":{"a/b":1}}"#
        );
        assert_eq!(
            legacy("prompts/get", r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{}},"messages":[]}"#),
            r#"{"messages":[]}"#
        );
        let plain = r#"{"_meta":{},"contents":[]}"#;
        assert_eq!(legacy("resources/read", plain), plain);
        // Only cacheable results have cache hints.
        let task = r#"{"taskId":"1","ttlMs":60000,"cacheScope":"x"}"#;
        assert_eq!(legacy("tasks/get", task), task);
    }

    #[test]
    fn incomplete_results_are_refused() {
        // GW-16
        for (result, expected) in [
            (r#"{"resultType":"input_required"}"#, ResultType::InputRequired),
            (r#"{"resultType":"task"}"#, ResultType::Task),
            (r#"{"resultType":"banana"}"#, ResultType::Unknown("banana".into())),
        ] {
            assert_eq!(
                result_for_legacy_host("tools/call", &json(result)),
                Err(LegacyResultError::Incomplete(expected))
            );
        }
        assert_eq!(result_for_legacy_host("x", &json("[]")), Err(LegacyResultError::NotAnObject));
    }

    // GW-16
    #[test]
    fn structured_content_must_be_an_object() {
        let object = r#"{"content":[],"structuredContent":{"a":1}}"#;
        assert_eq!(legacy("tools/call", object), object);
        let text = r#"[{"type":"text","text":"x"}]"#;
        for value in ["[1, 2]", "null", "false", "0", r#""s""#] {
            assert_eq!(
                legacy("tools/call", &format!(r#"{{"content":{text},"structuredContent":{value}}}"#)),
                format!(r#"{{"content":{text}}}"#)
            );
        }
        assert_eq!(
            legacy("tools/call", r#"{"structuredContent":["a", 1],"content":[],"isError":false}"#),
            r#"{"content":[{"type":"text","text":"[\"a\", 1]"}],"isError":false}"#
        );
        assert_eq!(
            legacy("tools/call", r#"{"structuredContent":7}"#),
            r#"{"content":[{"type":"text","text":"7"}]}"#
        );
        // The member means nothing in other results.
        assert_eq!(legacy("com.example/x", r#"{"structuredContent":7}"#), r#"{"structuredContent":7}"#);
    }

    // GW-16
    #[test]
    fn output_schemas_must_have_an_object_root() {
        let object = r#"{"name":"a","outputSchema":{"type":"object","properties":{}}}"#;
        let list = format!(r#"{{"tools":[{object}, {{"name": "b"}}]}}"#);
        assert_eq!(legacy("tools/list", &list), list);
        for schema in
            [r#"{"type":"array"}"#, r#"{"type":["object","null"]}"#, r#"{"oneOf":[]}"#, "true", "null"]
        {
            assert_eq!(
                legacy(
                    "tools/list",
                    &format!(r#"{{"tools":[{object},{{"name":"c","outputSchema":{schema},"x":1}},7]}}"#)
                ),
                format!(r#"{{"tools":[{object},{{"name":"c","x":1}},7]}}"#)
            );
        }
        for odd in [r#"{"tools":[]}"#, r#"{"tools":7}"#, "{}"] {
            assert_eq!(legacy("tools/list", odd), odd);
        }
    }

    // GW-16
    #[test]
    fn missing_resources_have_the_legacy_code() {
        let error = |code, data: &str| RpcError { code, message: "m".into(), data: Some(json(data)) };
        let missing = error(-32602, r#"{"uri":"file:///a"}"#);
        assert_eq!(
            error_for_legacy_host("resources/read", &missing),
            error(-32002, r#"{"uri":"file:///a"}"#)
        );
        assert_eq!(error_for_legacy_host("prompts/get", &missing), missing);
        let other = error(-32602, r#"{"why":"x"}"#);
        assert_eq!(error_for_legacy_host("resources/read", &other), other);
    }
}
