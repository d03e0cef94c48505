//! Owns our own dialect, TOML: `[servers.NAME]`, `[[hooks]]`, and the tables for all servers.
//! Nothing is guessed; an unknown key is an error.

use std::marker::PhantomData;

use serde_json::json;

use super::ServerEntry;
use super::fields::{Fields, Style};
use crate::keys::{KeyTable, ValueKind};
use crate::raw::{RawFile, RawServer, holds_server};
use crate::report::{LocatedValue, Location, Report};
use crate::tree::{Key, Node, Value};

/// The servers by name, not yet decoded.
pub(crate) struct ServerList;

/// The table `T`, not yet decoded.
pub(crate) struct UndecodedTable<T>(PhantomData<T>);

pub(super) fn read_document(root: Node, report: &mut Report<'_>) -> RawFile {
    let Value::Table(fields) = root.value else {
        unreachable!("a TOML document is a table");
    };
    Fields { report, style: Style::Strict }.keys(fields, &Location::root())
}

/// Decodes a table for all servers.
pub(crate) fn decode_table<T: KeyTable>(
    table: LocatedValue<Node>,
    report: &mut Report<'_>,
) -> Option<LocatedValue<T>> {
    Fields { report, style: Style::Strict }.key_table(table.value, table.place)
}

pub(super) fn decode(fields: Vec<(Key, Node)>, entry: &Location, report: &mut Report<'_>) -> RawServer {
    let nested =
        fields.iter().any(|(key, node)| RawServer::find(&key.name).is_none() && holds_server(&node.value));
    let mut raw: RawServer = Fields { report, style: Style::Strict }.keys(fields, entry);
    raw.garbled.extend(nested.then_some("command"));
    raw
}

impl ValueKind for ServerList {
    type Value = Vec<ServerEntry>;
    const HAS_HEADER: bool = true;
    const FORM: &str = "a table of servers";

    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Self::Value>> {
        Some(LocatedValue::new(read.entries(node, &place, &str::to_owned), place))
    }

    fn schema() -> serde_json::Value {
        json!({
            "type": "object",
            "additionalProperties": RawServer::table_schema(),
            "propertyNames": { "pattern": "^[A-Za-z0-9_.-]{1,64}$" },
        })
    }
}

impl<T: KeyTable> ValueKind for UndecodedTable<T> {
    type Value = Node;
    const HAS_HEADER: bool = true;
    const FORM: &str = "a table";

    fn read(_: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Node>> {
        Some(LocatedValue::new(node, place))
    }

    fn schema() -> serde_json::Value {
        T::table_schema()
    }
}
