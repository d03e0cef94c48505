//! Parses TOML into the tree.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Key, Node, Value};
use crate::problem::ProblemKind;
use crate::report::{Finding, Location, Report};

pub(super) fn read(text: &str, report: &mut Report<'_>) -> Option<Node> {
    match DeTable::parse(text) {
        Ok(document) => Some(Node { offset: 0, value: table(document.into_inner()) }),
        // Only the first error: what follows it is guesswork. Its `Display` would quote the line,
        // which may hold a secret; its message does not.
        Err(error) => {
            let offset = error.span().map_or(0, |span| span.start);
            let message = format!("not valid TOML: {}", error.message());
            report.error(&Location::new(offset, ""), Finding::new(ProblemKind::Syntax, message));
            None
        }
    }
}

fn node(spanned: Spanned<DeValue<'_>>) -> Node {
    Node { offset: spanned.span().start, value: value(spanned.into_inner()) }
}

fn value(value: DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.into_owned()),
        DeValue::Integer(number) => {
            // Hexadecimal, octal and binary literals become decimal here; what does not fit stays
            // as written and is refused where a number is read.
            let decimal = i64::from_str_radix(number.as_str(), number.radix());
            Value::Number(decimal.map_or_else(|_| number.as_str().to_owned(), |n| n.to_string()))
        }
        DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
        DeValue::Boolean(truth) => Value::Bool(truth),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => Value::Array(items.into_iter().map(node).collect()),
        DeValue::Table(entries) => table(entries),
    }
}

fn table(entries: DeTable<'_>) -> Value {
    let mut entries: Vec<_> = entries
        .into_iter()
        .map(|(key, value)| {
            let key = Key { offset: key.span().start, name: key.into_inner().into_owned() };
            (key, node(value))
        })
        .collect();
    // The parser sorts by name; headers are sent in the order they were written.
    entries.sort_by_key(|(key, _)| key.offset);
    Value::Table(entries)
}
