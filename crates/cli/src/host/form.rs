//! Shows a form in the terminal: its fields one after the other, each validated before the next,
//! then a review of all of them. Nothing is sent that was not shown as a whole.
// EL-03.

use bowline::form;
use bowline::view::{ElicitResult, Form};
use bowline::wire::Json;
use bowline::wire::object::Edit;

use super::field::{self, Editor};
use super::key::Key;
use super::look::{Picture, Room, Row, Wrap};
use super::menu::{Item, Menu};
use super::terminal::Dialog;
use crate::print::{BAD, FAINT, STRONG};

/// A form that is being filled in.
pub(super) struct Filling {
    form: Form,
    /// Values by the index of their field; `None` if it is left out.
    values: Vec<Option<Json>>,
    stage: Stage,
}

enum Stage {
    /// Asks whether to answer at all.
    Door(Menu),
    /// Edits one field.
    Field { at: usize, editor: Editor, problem: Option<String>, then: Then },
    /// Reviews all fields.
    Review { menu: Menu, problem: Option<String> },
}

/// Where to go after a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Next,
    Review,
}

/// Choices before the first field.
const DOOR: [&str; 3] = ["Answer", "Decline", "Cancel"];

impl Filling {
    /// Creates a dialog for the form. Values in `given` take precedence over the server's defaults.
    pub(super) fn new(form: Form, given: &[(String, Json)]) -> Self {
        let of = |field: &bowline::view::Field| {
            let own = given.iter().find(|(name, _)| **name == *field.name).map(|(_, value)| value);
            own.or(field.default.as_ref()).cloned()
        };
        let values = form.fields.iter().map(of).collect();
        let mut filling = Self { form, values, stage: Stage::Door(door()) };
        // There is nothing to fill in, or it has been filled in already.
        if filling.form.fields.is_empty() || !given.is_empty() {
            filling.review(0);
        }
        filling
    }

    fn edit(&mut self, at: usize, then: Then) {
        let editor = Editor::new(&self.form.fields[at], self.values[at].as_ref());
        self.stage = Stage::Field { at, editor, problem: None, then };
    }

    fn review(&mut self, at: usize) {
        let mut items = vec![Item::new(if self.values.is_empty() { "Accept" } else { "Send" })];
        let fields = self.form.fields.iter().zip(&self.values);
        items.extend(fields.map(|(field, value)| {
            let shown = field::shown(field, value.as_ref());
            Item::new(format!("{}: {shown}", field::label(field))).more("edit")
        }));
        items.push(Item::new("Decline").more("tell the server no"));
        items.push(Item::new("Cancel").more("dismiss it"));
        self.stage = Stage::Review { menu: Menu::one(items, at), problem: None };
    }

    /// Returns the values of all fields as an object.
    fn content(&self) -> Json {
        let mut edit = Edit::new();
        for (field, value) in self.form.fields.iter().zip(&self.values) {
            if let Some(value) = value {
                edit = edit.set(&field.name, value);
            }
        }
        edit.apply(None).unwrap_or_else(|_| Json::empty_object())
    }

    // EL-07: invalid content is not sent.
    fn send(&mut self) -> Option<ElicitResult> {
        let content = self.content();
        let Err(errors) = form::check(&self.form, &content) else {
            return Some(ElicitResult::Accept(Some(content)));
        };
        let wrong = errors.first()?;
        let at = self.form.fields.iter().position(|field| *field.name == *wrong.field);
        let problem = Some(wrong.problem.clone());
        if let Some(at) = at {
            self.edit(at, Then::Review);
        }
        match &mut self.stage {
            Stage::Field { problem: told, .. } | Stage::Review { problem: told, .. } => *told = problem,
            Stage::Door(_) => {}
        }
        None
    }

    /// Accepts the value of the field, or shows why it is invalid.
    fn take(&mut self) {
        let Stage::Field { at, editor, problem, then } = &mut self.stage else { return };
        let (at, then) = (*at, *then);
        let field = &self.form.fields[at];
        match editor.value(field) {
            Err(why) => *problem = Some(why),
            Ok(value) => {
                self.values[at] = value;
                if then == Then::Next && at + 1 < self.values.len() {
                    self.edit(at + 1, Then::Next);
                } else {
                    self.review(if then == Then::Review { at + 1 } else { 0 });
                }
            }
        }
    }

