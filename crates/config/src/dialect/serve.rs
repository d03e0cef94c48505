//! Owns how `[serve.oauth]` is written.

use super::fields::Fields;
use crate::keys::{KeyTable as _, ValueKind};
use crate::raw::RawServeOauth;
use crate::report::{Located, Location};
use crate::tree::Node;

impl ValueKind for RawServeOauth {
    type Value = Self;
    const HAS_HEADER: bool = true;
    const FORM: &str = "a table";

    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<Located<Self>> {
        read.key_table(node, place)
    }

    fn schema() -> serde_json::Value {
        Self::table_schema()
    }
}
