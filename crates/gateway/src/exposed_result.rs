//! Replaces the URIs in a result that more than one server has.

use bowline::Json;
use serde_json::Value;

use crate::catalog::Snapshot;

/// Returns a result of `server` with the exposed form of its URIs: in links and embedded resources
/// of a tool or prompt, and in what was read. A result without any passes byte for byte.
pub(crate) fn with_exposed_uris(result: Json, snapshot: &Snapshot, server: &str) -> Json {
    if !snapshot.has_qualified_uris(server) {
        return result;
    }
    let Ok(mut value) = result.decode::<Value>() else { return result };
    let mut rewriter = Rewriter { snapshot, server, has_changed: false };
    if let Some(content) = value.get_mut("content") {
        rewriter.rewrite_content(content);
    }
    for contents in value.get_mut("contents").and_then(Value::as_array_mut).into_iter().flatten() {
        rewriter.rewrite_uri(contents);
    }
    for message in value.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(content) = message.get_mut("content") {
            rewriter.rewrite_content(content);
        }
    }
    if rewriter.has_changed { Json::encode(&value).unwrap_or(result) } else { result }
}

struct Rewriter<'a> {
    snapshot: &'a Snapshot,
    server: &'a str,
    has_changed: bool,
}

impl Rewriter<'_> {
    /// Rewrites one block of content, or several.
    fn rewrite_content(&mut self, content: &mut Value) {
        if let Value::Array(blocks) = content {
            for block in blocks {
                self.rewrite_block(block);
            }
        } else {
            self.rewrite_block(content);
        }
    }

    fn rewrite_block(&mut self, block: &mut Value) {
        match block.get("type").and_then(Value::as_str) {
            Some("resource_link") => self.rewrite_uri(block),
            Some("resource") => {
                if let Some(resource) = block.get_mut("resource") {
                    self.rewrite_uri(resource);
                }
            }
            _ => {}
        }
    }

    fn rewrite_uri(&mut self, object: &mut Value) {
        let Some(Value::String(uri)) = object.get_mut("uri") else { return };
        if let Some(exposed) = self.snapshot.exposed_uri(self.server, uri) {
            exposed.clone_into(uri);
            self.has_changed = true;
        }
    }
}
