//! Where an entry is added to JSON with comments, and what is deleted when it is removed.
//!
//! A new member becomes the first of its object: nothing before or after it has to change then, not even
//! a comma, and every comment stays beside what it is about.
//!
//! The text that is parsed is a copy in which lone surrogates are replaced. The copy has the length of the
//! text, so its positions are those of the text, and all that is kept is taken from the text itself.

use std::borrow::Cow;
use std::ops::Range;

use bowline_config::tree::replace_lone_surrogates;
use jsonc_parser::ast::{Object, ObjectProp, Value as AstValue};
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, ParseResult, parse_to_ast};
use serde_json::{Map, Value};

use super::{
    BYTE_ORDER_MARK, EditError, NewEntry, TextInsertion, line_end, no_entry, not_an_object, separator_at_end,
    syntax_error,
};
use crate::entry::{FieldValue, HostEntry};

const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// How members of an object are written.
#[derive(Clone, Debug)]
enum Style {
    /// Each on a line of its own.
    Lines { end: &'static str, indent: String, unit: String },
    /// All on one line, with or without blanks between tokens.
    OneLine { spaced: bool },
}

pub(super) fn parse(text: &str) -> Result<Value, EditError> {
    let readable = readable_body(text);
    let parsed = parse_body(&readable)?;
    Ok(parsed.value.map_or_else(|| Value::Object(Map::new()), to_value))
}

pub(super) fn insert(
    text: &str,
    path: &[&str],
    name: &str,
    entry: NewEntry<'_>,
) -> Result<TextInsertion, EditError> {
    let readable = readable_body(text);
    let parsed = parse_body(&readable)?;
    let end = line_end(text);
    let Some(root) = parsed.value else {
        let unit = "  ".to_owned();
        let document = render_object(path, name, entry, &Style::Lines { end, indent: String::new(), unit });
        let separator = separator_at_end(text, end);
        return Ok(TextInsertion { at: text.len(), text: format!("{separator}{document}{end}") });
    };
    let offset = body_offset(text);
    let root = as_object(&root, &[])?;
    let (object, missing) = descend(root, path)?;
    let member = |style: &Style| match missing {
        [] => render_new(name, entry, style),
        [first, below @ ..] => render_member(first, &render_object(below, name, entry, style), style),
    };
    let body = &text[offset..];
    let open = object.range.start + 1;
    let unit = indent_unit(body, root);
    let Some(first) = object.properties.first() else {
        return Ok(insert_into_empty(body, object, end, unit, member).shift(offset));
    };
    let lead = &body[open..first.range.start];
    if !lead.contains('\n') {
        let style = Style::OneLine { spaced: is_spaced(body) };
        let blank = if lead.trim().is_empty() { lead } else { " " };
        let comma = if style.is_spaced() && blank.is_empty() { ", " } else { "," };
        let text = format!("{blank}{}{comma}", member(&style));
        return Ok(TextInsertion { at: open, text }.shift(offset));
    }
    let indent = line_indent(body, first.range.start).to_owned();
    let style = Style::Lines { end, indent: indent.clone(), unit };
    let tokens = parsed.tokens.as_deref().unwrap_or_default();
    // A schema says what the file is, and stays the first member.
    let comma = (first.name.as_str() == "$schema").then(|| comma_after(tokens, first)).flatten();
    let at = after_comments_of_line(body, comma.unwrap_or(open));
    Ok(TextInsertion { at, text: format!("{end}{indent}{},", member(&style)) }.shift(offset))
}

fn insert_into_empty(
    body: &str,
    object: &Object<'_>,
    end: &'static str,
    unit: String,
    member: impl Fn(&Style) -> String,
) -> TextInsertion {
    let open = object.range.start + 1;
    let inner = &body[open..object.range.end - 1];
    let whole = body.trim();
    if !whole.contains('\n') && whole.len() > object.range.end - object.range.start {
        return TextInsertion { at: open, text: member(&Style::OneLine { spaced: is_spaced(body) }) };
    }
    let outer = line_indent(body, open).to_owned();
    let indent = format!("{outer}{unit}");
    let style = Style::Lines { end, indent: indent.clone(), unit };
    let text = format!("{end}{indent}{}", member(&style));
    if inner.contains('\n') {
        TextInsertion { at: after_comments_of_line(body, open), text }
    } else {
        TextInsertion { at: open, text: format!("{text}{end}{outer}") }
    }
}

pub(super) fn entry_range(text: &str, path: &[&str], name: &str) -> Result<Range<usize>, EditError> {
    let readable = readable_body(text);
    let parsed = parse_body(&readable)?;
    let (_, member) = find_entry(&parsed, path, name)?;
    let offset = body_offset(text);
    Ok(offset + member.range.start..offset + member.range.end)
}

fn find_entry<'a, 'b>(
    parsed: &'b ParseResult<'a>,
    path: &[&str],
    name: &str,
) -> Result<(&'b Object<'a>, &'b ObjectProp<'a>), EditError> {
    let root = parsed.value.as_ref().ok_or_else(|| no_entry(name))?;
    let (object, missing) = descend(as_object(root, &[])?, path)?;
    let found = if missing.is_empty() { only_member(object, name)? } else { None };
    found.map(|member| (object, member)).ok_or_else(|| no_entry(name))
}

pub(super) fn remove(text: &str, path: &[&str], name: &str) -> Result<String, EditError> {
    let readable = readable_body(text);
    let parsed = parse_body(&readable)?;
    let (object, member) = find_entry(&parsed, path, name)?;
    let (start, stop) = (member.range.start, member.range.end);
    let tokens = parsed.tokens.as_deref().unwrap_or_default();
    let is_comment =
        |token: &TokenAndRange<'_>| matches!(token.token, Token::CommentLine(_) | Token::CommentBlock(_));
    let before = tokens.iter().rev().filter(|token| token.range.end <= start);
    let after = tokens.iter().filter(|token| token.range.start >= stop);
    let blank_start = before.clone().next().map_or(start, |token| token.range.end);
    let previous = before.clone().find(|token| !is_comment(token));
    let next = after.clone().find(|token| !is_comment(token));
    let body = &text[body_offset(text)..];
    let (comma_before, member) = if let Some(comma) = next.filter(|token| token.token == Token::Comma) {
        // On one line, the blank between two members goes with the first of them.
        let rest = &body[comma.range.end..];
        let blank = if blank_start == start { rest.len() - rest.trim_start_matches(' ').len() } else { 0 };
        (None, blank_start..comma.range.end + blank)
    } else if let Some(comma) = previous.filter(|token| token.token == Token::Comma) {
        (Some(comma.range), blank_start..stop)
    } else {
        let inner = object.range.start + 1..object.range.end - 1;
        let is_blank = |text: &str| text.trim().is_empty();
        let is_alone = is_blank(&body[inner.start..start]) && is_blank(&body[stop..inner.end]);
        (None, if is_alone { inner } else { blank_start..stop })
    };
    let mut kept = text[..body_offset(text)].to_owned();
    let mut at = 0;
    if let Some(comma) = comma_before {
        kept.push_str(&body[..comma.start]);
        at = comma.end;
    }
    kept.push_str(&body[at..member.start]);
    kept.push_str(&body[member.end..]);
    Ok(kept)
}

/// A whole document with nothing but one entry.
pub(super) fn render_document(path: &[&str], name: &str, entry: &HostEntry) -> String {
    let style = Style::Lines { end: "\n", indent: String::new(), unit: "  ".to_owned() };
    render_object(path, name, NewEntry::Fields(entry), &style) + "\n"
}

/// Objects within objects, of which the innermost has the entry. The outermost has the given style.
fn render_object(path: &[&str], name: &str, entry: NewEntry<'_>, style: &Style) -> String {
    let below = style.deeper();
    let member = match path {
        [] => render_new(name, entry, &below),
        [first, rest @ ..] => render_member(first, &render_object(rest, name, entry, &below), &below),
    };
    style.enclose(&[member])
}

/// The member that is an entry.
fn render_new(name: &str, entry: NewEntry<'_>, style: &Style) -> String {
    match entry {
        NewEntry::Fields(entry) => render_member(name, &render_entry(entry, &style.deeper()), style),
        NewEntry::Verbatim(text) => text.to_owned(),
    }
}

/// The value of an entry, whose members have the given style.
fn render_entry(entry: &HostEntry, members: &Style) -> String {
    let comma = if members.is_spaced() { ", " } else { "," };
    let fields: Vec<String> = entry
        .fields
        .iter()
        .map(|(key, value)| {
            let value = match value {
                FieldValue::Text(text) => quote(text),
                FieldValue::List(texts) => {
                    format!("[{}]", texts.iter().map(|text| quote(text)).collect::<Vec<_>>().join(comma))
                }
                FieldValue::Flag(flag) => flag.to_string(),
                FieldValue::Number(number) => number.to_string(),
            };
            render_member(key, &value, members)
        })
        .collect();
    members.shallower().enclose(&fields)
}

fn render_member(key: &str, value: &str, style: &Style) -> String {
    let colon = if style.is_spaced() { ": " } else { ":" };
    format!("{}{colon}{value}", quote(key))
}

pub(super) fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

impl Style {
    /// The style of the members of a member.
    fn deeper(&self) -> Self {
        match self {
            Self::Lines { end, indent, unit } => {
                Self::Lines { end, indent: format!("{indent}{unit}"), unit: unit.clone() }
            }
            Self::OneLine { .. } => self.clone(),
        }
    }

