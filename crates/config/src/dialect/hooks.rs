//! Owns how hooks are written: `[[hooks]]` for all servers and `[[servers.NAME.hooks]]` for one.
//! Only our own dialect has them; in a host's file, `hooks` means something else.

use super::fields::{Fields, Style};
use crate::hook::HookEvent;
use crate::problem::ProblemKind;
use crate::raw::RawHook;
use crate::report::{Finding, Located, Location, Report};
use crate::suggest;
use crate::tree::{Key, Node, Value};

/// A hook whose keys are not yet decoded.
pub(crate) struct HookEntry {
    place: Location,
    fields: Vec<(Key, Node)>,
}

/// Splits a list into its hooks.
pub(super) fn split_hooks(node: Node, place: &Location, report: &mut Report<'_>) -> Vec<HookEntry> {
    let items = match node.value {
        Value::Array(items) => items,
        other => {
            let message = format!("must be a list of tables, not {}", other.type_name());
            let mut finding = Finding::new(ProblemKind::WrongType, message);
            if matches!(other, Value::Table(_)) {
                finding = finding.hint(format!("write `[[{}]]`, with two brackets", place.key));
            }
            report.error(place, finding);
            return Vec::new();
        }
    };
    let style = Style::Strict;
    let mut read = Fields { report, style };
    let mut entries = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        let place = Location::new(item.offset, format!("{}[{index}]", place.key));
        match item.value {
            Value::Table(fields) => entries.push(HookEntry { place, fields }),
            other => read.report_wrong_type(&place, "a table with `command` or `webhook`", &other),
        }
    }
    entries
}

/// Decodes the keys of one hook.
pub(crate) fn decode_hook(entry: HookEntry, report: &mut Report<'_>) -> Located<RawHook> {
    let HookEntry { place: hook, fields } = entry;
    let mut raw = RawHook::default();
    let style = Style::Strict;
    let mut read = Fields { report, style };
    for (key, node) in fields {
        let place = hook.join(&key.name, node.offset);
        match key.name.as_str() {
            "on" => raw.on = decode_events(&mut read, node, place),
            "command" => {
                raw.command = read.string(node, place);
                raw.action_garbled |= raw.command.is_none();
            }
            "args" => raw.args = read.strings(node, place),
            "env" => raw.env = read.map(node, place),
            "cwd" => raw.cwd = read.string(node, place),
            "webhook" => {
                raw.webhook = read.string(node, place);
                raw.action_garbled |= raw.webhook.is_none();
            }
            "headers" => raw.headers = read.map(node, place),
            "timeout" => raw.timeout = read.duration(&node, place),
            unknown => {
                let meant = suggest_key(unknown);
                raw.action_garbled |= matches!(meant, Some("command" | "webhook"));
                let mut finding = Finding::new(ProblemKind::UnknownKey, "unknown key");
                finding.hint = meant.map(|meant| format!("did you mean `{meant}`?"));
                read.report.error(&hook.join(unknown, key.offset), finding);
            }
        }
    }
    Located::new(raw, hook)
}

/// Decodes the events: one name, or a list of them. An empty list does not mean all events but a
/// mistake.
fn decode_events(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<Located<Vec<HookEvent>>> {
    let names = match node.value {
        Value::String(_) => vec![read.string(node, place.clone())?],
        Value::Array(ref items) if items.is_empty() => {
            let finding = Finding::new(ProblemKind::InvalidValue, "names no event")
                .hint("leave `on` out for every event");
            read.report.error(&place, finding);
            return None;
        }
        Value::Array(_) => read.strings(node, place.clone())?.value,
        other => {
            read.report_wrong_type(&place, "an event or a list of events", &other);
            return None;
        }
    };
    let mut events = Vec::new();
    for name in names {
        match name.value.parse::<HookEvent>() {
            Ok(event) if events.contains(&event) => {}
            Ok(event) => events.push(event),
            Err(unknown) => {
                let mut finding = Finding::new(ProblemKind::InvalidValue, unknown.to_string());
                finding.hint = suggest::closest(&name.value, HookEvent::ALL.map(HookEvent::as_str))
                    .map(|meant| format!("did you mean \"{meant}\"?"));
                read.report.error(&name.place, finding);
            }
        }
    }
    Some(Located::new(events, place))
}

/// Guesses which key an unknown one stands for.
fn suggest_key(key: &str) -> Option<&'static str> {
    suggest::closest(key, RawHook::KEYS).or(match key {
        "event" | "events" | "when" | "trigger" => Some("on"),
        "cmd" | "run" | "exec" => Some("command"),
        "url" | "uri" | "http" | "endpoint" => Some("webhook"),
        "environment" => Some("env"),
        _ => None,
    })
}
