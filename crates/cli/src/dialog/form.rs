//! Shows a form in the terminal: its fields one after the other, each validated before the next,
//! then a review of all of them. Nothing is sent that was not shown as a whole.
// EL-03.

use bowline::Json;
use bowline::types::{ElicitResult, Form};
use bowline_proto::form;
use bowline_proto::wire::object::Edit;

use super::field::{self, FieldEditor};
use super::frame::{Frame, Row, TerminalSize, WrapOptions};
use super::key::Key;
use super::menu::{Menu, MenuItem};
use super::terminal::Dialog;
use crate::print::{BAD, FAINT, STRONG};

/// A form that is being filled in.
pub(super) struct FormDialog {
    form: Form,
    /// Values by the index of their field; `None` if it is left out.
    values: Vec<Option<Json>>,
    stage: Stage,
}

enum Stage {
    /// Asks whether to answer at all.
    Start(Menu),
    /// Edits one field.
    Field { at: usize, editor: FieldEditor, problem: Option<String>, then: AfterField },
    /// Reviews all fields.
    Review { menu: Menu, problem: Option<String> },
}

/// Where to go after a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterField {
    Next,
    Review,
}

/// Choices before the first field.
const START_CHOICES: [&str; 3] = ["Answer", "Decline", "Cancel"];

impl FormDialog {
    /// Creates a dialog for the form. Values in `given` take precedence over the server's defaults.
    pub(super) fn new(form: Form, given: &[(String, Json)]) -> Self {
        let of = |field: &bowline::types::Field| {
            let own = given.iter().find(|(name, _)| **name == *field.name).map(|(_, value)| value);
            own.or(field.default.as_ref()).cloned()
        };
        let values = form.fields.iter().map(of).collect();
        let mut filling = Self { form, values, stage: Stage::Start(start_menu()) };
        // There is nothing to fill in, or it has been filled in already.
        if filling.form.fields.is_empty() || !given.is_empty() {
            filling.show_review(0);
        }
        filling
    }

    fn edit_field(&mut self, at: usize, then: AfterField) {
        let editor = FieldEditor::new(&self.form.fields[at], self.values[at].as_ref());
        self.stage = Stage::Field { at, editor, problem: None, then };
    }

    fn show_review(&mut self, at: usize) {
        let mut items = vec![MenuItem::new(if self.values.is_empty() { "Accept" } else { "Send" })];
        let fields = self.form.fields.iter().zip(&self.values);
        items.extend(fields.map(|(field, value)| {
            let shown = field::format_value(field, value.as_ref());
            MenuItem::new(format!("{}: {shown}", field::label(field))).more("edit")
        }));
        items.push(MenuItem::new("Decline").more("tell the server no"));
        items.push(MenuItem::new("Cancel").more("dismiss it"));
        self.stage = Stage::Review { menu: Menu::single_choice(items, at), problem: None };
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
            self.edit_field(at, AfterField::Review);
        }
        match &mut self.stage {
            Stage::Field { problem: told, .. } | Stage::Review { problem: told, .. } => *told = problem,
            Stage::Start(_) => {}
        }
        None
    }

    /// Accepts the value of the field, or shows why it is invalid.
    fn accept_field(&mut self) {
        let Stage::Field { at, editor, problem, then } = &mut self.stage else { return };
        let (at, then) = (*at, *then);
        let field = &self.form.fields[at];
        match editor.value(field) {
            Err(why) => *problem = Some(why),
            Ok(value) => {
                self.values[at] = value;
                if then == AfterField::Next && at + 1 < self.values.len() {
                    self.edit_field(at + 1, AfterField::Next);
                } else {
                    self.show_review(if then == AfterField::Review { at + 1 } else { 0 });
                }
            }
        }
    }

    /// Goes back to the previous field, and discards the input of this one.
    fn go_back(&mut self) {
        match &self.stage {
            Stage::Field { at: 0, then: AfterField::Next, .. } => self.stage = Stage::Start(start_menu()),
            Stage::Field { at, then: AfterField::Next, .. } => self.edit_field(at - 1, AfterField::Next),
            Stage::Field { at, then: AfterField::Review, .. } => self.show_review(at + 1),
            Stage::Review { .. } if !self.values.is_empty() => {
                self.edit_field(self.values.len() - 1, AfterField::Next);
            }
            Stage::Start(_) | Stage::Review { .. } => {}
        }
    }
}

