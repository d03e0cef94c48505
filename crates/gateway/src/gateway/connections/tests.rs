//! Tests of which servers are shared without being asked to.

use serde_json::json;

use super::*;

#[test]
fn a_server_is_shared_if_it_keeps_nothing_for_a_host() {
    let tool = |annotations: serde_json::Value| json!({"name": "t", "annotations": annotations});
    let reads = || tool(json!({"readOnlyHint": true}));
    for (lists, expected) in [
        (json!({"tools": [reads(), reads()]}), true),
        (json!({"tools": [reads(), tool(json!({"readOnlyHint": false}))]}), false),
        (json!({"tools": [reads(), tool(json!({"readOnlyHint": "yes"}))]}), false),
        (json!({"tools": [reads(), {"name": "t"}]}), false),
        (json!({"tools": []}), false),
        (json!({"tools": [], "is_stateless": true}), true),
        (json!({"tools": [{"name": "t"}], "is_stateless": true}), true),
        (json!({"tools": [reads()], "has_asked": true}), false),
        (json!({"tools": [reads()], "is_stateless": true, "has_asked": true}), false),
    ] {
        let mut whole = json!({"prompts": [], "resources": [], "templates": []});
        whole.as_object_mut().unwrap().extend(lists.as_object().unwrap().clone());
        let whole: ServerLists = serde_json::from_str(&whole.to_string()).unwrap();
        assert_eq!(keeps_nothing_for_a_host(&whole), expected, "{lists}");
    }
}
