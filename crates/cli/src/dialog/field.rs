//! Edits one field of a form: how it is shown, and how its value is entered.

use bowline::Json;
use bowline::types::{ChoiceOption, Field, FieldKind};
use bowline_proto::form;

use super::form_field::{FieldInput, FormField};
use super::frame::{Frame, Row, TerminalSize, truncate};
use super::key::Key;
use super::line_editor::LineEditor;
use super::menu::{Menu, MenuItem};
use crate::print::NAME;

pub(super) enum FieldEditor {
    /// A line of text.
    Text(LineEditor),
    /// One of the field's options, or nothing if it is optional.
    SingleChoice(Menu),
    /// Any number of the field's options.
    MultiChoice(Menu),
}

/// Menu item that leaves an optional field out.
const LEAVE_OUT_TITLE: &str = "(leave it out)";
/// Yes comes first, as everywhere.
const BOOLEANS: [(&str, bool); 2] = [("Yes", true), ("No", false)];

impl FieldEditor {
    /// Creates an editor that holds the current value.
    // EL-06.
    pub(super) fn new(form_field: &FormField, value: Option<&Json>) -> Self {
        let optional = form_field.is_optional;
        let field = match &form_field.input {
            FieldInput::Plain(field) => field,
            FieldInput::Choice(_, values) => {
                let at = values.iter().position(|choice| Some(choice) == value);
                let items: Vec<MenuItem> = values
                    .iter()
                    .map(|value| MenuItem::new(truncate(&value_text(Some(value)), 200)))
                    .collect();
                return Self::SingleChoice(choice_menu(optional, &items, at));
            }
            FieldInput::Value(_) | FieldInput::Items(..) => {
                return Self::Text(LineEditor::new(&value_text(value)));
            }
        };
        match &field.kind {
            FieldKind::Boolean => {
                let now = value.and_then(|value| value.decode::<bool>().ok());
                let at = BOOLEANS.iter().position(|(_, value)| Some(*value) == now);
                Self::SingleChoice(choice_menu(
                    optional,
                    &BOOLEANS.map(|(title, _)| MenuItem::new(title)),
                    at,
                ))
            }
            FieldKind::Choice(options) => {
                let now = value.and_then(|value| value.decode::<String>().ok());
                let at = options.iter().position(|option| Some(&*option.value) == now.as_deref());
                Self::SingleChoice(choice_menu(optional, &choice_items(options, &[]), at))
            }
            FieldKind::Choices { options, .. } => {
                let now: Vec<String> = value.and_then(|value| value.decode().ok()).unwrap_or_default();
                Self::MultiChoice(Menu::multi_choice(choice_items(options, &now)))
            }
            _ => Self::Text(LineEditor::new(&value_text(value))),
        }
    }

    /// Handles a key, and returns whether the editor used it.
    pub(super) fn handle_key(&mut self, key: &Key) -> bool {
        match self {
            Self::Text(line) => line.handle_key(key),
            Self::SingleChoice(menu) | Self::MultiChoice(menu) => menu.handle_key(key),
        }
    }

    /// Returns the value that was entered, or `None` if the field is left out.
    pub(super) fn value(&self, form_field: &FormField) -> Result<Option<Json>, String> {
        let optional = form_field.is_optional;
        let field = match (&form_field.input, self) {
            (FieldInput::Plain(field), _) => field,
            (FieldInput::Choice(_, values), Self::SingleChoice(menu)) => {
                return Ok(values.get(menu.at).cloned());
            }
            (FieldInput::Value(field) | FieldInput::Items(field, _), Self::Text(line)) => {
                return match line.text().trim() {
                    "" if optional => Ok(None),
                    "" => Err("must be filled in".to_owned()),
                    text => (field.parse)(text).map(Some),
                };
            }
            (FieldInput::Choice(..) | FieldInput::Value(_) | FieldInput::Items(..), _) => {
                unreachable!("made for the kind of its field")
            }
        };
        let json = |value: Result<Json, _>| value.map(Some).map_err(|_| "cannot be written".to_owned());
        let value = match (self, &field.kind) {
            (Self::Text(line), _) => {
                let text = line.text();
                if text.trim().is_empty() && field.required && field.default.is_none() {
                    return Err("must be filled in".to_owned());
                }
                let empty = text.trim().is_empty() && optional;
                if empty { None } else { Some(form::parse_field(field, &text)?) }
            }
            (Self::SingleChoice(menu), FieldKind::Boolean) => match BOOLEANS.get(menu.at) {
                Some((_, value)) => json(Json::encode(value))?,
                None => None,
            },
            (Self::SingleChoice(menu), FieldKind::Choice(options)) => match options.get(menu.at) {
                Some(option) => json(Json::encode(&*option.value))?,
                None => None,
            },
            (Self::MultiChoice(menu), FieldKind::Choices { options, .. }) => {
                let chosen: Vec<&str> = menu.chosen().map(|at| &*options[at].value).collect();
                let empty = chosen.is_empty() && optional;
                if empty { None } else { json(Json::encode(&chosen))? }
            }
            (Self::SingleChoice(_) | Self::MultiChoice(_), _) => {
                unreachable!("made for the kind of its field")
            }
        };
        value.map(|value| form::check_field(field, &value).map(|()| value)).transpose()
    }

    pub(super) fn draw(&self, picture: &mut Frame, room: TerminalSize) {
        match self {
            Self::Text(line) => {
                let (text, column) = line.window(room.columns.saturating_sub(INPUT_PREFIX.len()));
                picture.cursor = Some((picture.rows.len(), INPUT_PREFIX.len() + column));
                picture.push_row(Row::new(NAME, INPUT_PREFIX).with(anstyle::Style::new(), &text));
            }
            Self::SingleChoice(menu) | Self::MultiChoice(menu) => picture.rows.extend(menu.rows(room.rows)),
        }
    }

