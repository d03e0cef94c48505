//! Where an entry is added to YAML, and what is deleted when it is removed.
//!
//! Nothing here understands all of YAML. Lines are looked at for the forms that people and hosts write,
//! and the caller parses the result: what was understood wrongly is refused.

use std::fmt::Write as _;
use std::ops::Range;

use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

use super::json::quote;
use super::{BYTE_ORDER_MARK, EditError, NewEntry, TextInsertion, line_end, separator_at_end, syntax_error};
use crate::entry::{FieldValue, HostEntry};

pub(super) fn parse(text: &str) -> Result<Value, EditError> {
    let body = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let is_comment = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    if body.lines().all(is_comment) {
        return Ok(Value::Object(Map::new()));
    }
    let parsed: Result<Value, _> = serde_saphyr::from_str_with_options(body, limits());
    // The message of the parser could quote the file.
    let value = parsed.map_err(|error| {
        let line = error.location().and_then(|location| usize::try_from(location.line()).ok());
        let before = line.map(|line| body.split_inclusive('\n').take(line.saturating_sub(1)));
        syntax_error("YAML", body, before.map(|lines| lines.map(str::len).sum()), "")
    })?;
    Ok(if value.is_null() { Value::Object(Map::new()) } else { value })
}

pub(super) fn insert(text: &str, path: &[&str], name: &str, entry: NewEntry<'_>) -> TextInsertion {
    let end = line_end(text);
    let key = path.first().copied().unwrap_or_default();
    let Some(line) = find_key(text, key) else {
        let block = render_new(name, entry, "  ", end);
        let separator = separator_at_end(text, end);
        return TextInsertion { at: text.len(), text: format!("{separator}{key}:{end}{block}") };
    };
    if let Some(brace) = line.value.strip_prefix('{') {
        // `{}` and `{a: …}`
        let is_empty = brace.trim_start().starts_with('}');
        let flow = match entry {
            NewEntry::Fields(entry) => render_flow(name, entry),
            NewEntry::Verbatim(text) => text.to_owned(),
        };
        let at = line.value_start + 1;
        return TextInsertion { at, text: if is_empty { flow } else { format!("{flow}, ") } };
    }
    let indent = child_indent(&text[line.stop..]).unwrap_or("  ");
    let block = render_new(name, entry, indent, end);
    let is_last = !text[..line.stop].ends_with('\n');
    let block = if is_last { format!("{end}{block}") } else { block };
    TextInsertion { at: line.stop, text: block }
}

pub(super) fn remove(text: &str, path: &[&str], name: &str) -> Result<String, EditError> {
    let lines = entry_range(text, path, name)?;
    Ok(format!("{}{}", &text[..lines.start], &text[lines.end..]))
}

/// The lines of an entry, without comments and blank lines after the last of them.
pub(super) fn entry_range(text: &str, path: &[&str], name: &str) -> Result<Range<usize>, EditError> {
    let absent = || EditError::Unsupported(format!("the lines of the entry `{name}` cannot be told apart"));
    let line = path.first().and_then(|key| find_key(text, key)).ok_or_else(absent)?;
    let indent = child_indent(&text[line.stop..]).ok_or_else(absent)?;
    let names = [name.to_owned(), quote(name), format!("'{name}'")];
    let is_entry = |line: &str| {
        let key = line.strip_prefix(indent).filter(|key| !key.starts_with(' '));
        key.is_some_and(|key| names.iter().any(|name| key.strip_prefix(name).is_some_and(begins_value)))
    };
    let mut at = line.stop;
    let mut found: Option<Range<usize>> = None;
    for line in text[line.stop..].split_inclusive('\n') {
        let depth = line.len() - line.trim_start_matches(' ').len();
        let is_significant = is_significant(line);
        match &mut found {
            None if is_significant && depth < indent.len() => break,
            None if is_entry(line) => found = Some(at..at + line.len()),
            Some(_) if is_significant && depth <= indent.len() => break,
            // Comments and blank lines after the last line belong to what follows.
            Some(lines) if is_significant => lines.end = at + line.len(),
            _ => {}
        }
        at += line.len();
    }
    found.ok_or_else(absent)
}

/// A whole document with nothing but one entry.
pub(super) fn render_document(path: &[&str], name: &str, entry: &HostEntry) -> String {
    let key = path.first().copied().unwrap_or_default();
    format!("{key}:\n{}", render_block(name, entry, "  ", "\n"))
}

fn render_new(name: &str, entry: NewEntry<'_>, indent: &str, end: &str) -> String {
    match entry {
        NewEntry::Fields(entry) => render_block(name, entry, indent, end),
        NewEntry::Verbatim(lines) if lines.ends_with('\n') => lines.to_owned(),
        NewEntry::Verbatim(lines) => format!("{lines}{end}"),
    }
}

fn render_block(name: &str, entry: &HostEntry, indent: &str, end: &str) -> String {
    let mut text = format!("{indent}{}:{end}", render_text(name));
    for (key, value) in &entry.fields {
        let _ = write!(text, "{indent}  {key}: {}{end}", render_value(value));
    }
    text
}

fn render_flow(name: &str, entry: &HostEntry) -> String {
    let fields: Vec<String> =
        entry.fields.iter().map(|(key, value)| format!("{key}: {}", render_value(value))).collect();
    format!("{}: {{{}}}", render_text(name), fields.join(", "))
}

fn render_value(value: &FieldValue) -> String {
    match value {
        FieldValue::Text(text) => render_text(text),
        FieldValue::List(texts) => {
            format!("[{}]", texts.iter().map(|text| render_text(text)).collect::<Vec<_>>().join(", "))
        }
        FieldValue::Flag(flag) => flag.to_string(),
        FieldValue::Number(number) => number.to_string(),
    }
}

/// A text as YAML: plain if no version of YAML takes it for anything else, and otherwise in quotes.
fn render_text(text: &str) -> String {
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let is_word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    if begins_well && is_plain && !is_word { text.to_owned() } else { quote(text) }
}

/// A line at the outermost level that begins with a key.
struct KeyLine<'a> {
    /// What follows the colon, without blanks and comment.
    value: &'a str,
    /// Where that begins in the text.
    value_start: usize,
    /// Where the next line begins.
    stop: usize,
}

fn find_key<'a>(text: &'a str, key: &str) -> Option<KeyLine<'a>> {
    let mut at = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
    for line in text[at..].split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix(key).filter(|rest| begins_value(rest)) {
            let value = rest[1..].trim();
            let value_start = at + line.len() - rest[1..].trim_start().len();
            let value = if value.starts_with('#') { "" } else { value };
            return Some(KeyLine { value, value_start, stop: at + line.len() });
        }
        at += line.len();
    }
    None
}

/// Whether this follows a key: a colon, and then a blank or the end of the line.
fn begins_value(rest: &str) -> bool {
    rest.strip_prefix(':').is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// The blanks before the first line that is no comment, if there are any.
fn child_indent(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| is_significant(line))?;
    let indent = &line[..line.len() - line.trim_start_matches(' ').len()];
    Some(indent).filter(|indent| !indent.is_empty())
}

fn is_significant(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

/// Parser limits, far above what a configuration needs. Aliases, by which a little YAML can expand to
/// very much, are limited further.
fn limits() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 400_000,
            max_nodes: 200_000,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_depth: 64,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
        duplicate_keys: DuplicateKeyPolicy::Error,
        with_snippet: false,
    }
}