    /// Goes back to the previous field, and discards the input of this one.
    fn back(&mut self) {
        match &self.stage {
            Stage::Field { at: 0, then: Then::Next, .. } => self.stage = Stage::Door(door()),
            Stage::Field { at, then: Then::Next, .. } => self.edit(at - 1, Then::Next),
            Stage::Field { at, then: Then::Review, .. } => self.review(at + 1),
            Stage::Review { .. } if !self.values.is_empty() => self.edit(self.values.len() - 1, Then::Next),
            Stage::Door(_) | Stage::Review { .. } => {}
        }
    }
}

impl Dialog for Filling {
    type Answer = ElicitResult;

    fn press(&mut self, key: &Key) -> Option<ElicitResult> {
        // EL-08: dismissing is not declining.
        if *key == Key::Escape {
            return Some(ElicitResult::Cancel);
        }
        if *key == Key::BackTab {
            self.back();
            return None;
        }
        match &mut self.stage {
            Stage::Door(menu) => match (key, menu.at()) {
                (Key::Enter, 0) => self.edit(0, Then::Next),
                (Key::Enter, 1) => return Some(ElicitResult::Decline),
                (Key::Enter, _) => return Some(ElicitResult::Cancel),
                _ => drop(menu.handle(key)),
            },
            Stage::Field { editor, problem, .. } => {
                if matches!(key, Key::Enter | Key::Tab) {
                    self.take();
                } else if editor.handle(key) {
                    *problem = None;
                }
            }
            Stage::Review { menu, .. } => {
                let (at, count) = (menu.at(), self.values.len());
                match key {
                    Key::Enter if at == 0 => return self.send(),
                    Key::Enter if at <= count => self.edit(at - 1, Then::Review),
                    Key::Enter if at == count + 1 => return Some(ElicitResult::Decline),
                    Key::Enter => return Some(ElicitResult::Cancel),
                    _ => drop(menu.handle(key)),
                }
            }
        }
        None
    }

    fn draw(&self, room: Room) -> Picture {
        let mut picture = Picture::default();
        match &self.stage {
            Stage::Door(menu) => {
                picture.rows.extend(menu.rows(room.rows));
                picture.row(hint("enter chooses, esc cancels"));
            }
            Stage::Field { at, editor, problem, then } => {
                let field = &self.form.fields[*at];
                let mark = if field.required { " *" } else { "" };
                let place = format!("{}/{}  ", at + 1, self.form.fields.len());
                let heading = Row::of(FAINT, &place).then(STRONG, &field::label(field)).then(BAD, mark);
                picture.row(heading);
                let wrap = Wrap { columns: room.columns, indent: 4, most: room.rows / 4 + 1 };
                if let Some(description) = field.description() {
                    picture.block(FAINT, &description, wrap);
                }
                picture.block(FAINT, &field::wants(field), wrap);
                let left = room.rows.saturating_sub(picture.rows.len() + 3);
                editor.draw(&mut picture, Room { rows: left, ..room });
                if let Some(problem) = problem {
                    picture.block(BAD, problem, Wrap { columns: room.columns, indent: 2, most: 3 });
                }
                let back = if *then == Then::Review { "back to the review" } else { "goes back" };
                picture.row(hint(&format!("{}, shift-tab {back}, esc cancels", editor.keys())));
            }
            Stage::Review { menu, problem } => {
                picture.row(Row::of(STRONG, "Your answer"));
                picture.rows.extend(menu.rows(room.rows.saturating_sub(4)));
                if let Some(problem) = problem {
                    picture.block(BAD, problem, Wrap { columns: room.columns, indent: 2, most: 3 });
                }
                picture.row(hint("enter chooses, esc cancels"));
            }
        }
        picture
    }
}

fn door() -> Menu {
    Menu::one(DOOR.map(Item::new).into(), 0)
}

fn hint(text: &str) -> Row {
    Row::of(FAINT, "  ").then(FAINT, text)
}
