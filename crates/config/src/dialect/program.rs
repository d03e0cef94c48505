//! Owns how programs that print headers or tokens are written: `headers_command`, and the sources
//! of tokens.

use serde_json::json;

use super::fields::Fields;
use crate::keys::{CommandLine, KeyTable as _, ValueKind};
use crate::problem::ProblemKind;
use crate::raw::{RawHeadersCommand, RawTokenSource};
use crate::report::{Finding, LocatedValue, Location};
use crate::tree::{Node, Value};

impl ValueKind for RawHeadersCommand {
    type Value = Self;
    const FORM: &str = "a program, a list of it and its arguments, or a table";

    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Self>> {
        match node.value {
            Value::String(_) | Value::Array(_) => {
                let command = Some(read.one_or_more(node, place.clone())?);
                Some(LocatedValue::new(Self { command, ..Self::default() }, place))
            }
            Value::Table(fields) => Some(LocatedValue::new(read.keys(fields, &place), place)),
            other => read.wrong_type(&place, Self::FORM, &other),
        }
    }

    fn schema() -> serde_json::Value {
        json!({ "anyOf": [CommandLine::schema(), Self::table_schema()] })
    }
}

impl ValueKind for RawTokenSource {
    type Value = Self;
    const FORM: &str = "a table";

    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Self>> {
        if matches!(node.value, Value::String(_)) {
            let finding = Finding::new(ProblemKind::WrongType, "must be a table, not a string")
                .hint("write `{ file = \"…\" }`, `{ command = [\"…\"] }` or `{ value = \"${VAR}\" }`");
            read.report.error(&place, finding);
            return None;
        }
        read.key_table(node, place)
    }

    fn schema() -> serde_json::Value {
        Self::table_schema()
    }
}
