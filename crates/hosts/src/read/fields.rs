//! Takes values out of the tree. Hosts differ in what they accept, so numbers and booleans are taken as
//! text where text is meant.

use std::collections::HashMap;

use bowline_config::tree::{Key, Node, Value};

/// The fields of a table; none for any other value.
pub(super) fn into_table(value: Value) -> Vec<(Key, Node)> {
    match value {
        Value::Table(fields) => fields,
        _ => Vec::new(),
    }
}

/// Removes a field and returns its value. Where a key is repeated, the last one counts.
pub(super) fn take(fields: &mut Vec<(Key, Node)>, name: &str) -> Option<Value> {
    let at = fields.iter().rposition(|(key, _)| key.name == name)?;
    Some(fields.remove(at).1.value)
}

/// The value of a field.
pub(super) fn get<'a>(fields: &'a [(Key, Node)], name: &str) -> Option<&'a Value> {
    fields.iter().rfind(|(key, _)| key.name == name).map(|(_, node)| &node.value)
}

/// Whether a field is there and not null.
pub(super) fn has(fields: &[(Key, Node)], name: &str) -> bool {
    get(fields, name).is_some_and(|value| !matches!(value, Value::Null))
}

/// The text of a scalar.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) | Value::Number(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Date | Value::Array(_) | Value::Table(_) => None,
    }
}

/// The texts of a list; a scalar is a list of one. `None` if one of them is no text.
pub(super) fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(items) => items.iter().map(|item| text(&item.value)).collect(),
        scalar => text(scalar).map(|text| vec![text]),
    }
}

/// The names and texts of a table. A null leaves the name out; `None` if a value is no text.
pub(super) fn pairs(value: &Value) -> Option<Vec<(String, String)>> {
    let Value::Table(fields) = value else { return None };
    let last = last_positions(fields.iter().map(|(key, _)| key.name.as_str()));
    let counts = |(at, (key, node)): &(usize, &(Key, Node))| {
        last[key.name.as_str()] == *at && !matches!(node.value, Value::Null)
    };
    let counted = fields.iter().enumerate().filter(counts);
    counted.map(|(_, (key, node))| Some((key.name.clone(), text(&node.value)?))).collect()
}

/// Drops fields whose key is repeated later: hosts use the last one.
pub(super) fn last_of_each(fields: Vec<(Key, Node)>) -> Vec<(Key, Node)> {
    let names: Vec<String> = fields.iter().map(|(key, _)| key.name.clone()).collect();
    let last = last_positions(names.iter().map(String::as_str));
    let counted = fields.into_iter().enumerate().filter(|(at, (key, _))| last[key.name.as_str()] == *at);
    counted.map(|(_, field)| field).collect()
}

fn last_positions<'a>(names: impl Iterator<Item = &'a str>) -> HashMap<&'a str, usize> {
    names.enumerate().map(|(at, name)| (name, at)).collect()
}

pub(super) fn number(value: &Value) -> Option<f64> {
    text(value)?.trim().parse::<f64>().ok().filter(|number| number.is_finite())
}

pub(super) fn boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
        Value::String(word) => word.parse().ok(),
        _ => None,
    }
}