    fn shallower(&self) -> Self {
        match self {
            Self::Lines { end, indent, unit } => {
                let outer = indent.strip_suffix(unit.as_str()).unwrap_or(indent);
                Self::Lines { end, indent: outer.to_owned(), unit: unit.clone() }
            }
            Self::OneLine { .. } => self.clone(),
        }
    }

    fn is_spaced(&self) -> bool {
        matches!(self, Self::Lines { .. } | Self::OneLine { spaced: true })
    }

    /// An object of these members, in which `self` is the style of the object itself.
    fn enclose(&self, members: &[String]) -> String {
        match self {
            Self::Lines { end, indent, unit } => {
                let lines: Vec<String> =
                    members.iter().map(|member| format!("{end}{indent}{unit}{member}")).collect();
                format!("{{{}{end}{indent}}}", lines.join(","))
            }
            Self::OneLine { spaced: true } => format!("{{ {} }}", members.join(", ")),
            Self::OneLine { spaced: false } => format!("{{{}}}", members.join(",")),
        }
    }
}

impl TextInsertion {
    fn shift(self, by: usize) -> Self {
        Self { at: self.at + by, ..self }
    }
}

fn body_offset(text: &str) -> usize {
    if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 }
}

/// Returns a copy of the body that the parser can read. It has the length of the body.
fn readable_body(text: &str) -> Cow<'_, str> {
    replace_lone_surrogates(&text[body_offset(text)..])
}

