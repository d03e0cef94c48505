//! The tool lists of the benchmark server.

use serde_json::{Value, json};

use crate::scenario::{HUNDRED_LIST, LARGE_LIST, MEDIUM_LIST, SMALL_LIST};

/// The tool list that a connection sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolList {
    /// `payload` and a few more, like an ordinary server.
    Small,
    /// Ten tools, like many servers behind a gateway.
    Medium,
    /// A hundred tools, of which a search finds many.
    Hundred,
    /// The list of a gateway or a large API: about 1 MB.
    Large,
}

/// Returns the tools of a list. `payload` and `read_payload` come first.
pub(super) fn tools(catalog: ToolList) -> Vec<Value> {
    let count = match catalog {
        ToolList::Small => SMALL_LIST,
        ToolList::Medium => MEDIUM_LIST,
        ToolList::Hundred => HUNDRED_LIST,
        ToolList::Large => LARGE_LIST,
    };
    [payload(), read_payload()].into_iter().chain((2..count).map(filler)).collect()
}

fn payload() -> Value {
    json!({
        "name": "payload",
        "description": "Returns a text of the size asked for.",
        "inputSchema": {
            "type": "object",
            "properties": { "bytes": { "type": "integer", "minimum": 0 } },
            "required": ["bytes"],
        },
    })
}

/// Returns a tool that does what `payload` does, and says that it only reads.
fn read_payload() -> Value {
    let mut tool = payload();
    tool["name"] = "read_payload".into();
    tool["annotations"] = json!({ "readOnlyHint": true });
    tool
}

/// Returns a tool of about 1.2 KB with a schema of ordinary depth.
fn filler(index: usize) -> Value {
    json!({
        "name": format!("records_{index:03}_search"),
        "title": format!("Search records, collection {index}"),
        "description": format!(
            "Searches collection {index} and returns the matching records, newest first. The query is \
             plain text; wrap words in quotes to match them in order. Narrow the search with filters; \
             all of them must hold. Results come in pages: pass the cursor of the last page to go on. \
             A page may be shorter than the limit although more records follow."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": { "type": "string", "description": "What to look for.", "minLength": 1 },
                "limit": { "type": "integer", "description": "Records per page.", "minimum": 1, "maximum": 200, "default": 50 },
                "cursor": { "type": "string", "description": "Where the last page ended." },
                "filters": {
                    "type": "array",
                    "description": "Conditions every record must meet.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "field": { "type": "string", "enum": ["author", "state", "label", "created", "updated"] },
                            "operator": { "type": "string", "enum": ["is", "is_not", "before", "after"] },
                            "value": { "type": "string" },
                        },
                        "required": ["field", "operator", "value"],
                    },
                },
                "order": { "type": "string", "enum": ["newest", "oldest", "relevance"], "default": "newest" },
            },
            "required": ["query"],
        },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_large_list_is_about_a_megabyte() {
        let list = tools(ToolList::Large);
        assert_eq!(list.len(), LARGE_LIST);
        let bytes = serde_json::to_vec(&list).expect("serializable").len();
        assert!((900_000..1_300_000).contains(&bytes), "{bytes} bytes");
    }
}
