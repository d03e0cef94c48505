//! Where an entry is added to TOML, and what is deleted when it is removed.
//!
//! A new entry is a table at the end of the file, where it changes the meaning of nothing before it.

use std::fmt::Write as _;
use std::ops::Range;

use serde_json::{Map, Value};
use toml_edit::{Document, Item, Table, TableLike};

use super::{
    BYTE_ORDER_MARK, EditError, NewEntry, TextInsertion, line_end, no_entry, separator_at_end, syntax_error,
};
use crate::entry::{FieldValue, HostEntry};

pub(super) fn parse(text: &str) -> Result<Value, EditError> {
    Ok(table_value(parse_document(text)?.as_table()))
}

pub(super) fn insert(text: &str, path: &[&str], name: &str, entry: NewEntry<'_>) -> TextInsertion {
    let end = line_end(text);
    let table = match entry {
        NewEntry::Fields(entry) => render_table(path, name, entry, end),
        NewEntry::Verbatim(lines) if lines.ends_with('\n') => lines.to_owned(),
        NewEntry::Verbatim(lines) => format!("{lines}{end}"),
    };
    TextInsertion { at: text.len(), text: separator_at_end(text, end) + &table }
}

pub(super) fn remove(text: &str, path: &[&str], name: &str) -> Result<String, EditError> {
    let lines = entry_range(text, path, name)?;
    // The blank line above goes with it.
    let above = &text[..lines.start];
    let blank = ["\r\n", "\n"].into_iter().find(|end| above.ends_with(&end.repeat(2)));
    Ok(format!("{}{}", &above[..lines.start - blank.map_or(0, str::len)], &text[lines.end..]))
}

/// The lines of an entry, from its header to its last value.
pub(super) fn entry_range(text: &str, path: &[&str], name: &str) -> Result<Range<usize>, EditError> {
    let document = parse_document(text)?;
    let mut table: Option<&dyn TableLike> = Some(document.as_table());
    for key in path {
        table = table.and_then(|table| table.get(key)).and_then(Item::as_table_like);
    }
    let absent = || no_entry(name);
    let (key, item) = table.and_then(|table| table.get_key_value(name)).ok_or_else(absent)?;
    let mut spans: Vec<Range<usize>> = item.span().into_iter().collect();
    collect_spans(item, &mut spans);
    if !matches!(item, Item::Table(_)) {
        spans.extend(key.span());
    }
    let offset = text.len() - document.raw().len();
    let first = spans.iter().map(|span| span.start).min().ok_or_else(absent)? + offset;
    let last = spans.iter().map(|span| span.end).max().ok_or_else(absent)? + offset;
    let start = text[..first].rfind('\n').map_or(offset, |at| at + 1);
    let stop = text[last..].find('\n').map_or(text.len(), |at| last + at + 1);
    Ok(start..stop)
}

/// The table of an entry, with a line end after each line.
pub(super) fn render_table(path: &[&str], name: &str, entry: &HostEntry, end: &str) -> String {
    let mut keys: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
    keys.push(render_key(name));
    let mut text = format!("[{}]{end}", keys.join("."));
    for (key, value) in &entry.fields {
        let value = match value {
            FieldValue::Text(text) => toml_edit::Value::from(text.as_str()),
            FieldValue::List(texts) => toml_edit::Value::Array(texts.iter().map(String::as_str).collect()),
            FieldValue::Flag(flag) => (*flag).into(),
            FieldValue::Number(number) => i64::from(*number).into(),
        };
        let _ = write!(text, "{key} = {value}{end}");
    }
    text
}

fn render_key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if is_bare { name.to_owned() } else { toml_edit::Value::from(name).to_string() }
}

fn parse_document(text: &str) -> Result<Document<&str>, EditError> {
    let body = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    Document::parse(body).map_err(|error| syntax_error("TOML", body, error.span().map(|span| span.start), ""))
}

/// The spans of everything in a table, and of the headers of tables below it.
fn collect_spans(item: &Item, spans: &mut Vec<Range<usize>>) {
    if let Item::ArrayOfTables(tables) = item {
        for table in tables {
            collect_table_spans(table, spans);
        }
    }
    if let Item::Table(table) = item {
        collect_table_spans(table, spans);
    }
}

fn collect_table_spans(table: &Table, spans: &mut Vec<Range<usize>>) {
    spans.extend(table.span());
    for (key, item) in table {
        spans.extend(table.key(key).and_then(toml_edit::Key::span));
        spans.extend(item.span());
        collect_spans(item, spans);
    }
}

fn table_value(table: &Table) -> Value {
    table.iter().map(|(key, item)| (key.to_owned(), item_value(item))).collect::<Map<_, _>>().into()
}

fn item_value(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => plain_value(value),
        Item::Table(table) => table_value(table),
        Item::ArrayOfTables(tables) => tables.iter().map(table_value).collect(),
    }
}

fn plain_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => text.value().as_str().into(),
        toml_edit::Value::Integer(number) => (*number.value()).into(),
        // As text, since JSON has no infinity.
        toml_edit::Value::Float(number) => number.value().to_string().into(),
        toml_edit::Value::Boolean(flag) => (*flag.value()).into(),
        toml_edit::Value::Datetime(time) => time.value().to_string().into(),
        toml_edit::Value::Array(values) => values.iter().map(plain_value).collect(),
        toml_edit::Value::InlineTable(table) => table
            .iter()
            .map(|(key, value)| (key.to_owned(), plain_value(value)))
            .collect::<Map<_, _>>()
            .into(),
    }
}