fn parse_body(body: &str) -> Result<ParseResult<'_>, EditError> {
    let collect = CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
    // The kind says what was expected without quoting the text.
    parse_to_ast(body, &collect, &OPTIONS)
        .map_err(|error| syntax_error("JSON", body, Some(error.range().start), &error.kind().to_string()))
}

fn to_value(value: AstValue<'_>) -> Value {
    match value {
        AstValue::NullKeyword(_) => Value::Null,
        AstValue::BooleanLit(literal) => literal.value.into(),
        // A number that is out of range is compared by its digits.
        AstValue::NumberLit(literal) => {
            serde_json::from_str(literal.value).unwrap_or_else(|_| literal.value.into())
        }
        AstValue::StringLit(literal) => literal.value.into_owned().into(),
        AstValue::Array(array) => array.elements.into_iter().map(to_value).collect(),
        AstValue::Object(object) => {
            let members = object.properties.into_iter();
            members.map(|member| (member.name.into_string(), to_value(member.value))).collect()
        }
    }
}

/// The value at this path as an object.
fn as_object<'a, 'b>(value: &'b AstValue<'a>, path: &[&str]) -> Result<&'b Object<'a>, EditError> {
    value.as_object().ok_or_else(|| not_an_object(path))
}

/// Follows the keys as far as there are any, and returns the innermost object and the keys that are
/// missing in it.
fn descend<'a, 'b, 'c>(
    root: &'b Object<'a>,
    path: &'c [&'c str],
) -> Result<(&'b Object<'a>, &'c [&'c str]), EditError> {
    let mut object = root;
    for (depth, key) in path.iter().enumerate() {
        match only_member(object, key)? {
            Some(member) => object = as_object(&member.value, &path[..=depth])?,
            None => return Ok((object, &path[depth..])),
        }
    }
    Ok((object, &[]))
}

/// The member with this key. Programs differ in which of two they use.
fn only_member<'a, 'b>(object: &'b Object<'a>, key: &str) -> Result<Option<&'b ObjectProp<'a>>, EditError> {
    let mut members = object.properties.iter().filter(|member| member.name.as_str() == key);
    let found = members.next();
    if members.next().is_some() {
        return Err(EditError::Unsupported(format!("it has the key `{key}` twice in the same object")));
    }
    Ok(found)
}

/// The end of the comma right after a member.
fn comma_after(tokens: &[TokenAndRange<'_>], member: &ObjectProp<'_>) -> Option<usize> {
    let next = tokens.iter().find(|token| token.range.start >= member.range.end)?;
    (next.token == Token::Comma).then_some(next.range.end)
}

/// The blanks at the beginning of the line that `offset` is in.
fn line_indent(body: &str, offset: usize) -> &str {
    let start = body[..offset].rfind('\n').map_or(0, |at| at + 1);
    let line = &body[start..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// By how much members are indented in this file.
fn indent_unit(body: &str, root: &Object<'_>) -> String {
    let of_first = root.properties.first().map(|first| line_indent(body, first.range.start));
    of_first.filter(|indent| !indent.is_empty()).unwrap_or("  ").to_owned()
}

fn is_spaced(body: &str) -> bool {
    body.contains("\": ")
}

/// The end of the comments that follow on the same line, if the line ends with them.
fn after_comments_of_line(body: &str, offset: usize) -> usize {
    let mut at = offset;
    loop {
        let rest = &body[at..];
        let blank = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let rest = &rest[blank..];
        if rest.starts_with("//") {
            return at + blank + rest.find(['\r', '\n']).unwrap_or(rest.len());
        }
        let comment =
            rest.strip_prefix("/*").and_then(|rest| rest.split_once("*/")).map(|(inside, _)| inside);
        match comment {
            Some(inside) if !inside.contains('\n') => at += blank + inside.len() + 4,
            _ if rest.starts_with(['\r', '\n']) => return at,
            _ => return offset,
        }
    }
}