    /// Returns what has been typed, if the value is typed.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Text(line) => Some(line.text()),
            Self::SingleChoice(_) | Self::MultiChoice(_) => None,
        }
    }

    /// Replaces what has been typed.
    pub(super) fn set_text(&mut self, text: &str) {
        if let Self::Text(line) = self {
            *line = LineEditor::new(text);
        }
    }

    /// Describes the keys of the editor.
    pub(super) fn key_hint(&self) -> &'static str {
        match self {
            Self::Text(_) => "enter goes on",
            Self::SingleChoice(_) => "enter chooses",
            Self::MultiChoice(_) => "space marks, enter goes on",
        }
    }
}

/// Stands before the input.
const INPUT_PREFIX: &str = "  > ";

/// Formats a value on one line.
pub(super) fn format_value(field: &FormField, value: Option<&Json>) -> String {
    let Some(value) = value else {
        return match field.default() {
            Some(default) => format!("(left out, default {})", value_text(Some(default))),
            None => "(left out)".to_owned(),
        };
    };
    let FieldInput::Plain(field) = &field.input else { return value_text(Some(value)) };
    let title = |options: &[ChoiceOption], value: &str| {
        let option = options.iter().find(|option| &*option.value == value);
        option.map_or(value, |option| &*option.title).to_owned()
    };
    match &field.kind {
        FieldKind::Choice(options) => value.decode::<String>().map(|value| title(options, &value)).ok(),
        FieldKind::Choices { options, .. } => value.decode::<Vec<String>>().ok().map(|values| {
            let titles: Vec<String> = values.iter().map(|value| title(options, value)).collect();
            if titles.is_empty() { "(none)".to_owned() } else { titles.join(", ") }
        }),
        FieldKind::Boolean => value.decode().ok().map(|yes: bool| if yes { "Yes" } else { "No" }.to_owned()),
        _ => None,
    }
    .unwrap_or_else(|| value_text(Some(value)))
}

/// Describes the values that the field accepts.
pub(super) fn describe_constraints(form_field: &FormField) -> String {
    let mut parts: Vec<String> = match &form_field.input {
        FieldInput::Plain(field) => describe_kind(field),
        FieldInput::Choice(_, values) => vec![format!("one of {}", values.len())],
        FieldInput::Value(field) | FieldInput::Items(field, _) => vec![truncate(&field.expected, 200)],
    };
    if form_field.is_optional {
        parts.push("may be left out".to_owned());
    }
    parts.join(", ")
}

fn describe_kind(field: &Field) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let range = |least: Option<String>, most: Option<String>, what: &str| match (least, most) {
        (Some(least), Some(most)) if least == most => Some(format!("{least}{what}")),
        (Some(least), Some(most)) => Some(format!("{least} to {most}{what}")),
        (Some(least), None) => Some(format!("at least {least}{what}")),
        (None, Some(most)) => Some(format!("at most {most}{what}")),
        (None, None) => None,
    };
    let text = |count: &Option<u64>| count.map(|count| count.to_string());
    let number = |bound: &Option<f64>| bound.map(|bound| bound.to_string());
    match &field.kind {
        FieldKind::Text { min_length, max_length, format, pattern, .. } => {
            parts.push(match format.as_deref() {
                Some("email") => "an e-mail address".to_owned(),
                Some("uri") => "a URI, with its scheme".to_owned(),
                Some("date") => "a date, such as 2026-07-28".to_owned(),
                Some("date-time") => "a time, such as 2026-07-28T09:30:00Z".to_owned(),
                _ => "text".to_owned(),
            });
            parts.extend(range(text(min_length), text(max_length), " characters"));
            parts.extend(pattern.as_ref().map(|pattern| format!("like {}", truncate(pattern, 100))));
        }
        FieldKind::Number { integer, minimum, maximum, .. } => {
            parts.push(if *integer { "a whole number" } else { "a number" }.to_owned());
            parts.extend(range(number(minimum), number(maximum), ""));
        }
        FieldKind::Boolean => parts.push("yes or no".to_owned()),
        FieldKind::Choice(options) => parts.push(format!("one of {}", options.len())),
        FieldKind::Choices { options, min_items, max_items, .. } => {
            parts.push(format!("some of {}", options.len()));
            parts.extend(range(text(min_items), text(max_items), ""));
        }
        _ => {}
    }
    parts
}

fn choice_menu(optional: bool, options: &[MenuItem], at: Option<usize>) -> Menu {
    let mut items = options.to_vec();
    if optional {
        items.push(MenuItem::new(LEAVE_OUT_TITLE));
    }
    // Nothing is preselected for the person where the field may be left out.
    let at = at.unwrap_or(if optional { options.len() } else { 0 });
    Menu::single_choice(items, at)
}

fn choice_items(options: &[ChoiceOption], chosen: &[String]) -> Vec<MenuItem> {
    let item = |option: &ChoiceOption| {
        let item = MenuItem::new(truncate(&option.title, 200));
        item.chosen(chosen.iter().any(|value| **value == *option.value))
    };
    options.iter().map(item).collect()
}

/// Formats a value as a person would type it.
pub(super) fn value_text(value: Option<&Json>) -> String {
    let Some(value) = value else { return String::new() };
    value.decode::<String>().unwrap_or_else(|_| value.as_str().to_owned())
}
