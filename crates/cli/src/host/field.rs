//! Edits one field of a form: how it is shown, and how its value is entered.

use bowline::form;
use bowline::view::{ChoiceOption, Field, FieldKind};
use bowline::wire::Json;

use super::key::Key;
use super::line::Line;
use super::look::{Picture, Room, Row, bounded};
use super::menu::{Item, Menu};
use crate::print::NAME;

/// The editor for the value of a field.
pub(super) enum Editor {
    /// A line of text.
    Text(Line),
    /// One of the field's options, or nothing if it is optional.
    One(Menu),
    /// Any number of the field's options.
    Some(Menu),
}

/// Menu item that leaves an optional field out.
const NOTHING: &str = "(leave it out)";
/// Yes comes first, as everywhere.
const BOOLEANS: [(&str, bool); 2] = [("Yes", true), ("No", false)];

impl Editor {
    /// Creates an editor that holds the current value.
    // EL-06.
    pub(super) fn new(field: &Field, value: Option<&Json>) -> Self {
        match &field.kind {
            FieldKind::Text { .. } | FieldKind::Number { .. } => Self::Text(Line::new(&typed(value))),
            FieldKind::Boolean => {
                let now = value.and_then(|value| value.decode::<bool>().ok());
                let at = BOOLEANS.iter().position(|(_, value)| Some(*value) == now);
                Self::One(menu(field, &BOOLEANS.map(|(title, _)| Item::new(title)), at))
            }
            FieldKind::Choice(options) => {
                let now = value.and_then(|value| value.decode::<String>().ok());
                let at = options.iter().position(|option| Some(&*option.value) == now.as_deref());
                Self::One(menu(field, &items(options, &[]), at))
            }
            FieldKind::Choices { options, .. } => {
                let now: Vec<String> = value.and_then(|value| value.decode().ok()).unwrap_or_default();
                Self::Some(Menu::some(items(options, &now)))
            }
        }
    }

    /// Handles a key, and returns whether the editor used it.
    pub(super) fn handle(&mut self, key: &Key) -> bool {
        match self {
            Self::Text(line) => line.handle(key),
            Self::One(menu) | Self::Some(menu) => menu.handle(key),
        }
    }

    /// Returns the value that was entered, or `None` if the field is left out.
    pub(super) fn value(&self, field: &Field) -> Result<Option<Json>, String> {
        let json = |value: Result<Json, _>| value.map(Some).map_err(|_| "cannot be written".to_owned());
        let value = match (self, &field.kind) {
            (Self::Text(line), _) => {
                let text = line.text();
                if text.trim().is_empty() && field.required && field.default.is_none() {
                    return Err("must be filled in".to_owned());
                }
                let empty = text.trim().is_empty() && may_be_left_out(field);
                if empty { None } else { Some(form::parse(field, &text)?) }
            }
            (Self::One(menu), FieldKind::Boolean) => match BOOLEANS.get(menu.at()) {
                Some((_, value)) => json(Json::encode(value))?,
                None => None,
            },
            (Self::One(menu), FieldKind::Choice(options)) => match options.get(menu.at()) {
                Some(option) => json(Json::encode(&*option.value))?,
                None => None,
            },
            (Self::Some(menu), FieldKind::Choices { options, .. }) => {
                let chosen: Vec<&str> = menu.chosen().map(|at| &*options[at].value).collect();
                let empty = chosen.is_empty() && may_be_left_out(field);
                if empty { None } else { json(Json::encode(&chosen))? }
            }
            (Self::One(_) | Self::Some(_), _) => unreachable!("made for the kind of its field"),
        };
        value.map(|value| form::check_field(field, &value).map(|()| value)).transpose()
    }

    /// Draws the editor into a frame.
    pub(super) fn draw(&self, picture: &mut Picture, room: Room) {
        match self {
            Self::Text(line) => {
                let (text, column) = line.window(room.columns.saturating_sub(INPUT.len()));
                picture.cursor = Some((picture.rows.len(), INPUT.len() + column));
                picture.row(Row::of(NAME, INPUT).then(anstyle::Style::new(), &text));
            }
            Self::One(menu) | Self::Some(menu) => picture.rows.extend(menu.rows(room.rows)),
        }
    }

    /// Describes the keys of the editor.
    pub(super) fn keys(&self) -> &'static str {
        match self {
            Self::Text(_) => "enter goes on",
            Self::One(_) => "enter chooses",
            Self::Some(_) => "space marks, enter goes on",
        }
    }
}

/// Stands before the input.
const INPUT: &str = "  > ";

/// Returns the title of the field, or its name.
pub(super) fn label(field: &Field) -> String {
    let title = field.title().filter(|title| !title.trim().is_empty());
    bounded(title.as_deref().unwrap_or(&field.name), 200)
}

/// Formats a value on one line.
pub(super) fn shown(field: &Field, value: Option<&Json>) -> String {
    let Some(value) = value else { return "(left out)".to_owned() };
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
        FieldKind::Text { .. } | FieldKind::Number { .. } => None,
    }
    .unwrap_or_else(|| typed(Some(value)))
}

/// Describes the values that the field accepts.
pub(super) fn wants(field: &Field) -> String {
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
        FieldKind::Text { min_length, max_length, format, pattern } => {
            parts.push(match format.as_deref() {
                Some("email") => "an e-mail address".to_owned(),
                Some("uri") => "a URI, with its scheme".to_owned(),
                Some("date") => "a date, such as 2026-07-28".to_owned(),
                Some("date-time") => "a time, such as 2026-07-28T09:30:00Z".to_owned(),
                _ => "text".to_owned(),
            });
            parts.extend(range(text(min_length), text(max_length), " characters"));
            parts.extend(pattern.as_ref().map(|pattern| format!("like {}", bounded(pattern, 100))));
        }
        FieldKind::Number { integer, minimum, maximum } => {
            parts.push(if *integer { "a whole number" } else { "a number" }.to_owned());
            parts.extend(range(number(minimum), number(maximum), ""));
        }
        FieldKind::Boolean => parts.push("yes or no".to_owned()),
        FieldKind::Choice(options) => parts.push(format!("one of {}", options.len())),
        FieldKind::Choices { options, min_items, max_items } => {
            parts.push(format!("some of {}", options.len()));
            parts.extend(range(text(min_items), text(max_items), ""));
        }
    }
    if may_be_left_out(field) {
        parts.push("may be left out".to_owned());
    }
    parts.join(", ")
}

/// Returns whether the field may be left out. A field with a default may not, since the default
/// would be sent.
// EL-06.
fn may_be_left_out(field: &Field) -> bool {
    !field.required && field.default.is_none()
}

fn menu(field: &Field, options: &[Item], at: Option<usize>) -> Menu {
    let mut items = options.to_vec();
    let optional = may_be_left_out(field);
    if optional {
        items.push(Item::new(NOTHING));
    }
    // Nothing is preselected for the person where the field may be left out.
    let at = at.unwrap_or(if optional { options.len() } else { 0 });
    Menu::one(items, at)
}

fn items(options: &[ChoiceOption], chosen: &[String]) -> Vec<Item> {
    let item = |option: &ChoiceOption| {
        let item = Item::new(bounded(&option.title, 200));
        item.chosen(chosen.iter().any(|value| **value == *option.value))
    };
    options.iter().map(item).collect()
}

/// Formats a value as a person would type it.
fn typed(value: Option<&Json>) -> String {
    let Some(value) = value else { return String::new() };
    value.decode::<String>().unwrap_or_else(|_| value.as_str().to_owned())
}
