//! Owns how single values are read: as the right type with its location, or as a finding.

use std::collections::HashSet;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use super::ServerEntry;
use crate::check::InvalidValue;
use crate::duration::{self, Unit, ZeroMeaning};
use crate::keys::{
    Boolean, Choice, Count, KeyTable, Port, Scopes, StringMap, Strings, Text, Timeout, ValueKind as _,
};
use crate::problem::ProblemKind;
use crate::raw::RawMap;
use crate::report::{Finding, LocatedValue, Location, Report};
use crate::suggest;
use crate::tree::{Key, Node, Value};
use crate::words::Words;

/// How forgiving the dialect is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Our own dialect: strings are strings, and a bare duration is in seconds.
    Strict,
    /// A host's dialect: numbers and booleans pass for strings, `null` for absence, and a bare
    /// duration is in milliseconds.
    Lenient,
}

/// Reads values of a table in the style of its dialect.
pub(crate) struct Fields<'r, 'a> {
    pub(crate) report: &'r mut Report<'a>,
    pub(crate) style: Style,
}

impl Fields<'_, '_> {
    pub(crate) fn string(&mut self, node: Node, place: Location) -> Option<LocatedValue<String>> {
        let text = match (node.value, self.style) {
            (Value::String(text), _) => text,
            (Value::Number(number), Style::Lenient) => number,
            (Value::Bool(truth), Style::Lenient) => truth.to_string(),
            (other, _) => return self.wrong_type(&place, Text::FORM, &other),
        };
        Some(LocatedValue::new(text, place))
    }

    pub(crate) fn strings(
        &mut self,
        node: Node,
        place: Location,
    ) -> Option<LocatedValue<Vec<LocatedValue<String>>>> {
        let Value::Array(items) = node.value else {
            return self.wrong_type(&place, Strings::FORM, &node.value);
        };
        let strings = items
            .into_iter()
            .enumerate()
            .filter_map(|(index, item)| {
                let place = Location::new(item.offset, format!("{}[{index}]", place.key));
                self.string(item, place)
            })
            .collect();
        Some(LocatedValue::new(strings, place))
    }

    pub(crate) fn map(&mut self, node: Node, place: Location) -> Option<LocatedValue<RawMap>> {
        let Value::Table(fields) = node.value else {
            return self.wrong_type(&place, StringMap::FORM, &node.value);
        };
        let mut map = RawMap::new();
        for (key, value) in self.unique(fields, &place) {
            let inner = place.join(&key.name, value.offset);
            if self.style == Style::Lenient && matches!(value.value, Value::Null) {
                self.report.note(&inner, Finding::new(ProblemKind::Ignored, "null is left out"));
                continue;
            }
            if let Some(value) = self.string(value, inner) {
                // The location of the name carries the key of the table: a malformed name may be a
                // secret written on the wrong side, and must not be quoted in a key.
                let name = LocatedValue::new(key.name, Location::new(key.offset, place.key.clone()));
                map.push((name, value));
            }
        }
        Some(LocatedValue::new(map, place))
    }

    pub(crate) fn boolean(&mut self, node: &Node, place: Location) -> Option<LocatedValue<bool>> {
        let Value::Bool(truth) = node.value else {
            return self.wrong_type(&place, Boolean::FORM, &node.value);
        };
        Some(LocatedValue::new(truth, place))
    }

    pub(crate) fn duration(&mut self, node: &Node, place: Location) -> Option<LocatedValue<Duration>> {
        let unit = match self.style {
            Style::Strict => Unit::Seconds,
            Style::Lenient => Unit::Milliseconds,
        };
        self.time(node, place, unit, ZeroMeaning::Invalid)
    }

    /// Reads a duration of a key that only bowline has: it counts seconds in every dialect, and
    /// zero turns something off.
    pub(crate) fn interval(&mut self, node: &Node, place: Location) -> Option<LocatedValue<Duration>> {
        if let (Value::Number(number) | Value::String(number), Style::Lenient) = (&node.value, self.style)
            && number.parse::<f64>().is_ok_and(|number| number >= 1000.0)
        {
            let message = format!("read as {number} seconds");
            let hint = format!("write \"{number}ms\" if it was meant in milliseconds");
            self.report.note(&place, Finding::new(ProblemKind::Doubtful, message).hint(hint));
        }
        self.time(node, place, Unit::Seconds, ZeroMeaning::Off)
    }

