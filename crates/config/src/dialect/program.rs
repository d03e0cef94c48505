//! Owns how programs that print headers or tokens are written: `headers_command`, and the sources
//! of tokens.

use super::fields::Fields;
use crate::problem::ProblemKind;
use crate::raw::{RawHeadersCommand, RawTokenSource};
use crate::report::{Finding, Located, Location, Report};
use crate::suggest;
use crate::tree::{Node, Value};

/// Decodes a program alone, with its arguments, or as a table.
pub(super) fn decode_headers_command(
    read: &mut Fields<'_, '_>,
    node: Node,
    table: Location,
) -> Option<Located<RawHeadersCommand>> {
    if matches!(node.value, Value::String(_) | Value::Array(_)) {
        let command = read.one_or_more(node, table.clone())?;
        let raw = RawHeadersCommand { command: Some(command), ..RawHeadersCommand::default() };
        return Some(Located::new(raw, table));
    }
    let Value::Table(fields) = node.value else {
        read.report_wrong_type(&table, "a program, a list of it and its arguments, or a table", &node.value);
        return None;
    };
    let mut raw = RawHeadersCommand::default();
    for (key, node) in read.unique(fields, &table) {
        let place = table.join(&key.name, node.offset);
        match key.name.as_str() {
            "command" => {
                raw.command = read.one_or_more(node, place);
                raw.garbled |= raw.command.is_none();
            }
            "args" => raw.args = read.strings(node, place),
            "env" => raw.env = read.map(node, place),
            "cwd" => raw.cwd = read.string(node, place),
            "timeout" => raw.timeout = read.duration(&node, place),
            "ttl" => raw.ttl = read.duration(&node, place),
            unknown => {
                let meant = suggest::closest(unknown, RawHeadersCommand::KEYS);
                raw.garbled |= meant == Some("command");
                report_unknown_key(read.report, &table.join(unknown, key.offset), meant);
            }
        }
    }
    Some(Located::new(raw, table))
}

/// Decodes where an externally issued token comes from.
pub(super) fn decode_token_source(
    read: &mut Fields<'_, '_>,
    node: Node,
    table: Location,
) -> Option<Located<RawTokenSource>> {
    if matches!(node.value, Value::String(_)) {
        let finding = Finding::new(ProblemKind::WrongType, "must be a table, not a string")
            .hint("write `{ file = \"…\" }`, `{ command = [\"…\"] }` or `{ value = \"${VAR}\" }`");
        read.report.error(&table, finding);
        return None;
    }
    let mut raw = RawTokenSource::default();
    for (key, node) in read.table(node, &table)? {
        let place = table.join(&key.name, node.offset);
        match key.name.as_str() {
            "value" => {
                raw.value = read.string(node, place);
                raw.garbled |= raw.value.is_none();
            }
            "file" => {
                raw.file = read.string(node, place);
                raw.garbled |= raw.file.is_none();
            }
            "command" => {
                raw.command = read.one_or_more(node, place);
                raw.garbled |= raw.command.is_none();
            }
            "env" => raw.env = read.map(node, place),
            "cwd" => raw.cwd = read.string(node, place),
            unknown => {
                let meant = suggest::closest(unknown, RawTokenSource::KEYS).or(match unknown {
                    "token" | "jwt" => Some("value"),
                    "path" => Some("file"),
                    "args" => Some("command"),
                    _ => None,
                });
                raw.garbled |= matches!(meant, Some("value" | "file" | "command"));
                report_unknown_key(read.report, &table.join(unknown, key.offset), meant);
            }
        }
    }
    Some(Located::new(raw, table))
}

/// Reports an unknown key, with the key that was probably meant.
pub(super) fn report_unknown_key(report: &mut Report<'_>, place: &Location, meant: Option<&str>) {
    let mut finding = Finding::new(ProblemKind::UnknownKey, "unknown key");
    finding.hint = meant.map(|meant| format!("did you mean `{meant}`?"));
    report.error(place, finding);
}
