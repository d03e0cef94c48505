//! Edits a list of objects: each object member by member, and after each whether there is another one.

use anstyle::Style;
use bowline::Json;
use serde_json::{Map, Value};

use super::argument_form::set_member;
use super::field::FieldEditor;
use super::form_field::{FormField, ValueField};
use super::frame::{Frame, Row, TerminalSize};
use super::key::Key;
use super::menu::{Menu, MenuItem};

/// Editor of a list whose items have fields of their own.
pub(super) struct ItemEditor {
    /// The objects that are complete, by the values of their members.
    objects: Vec<Vec<Option<Json>>>,
    /// The first members of the object that is being filled in.
    members: Vec<Option<Json>>,
    step: ItemStep,
    /// Whether the list need not have an object.
    may_be_empty: bool,
}

/// What is asked for.
enum ItemStep {
    /// The next member of an object.
    Member(FieldEditor),
    /// Whether there is another object.
    Another(Menu),
}

/// Index of the answer that begins another object.
const YES: usize = 0;

impl ItemEditor {
    /// Creates an editor of a list that is empty. Asks for the first object at once if the list needs one.
    pub(super) fn new(list: &ValueField, members: &[FormField]) -> Self {
        let may_be_empty = (list.parse)("[]").is_ok();
        let step = ItemStep::Another(another_menu(YES));
        let mut editor = Self { objects: Vec::new(), members: Vec::new(), step, may_be_empty };
        if !may_be_empty {
            editor.edit_member(members, None);
        }
        editor
    }

    /// Asks whether there is another object; for the first one, a yes is suggested.
    fn ask_for_another(&mut self) {
        self.step = ItemStep::Another(another_menu(if self.objects.is_empty() { YES } else { YES + 1 }));
    }

    /// Shows the editor of the next member, with a value that was entered before.
    fn edit_member(&mut self, members: &[FormField], entered: Option<Json>) {
        let Some(field) = members.get(self.members.len()) else { return };
        // An optional one that is left alone is not sent.
        let default = field.default().filter(|_| !field.is_optional);
        self.step = ItemStep::Member(FieldEditor::new(field, entered.as_ref().or(default)));
    }

    /// Handles a key, and returns whether the editor used it.
    pub(super) fn handle_key(&mut self, key: &Key) -> bool {
        match &mut self.step {
            ItemStep::Member(editor) => editor.handle_key(key),
            ItemStep::Another(menu) => menu.handle_key(key),
        }
    }

    /// Accepts what is shown. Returns the list if it is complete.
    pub(super) fn accept(
        &mut self,
        list: &ValueField,
        members: &[FormField],
    ) -> Result<Option<Json>, String> {
        match &self.step {
            ItemStep::Member(editor) => {
                let Some(field) = members.get(self.members.len()) else { return Ok(None) };
                self.members.push(editor.value(field)?);
                if self.members.len() < members.len() {
                    self.edit_member(members, None);
                } else {
                    self.objects.push(std::mem::take(&mut self.members));
                    self.ask_for_another();
                }
                Ok(None)
            }
            ItemStep::Another(menu) if menu.at == YES => {
                self.edit_member(members, None);
                Ok(None)
            }
            ItemStep::Another(_) => {
                let objects = self.objects.iter().map(|values| to_object(members, values));
                (list.parse)(&Value::Array(objects.collect()).to_string()).map(Some)
            }
        }
    }

    /// Goes back to what was asked for before. Returns `false` if that was not about this list.
    pub(super) fn go_back(&mut self, members: &[FormField]) -> bool {
        match self.step {
            ItemStep::Another(_) => match self.objects.pop() {
                Some(last) => self.members = last,
                None => return false,
            },
            ItemStep::Member(_) if self.members.is_empty() => {
                let was_asked = !self.objects.is_empty() || self.may_be_empty;
                if was_asked {
                    self.ask_for_another();
                }
                return was_asked;
            }
            ItemStep::Member(_) => {}
        }
        let entered = self.members.pop().flatten();
        self.edit_member(members, entered);
        true
    }

    /// Returns where the member is that is asked for, after the name of the list.
    pub(super) fn place(&self, members: &[FormField]) -> String {
        match &self.step {
            ItemStep::Member(_) => {
                let name = members.get(self.members.len()).map(FormField::label).unwrap_or_default();
                format!("[{}].{name}", self.objects.len())
            }
            ItemStep::Another(_) => String::new(),
        }
    }

    /// Returns the member that is asked for.
    pub(super) fn member<'a>(&self, members: &'a [FormField]) -> Option<&'a FormField> {
        match self.step {
            ItemStep::Member(_) => members.get(self.members.len()),
            ItemStep::Another(_) => None,
        }
    }

    pub(super) fn draw(&self, picture: &mut Frame, room: TerminalSize) {
        match &self.step {
            ItemStep::Member(editor) => editor.draw(picture, room),
            ItemStep::Another(menu) => {
                let question = if self.objects.is_empty() { "add one?" } else { "another?" };
                picture.push_row(Row::new(Style::new(), "    ").with(Style::new(), question));
                picture.rows.extend(menu.rows(room.rows));
            }
        }
    }

    /// Describes the keys of the editor.
    pub(super) fn key_hint(&self) -> &'static str {
        match &self.step {
            ItemStep::Member(editor) => editor.key_hint(),
            ItemStep::Another(_) => "enter chooses",
        }
    }
}

fn another_menu(at: usize) -> Menu {
    Menu::single_choice(["Yes", "No"].map(MenuItem::new).into(), at)
}

fn to_object(members: &[FormField], values: &[Option<Json>]) -> Value {
    let mut object = Map::new();
    for (field, value) in members.iter().zip(values) {
        if let Some(value) = value.as_ref().and_then(|value| value.decode::<Value>().ok()) {
            set_member(&mut object, &field.path, value);
        }
    }
    Value::Object(object)
}
