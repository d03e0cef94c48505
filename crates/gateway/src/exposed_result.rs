//! Replaces the URIs in a result that more than one server has.

use bowline::Json;
use bowline_proto::wire::object::Edit;

use crate::catalog::Snapshot;

/// Returns a result of `server` with the exposed form of its URIs: in links and embedded resources
/// of a tool or prompt, and in what was read. Everything else passes byte for byte.
pub(crate) fn with_exposed_uris(result: Json, snapshot: &Snapshot, server: &str) -> Json {
    if !snapshot.has_qualified_uris(server) {
        return result;
    }
    let rewriter = Rewriter { snapshot, server };
    let edited = [
        ("content", result.member("content").and_then(|content| rewriter.in_content(&content))),
        ("contents", result.member("contents").and_then(|all| rewriter.in_each(&all, Rewriter::in_uri))),
        ("messages", result.member("messages").and_then(|all| rewriter.in_each(&all, Rewriter::in_message))),
    ];
    edited.iter().fold(result, |result, (member, value)| match value {
        Some(value) => with_member(&result, member, value),
        None => result,
    })
}

/// Each method returns what it was given with other URIs, or `None` if it has none of them.
struct Rewriter<'a> {
    snapshot: &'a Snapshot,
    server: &'a str,
}

impl Rewriter<'_> {
    /// One block of content, or several.
    fn in_content(&self, content: &Json) -> Option<Json> {
        if content.is_array() { self.in_each(content, Self::in_block) } else { self.in_block(content) }
    }

    fn in_message(&self, message: &Json) -> Option<Json> {
        let content = self.in_content(&message.member("content")?)?;
        Some(with_member(message, "content", &content))
    }

    fn in_block(&self, block: &Json) -> Option<Json> {
        match block.member("type")?.as_str() {
            "\"resource_link\"" => self.in_uri(block),
            "\"resource\"" => {
                let resource = self.in_uri(&block.member("resource")?)?;
                Some(with_member(block, "resource", &resource))
            }
            _ => None,
        }
    }

    fn in_uri(&self, object: &Json) -> Option<Json> {
        let uri: String = object.member("uri")?.decode().ok()?;
        let exposed = self.snapshot.exposed_uri(self.server, &uri)?;
        Edit::new().set_str("uri", &exposed).apply(Some(object)).ok()
    }

    /// The elements of an array.
    fn in_each(&self, array: &Json, rewrite: impl Fn(&Self, &Json) -> Option<Json>) -> Option<Json> {
        let mut has_changed = false;
        let elements: Vec<Json> = array.decode().ok()?;
        let elements: Vec<_> = elements
            .into_iter()
            .map(|element| match rewrite(self, &element) {
                Some(other) => {
                    has_changed = true;
                    other
                }
                None => element,
            })
            .collect();
        if has_changed { Json::encode(&elements).ok() } else { None }
    }
}

fn with_member(object: &Json, member: &str, value: &Json) -> Json {
    Edit::new().set(member, value).apply(Some(object)).unwrap_or_else(|_| object.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::{Catalog, Naming};

    /// Numbers and text pass as they were written, whatever a parser makes of them.
    #[test]
    fn all_but_the_uris_passes_byte_for_byte() {
        let lists = json!({"tools": [], "prompts": [], "resources": [{"uri": "x://1"}], "templates": []});
        let catalog = Catalog::with_lists(&[("a", lists.clone()), ("b", lists)], Naming::default());
        let exposed = |text: &str| {
            with_exposed_uris(Json::parse(text.to_owned()).unwrap(), &catalog.snapshot(), "b")
                .as_str()
                .to_owned()
        };
        let odd = r#""z":12345678901234567890123,"a":"\ud83d""#;
        assert_eq!(
            exposed(&format!(r#"{{"content":[{{"type":"resource_link","uri":"x://1",{odd}}}],{odd}}}"#)),
            format!(r#"{{"content":[{{"type":"resource_link","uri":"bowline://b/x://1",{odd}}}],{odd}}}"#)
        );
        assert_eq!(
            exposed(r#"{"messages":[{"content":{"type":"resource","resource":{"uri":"x://1"}}}]}"#),
            r#"{"messages":[{"content":{"type":"resource","resource":{"uri":"bowline://b/x://1"}}}]}"#
        );
        let other = r#"{ "contents" : [{"uri":"x://2"}],"content":[{"type":"text","text":"x://1"}]}"#;
        assert_eq!(exposed(other), other);
    }
}
