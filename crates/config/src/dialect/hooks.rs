//! Owns how hooks are written: `[[hooks]]` for all servers and `[[servers.NAME.hooks]]` for one.
//! Only our own dialect has them; in a host's file, `hooks` means something else.

use serde_json::json;

use super::fields::{Fields, Style};
use crate::hook::HookEvent;
use crate::keys::{KeyTable as _, ValueKind};
use crate::problem::ProblemKind;
use crate::raw::RawHook;
use crate::report::{Finding, LocatedValue, Location, Report};
use crate::suggest;
use crate::tree::{Key, Node, Value};
use crate::words::Words as _;

/// A hook whose keys are not yet decoded.
pub(crate) struct HookEntry {
    place: Location,
    fields: Vec<(Key, Node)>,
}

/// A list of hooks, not yet decoded.
pub(crate) struct UnreadHooks;

/// A list of hooks.
pub(crate) struct HookList;

/// One event, or a list of them.
pub(crate) struct HookEvents;

/// Splits a list into its hooks.
fn split_hooks(node: Node, place: &Location, report: &mut Report<'_>) -> Vec<HookEntry> {
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
pub(crate) fn decode_hook(entry: HookEntry, report: &mut Report<'_>) -> LocatedValue<RawHook> {
    let HookEntry { place, fields } = entry;
    let raw = Fields { report, style: Style::Strict }.keys(fields, &place);
    LocatedValue::new(raw, place)
}

impl ValueKind for UnreadHooks {
    type Value = Vec<HookEntry>;
    const HAS_HEADER: bool = true;
    const FORM: &str = "a list of tables";

    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Self::Value>> {
        Some(LocatedValue::new(split_hooks(node, &place, read.report), place))
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "array", "items": RawHook::table_schema() })
    }
}

impl ValueKind for HookList {
    type Value = Vec<LocatedValue<RawHook>>;
    const HAS_HEADER: bool = true;
    const FORM: &str = UnreadHooks::FORM;

    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Self::Value>> {
        let entries = UnreadHooks::read(read, node, place)?;
        let hooks = entries.value.into_iter().map(|hook| decode_hook(hook, read.report)).collect();
        Some(LocatedValue::new(hooks, entries.place))
    }

    fn schema() -> serde_json::Value {
        UnreadHooks::schema()
    }
}

impl ValueKind for HookEvents {
    type Value = Vec<HookEvent>;
    const FORM: &str = "an event or a list of events";

    fn read(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<Self::Value>> {
        decode_events(read, node, place)
    }

    fn schema() -> serde_json::Value {
        let event = HookEvent::schema();
        json!({ "anyOf": [event, { "type": "array", "items": event, "minItems": 1 }] })
    }
}

/// Decodes the events: one name, or a list of them. An empty list does not mean all events but a
/// mistake.
fn decode_events(
    read: &mut Fields<'_, '_>,
    node: Node,
    place: Location,
) -> Option<LocatedValue<Vec<HookEvent>>> {
    let names = match node.value {
        Value::String(_) => vec![read.string(node, place.clone())?],
        Value::Array(ref items) if items.is_empty() => {
            let finding = Finding::new(ProblemKind::InvalidValue, "names no event")
                .hint("leave `on` out for every event");
            read.report.error(&place, finding);
            return None;
        }
        Value::Array(_) => read.strings(node, place.clone())?.value,
        other => return read.wrong_type(&place, HookEvents::FORM, &other),
    };
    let mut events = Vec::new();
    for name in names {
        match HookEvent::from_name(&name.value) {
            Some(event) if events.contains(&event) => {}
            Some(event) => events.push(event),
            None => {
                let message = format!("not an event; there are: {}", HookEvent::WORDS.join(", "));
                let mut finding = Finding::new(ProblemKind::InvalidValue, message);
                finding.hint = suggest::closest(&name.value, HookEvent::WORDS.iter().copied())
                    .map(|meant| format!("did you mean \"{meant}\"?"));
                read.report.error(&name.place, finding);
            }
        }
    }
    Some(LocatedValue::new(events, place))
}