    /// Reads a whole number of at least 1.
    pub(crate) fn count(&mut self, node: &Node, place: Location) -> Option<LocatedValue<u32>> {
        self.whole_number(node, place, Count::FORM, u32::MAX)
    }

    /// Reads a port number.
    pub(crate) fn port(&mut self, node: &Node, place: Location) -> Option<LocatedValue<u16>> {
        self.whole_number(node, place, Port::FORM, u16::MAX)
    }

    fn whole_number<T: FromStr + PartialEq + Default + Display>(
        &mut self,
        node: &Node,
        place: Location,
        form: &str,
        max: T,
    ) -> Option<LocatedValue<T>> {
        let Value::Number(number) = &node.value else {
            return self.wrong_type(&place, form, &node.value);
        };
        let number = number.parse().ok().filter(|number| *number != T::default());
        if number.is_none() {
            let message = format!("must be a whole number from 1 to {max}");
            self.report.error(&place, Finding::new(ProblemKind::InvalidValue, message));
        }
        number.map(|number| LocatedValue::new(number, place))
    }

    /// Reads one of the words of `T`.
    pub(crate) fn choice<T: Words>(&mut self, node: Node, place: Location) -> Option<LocatedValue<T>> {
        let LocatedValue { value, place } = self.string(node, place)?;
        if let Some(choice) = T::find(&value) {
            return Some(LocatedValue::new(choice, place));
        }
        let message = format!("must be {}", Choice::<T>::form());
        let mut finding = Finding::new(ProblemKind::InvalidValue, message);
        finding.hint = suggest::closest(&value, T::WORDS.iter().copied())
            .map(|meant| format!("did you mean \"{meant}\"?"));
        self.report.error(&place, finding);
        None
    }

    /// Reads one string, or a list of them.
    pub(crate) fn one_or_more(
        &mut self,
        node: Node,
        place: Location,
    ) -> Option<LocatedValue<Vec<LocatedValue<String>>>> {
        if matches!(node.value, Value::Array(_)) {
            return self.strings(node, place);
        }
        if !matches!(node.value, Value::String(_)) {
            return self.wrong_type(&place, Scopes::FORM, &node.value);
        }
        let one = self.string(node, place.clone())?;
        Some(LocatedValue::new(vec![one], place))
    }

    /// Reads the fields of a table.
    pub(crate) fn table(&mut self, node: Node, place: &Location) -> Option<Vec<(Key, Node)>> {
        match node.value {
            Value::Table(fields) => Some(self.unique(fields, place)),
            other => self.wrong_type(place, "a table", &other),
        }
    }

    /// Reads a table and its keys.
    pub(crate) fn key_table<T: KeyTable>(&mut self, node: Node, place: Location) -> Option<LocatedValue<T>> {
        let fields = self.table(node, &place)?;
        Some(LocatedValue::new(self.keys(fields, &place), place))
    }

    /// Reads the keys of a table. An unknown one is an error, and what was probably meant by it
    /// counts as garbled.
    pub(crate) fn keys<T: KeyTable>(&mut self, fields: Vec<(Key, Node)>, table: &Location) -> T {
        let mut raw = T::default();
        for (key, node) in self.unique(fields, table) {
            if let Some(known) = T::find(&key.name) {
                let offset = if known.has_header { key.offset } else { node.offset };
                let place = table.join(&key.name, offset);
                raw.read_key(known.name, self, node, place);
                continue;
            }
            self.unknown_key(&mut raw, &key, &node.value, table);
        }
        raw
    }

    /// Reports an unknown key, with the key that was probably meant.
    pub(crate) fn unknown_key<T: KeyTable>(
        &mut self,
        raw: &mut T,
        key: &Key,
        value: &Value,
        table: &Location,
    ) {
        let meant = T::suggest(&key.name);
        raw.garbled().extend(meant);
        let finding = T::explain(&key.name, value, table).unwrap_or_else(|| {
            let mut finding = Finding::new(ProblemKind::UnknownKey, "unknown key");
            finding.hint = meant.map(|meant| format!("did you mean `{meant}`?"));
            finding
        });
        self.report.error(&table.join(&key.name, key.offset), finding);
    }