impl Dialog for FormDialog {
    type Output = ElicitResult;

    fn handle_key(&mut self, key: &Key) -> Option<ElicitResult> {
        // EL-08: dismissing is not declining.
        if *key == Key::Escape {
            return Some(ElicitResult::Cancel);
        }
        if *key == Key::BackTab {
            self.go_back();
            return None;
        }
        match &mut self.stage {
            Stage::Start(menu) => match (key, menu.at) {
                (Key::Enter, 0) => self.edit_field(0, AfterField::Next),
                (Key::Enter, 1) => return Some(ElicitResult::Decline),
                (Key::Enter, _) => return Some(ElicitResult::Cancel),
                _ => drop(menu.handle_key(key)),
            },
            Stage::Field { editor, problem, .. } => {
                if matches!(key, Key::Enter | Key::Tab) {
                    self.accept_field();
                } else if editor.handle_key(key) {
                    *problem = None;
                }
            }
            Stage::Review { menu, .. } => {
                let (at, count) = (menu.at, self.values.len());
                match key {
                    Key::Enter if at == 0 => return self.send(),
                    Key::Enter if at <= count => self.edit_field(at - 1, AfterField::Review),
                    Key::Enter if at == count + 1 => return Some(ElicitResult::Decline),
                    Key::Enter => return Some(ElicitResult::Cancel),
                    _ => drop(menu.handle_key(key)),
                }
            }
        }
        None
    }

    fn draw(&self, room: TerminalSize) -> Frame {
        let mut picture = Frame::default();
        let problem_wrap = WrapOptions { columns: room.columns, indent: 2, max_rows: 3 };
        match &self.stage {
            Stage::Start(menu) => {
                picture.rows.extend(menu.rows(room.rows));
                picture.push_row(hint("enter chooses, esc cancels"));
            }
            Stage::Field { at, editor, problem, then } => {
                let field = &self.form.fields[*at];
                let mark = if field.required { " *" } else { "" };
                let place = format!("{}/{}  ", at + 1, self.form.fields.len());
                let heading = Row::new(FAINT, &place).with(STRONG, &field::label(field)).with(BAD, mark);
                picture.push_row(heading);
                let wrap = WrapOptions { columns: room.columns, indent: 4, max_rows: room.rows / 4 + 1 };
                if let Some(description) = field.description() {
                    picture.push_text(FAINT, &description, wrap);
                }
                picture.push_text(FAINT, &field::describe_constraints(field), wrap);
                let left = room.rows.saturating_sub(picture.rows.len() + 3);
                editor.draw(&mut picture, TerminalSize { rows: left, ..room });
                if let Some(problem) = problem {
                    picture.push_text(BAD, problem, problem_wrap);
                }
                let back = if *then == AfterField::Review { "back to the review" } else { "goes back" };
                picture.push_row(hint(&format!("{}, shift-tab {back}, esc cancels", editor.key_hint())));
            }
            Stage::Review { menu, problem } => {
                picture.push_row(Row::new(STRONG, "Your answer"));
                picture.rows.extend(menu.rows(room.rows.saturating_sub(4)));
                if let Some(problem) = problem {
                    picture.push_text(BAD, problem, problem_wrap);
                }
                picture.push_row(hint("enter chooses, esc cancels"));
            }
        }
        picture
    }
}

fn start_menu() -> Menu {
    Menu::single_choice(START_CHOICES.map(MenuItem::new).into(), 0)
}

fn hint(text: &str) -> Row {
    Row::new(FAINT, "  ").with(FAINT, text)
}
