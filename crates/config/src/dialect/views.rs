//! Owns how views are written: `[views.NAME]`. Only our own dialect has them.

use serde_json::json;

use super::fields::Fields;
use crate::keys::{KeyTable as _, ValueKind};
use crate::raw::RawView;
use crate::report::{LocatedValue, Location};
use crate::tree::{Node, Value};

/// The views by name, not yet decoded.
pub(crate) struct ViewList;

/// Lists of names of tools, each with the name of its server.
pub(crate) struct ToolLists;

/// A view that is not yet decoded, with its name. Its location is that of the name.
pub(crate) type ViewEntry = (String, LocatedValue<Node>);

impl ValueKind for ViewList {
    type Value = Vec<ViewEntry>;
    const HAS_HEADER: bool = true;
    const FORM: &str = "a table of views";

    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Self::Value>> {
        let Value::Table(fields) = node.value else {
            return read.wrong_type(&place, Self::FORM, &node.value);
        };
        let views = read.unique(fields, &place).into_iter().map(|(key, node)| {
            let place = place.join(&key.name, key.offset);
            (key.name, LocatedValue::new(node, place))
        });
        Some(LocatedValue::new(views.collect(), place))
    }

    fn schema() -> serde_json::Value {
        json!({
            "type": "object",
            "additionalProperties": RawView::table_schema(),
            "propertyNames": { "pattern": "^[A-Za-z0-9_-]{1,64}$" },
        })
    }
}

impl ValueKind for ToolLists {
    type Value = Vec<(LocatedValue<String>, Vec<LocatedValue<String>>)>;
    const FORM: &str = "a table of lists of strings";

    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Self::Value>> {
        let Value::Table(fields) = node.value else {
            return read.wrong_type(&place, Self::FORM, &node.value);
        };
        let mut lists = Vec::new();
        for (key, node) in read.unique(fields, &place) {
            let of_server = place.join(&key.name, key.offset);
            let patterns = read.strings(node, of_server.clone())?;
            lists.push((LocatedValue::new(key.name, of_server), patterns.value));
        }
        Some(LocatedValue::new(lists, place))
    }

    fn schema() -> serde_json::Value {
        let patterns = json!({ "type": "array", "items": { "type": "string" } });
        json!({ "type": "object", "additionalProperties": patterns })
    }
}