    fn time(
        &mut self,
        node: &Node,
        place: Location,
        unit: Unit,
        zero: ZeroMeaning,
    ) -> Option<LocatedValue<Duration>> {
        let duration = match &node.value {
            Value::Number(number) => duration::from_number(number, unit, zero),
            Value::String(text) => duration::from_text(text, unit, zero),
            other => return self.wrong_type(&place, Timeout::FORM, other),
        };
        match duration {
            Ok(duration) => Some(LocatedValue::new(duration, place)),
            Err(invalid) => {
                let mut finding = Finding::new(ProblemKind::InvalidValue, invalid.to_string());
                finding.hint = invalid.hint().map(str::to_owned);
                self.report.error(&place, finding);
                None
            }
        }
    }

    /// Reads the entries of the table of servers. `used_name` says under which name a server is used.
    pub(crate) fn entries(
        &mut self,
        node: Node,
        place: &Location,
        used_name: &dyn Fn(&str) -> String,
    ) -> Vec<ServerEntry> {
        let Value::Table(fields) = node.value else {
            self.report_wrong_type(place, "a table of servers", &node.value);
            return Vec::new();
        };
        let (fields, repeated) = split_duplicates(fields);
        for key in repeated {
            self.report.enter_server(&used_name(&key.name));
            self.report_duplicate(&key, place);
            self.report.leave_server();
        }
        let mut entries = Vec::new();
        for (key, node) in fields {
            let place = place.join(&key.name, key.offset);
            match node.value {
                Value::Table(fields) => {
                    let name = used_name(&key.name);
                    if name != key.name {
                        let finding = Finding::new(ProblemKind::Renamed, format!("used as `{name}`"))
                            .hint(InvalidValue::Name.to_string());
                        self.report.enter_server(&name);
                        self.report.note(&place, finding);
                        self.report.leave_server();
                    }
                    entries.push(ServerEntry { name, place, fields });
                }
                other => {
                    self.report.enter_server(&used_name(&key.name));
                    self.report_wrong_type(&place, "a table with `command` or `url`", &other);
                    self.report.leave_server();
                }
            }
        }
        entries
    }

    /// Removes duplicate keys and reports each: which of two counts would be an accident of the
    /// parser.
    pub(crate) fn unique(&mut self, fields: Vec<(Key, Node)>, place: &Location) -> Vec<(Key, Node)> {
        let (fields, repeated) = split_duplicates(fields);
        for key in repeated {
            self.report_duplicate(&key, place);
        }
        fields
    }

    fn report_duplicate(&mut self, key: &Key, place: &Location) {
        let finding = Finding::new(ProblemKind::DuplicateKey, "given twice");
        self.report.error(&place.join(&key.name, key.offset), finding);
    }

    /// Reports a value of the wrong type.
    pub(crate) fn wrong_type<T>(&mut self, place: &Location, wanted: &str, found: &Value) -> Option<T> {
        self.report_wrong_type(place, wanted, found);
        None
    }

    /// Reports a value of the wrong type. `wanted` says "table"; for JSON it becomes "object".
    pub(crate) fn report_wrong_type(&mut self, place: &Location, wanted: &str, found: &Value) {
        let message = format!("must be {wanted}, not {}", found.type_name());
        let message = match self.style {
            Style::Strict => message,
            Style::Lenient => message.replace("a table", "an object"),
        };
        let mut finding = Finding::new(ProblemKind::WrongType, message);
        if wanted == Text::FORM && matches!(found, Value::Number(_) | Value::Bool(_)) {
            finding = finding.hint("put the value in quotes");
        }
        self.report.error(place, finding);
    }
}

/// Separates the first field of each name from the keys of its duplicates. Only JSON can repeat a
/// key.
fn split_duplicates(fields: Vec<(Key, Node)>) -> (Vec<(Key, Node)>, Vec<Key>) {
    let mut seen = HashSet::new();
    let (first, repeated): (Vec<_>, Vec<_>) =
        fields.into_iter().partition(|(key, _)| seen.insert(key.name.clone()));
    (first, repeated.into_iter().map(|(key, _)| key).collect())
}
