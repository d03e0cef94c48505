//! Owns how the tables of `[serve]` are written.

use super::fields::Fields;
use crate::keys::{KeyTable as _, ValueKind};
use crate::raw::{RawServeLimits, RawServeOauth};
use crate::report::{LocatedValue, Location};
use crate::tree::Node;

macro_rules! table_value {
    ($($Table:ty)*) => {$(
        impl ValueKind for $Table {
            type Value = Self;
            const HAS_HEADER: bool = true;
            const FORM: &str = "a table";

            fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Self>> {
                read.key_table(node, place)
            }

            fn schema() -> serde_json::Value {
                Self::table_schema()
            }
        }
    )*};
}

table_value! { RawServeOauth RawServeLimits }
