//! Shows a form in the terminal: its fields one after the other, each validated before the next,
//! then a review of all of them. Nothing is sent that was not shown as a whole.
// EL-03.

use std::collections::BTreeMap;

use bowline::Json;
use bowline::types::{ElicitResult, Field, Form};
use bowline_proto::form;
use bowline_proto::wire::object::Edit;

use super::argument_form::ArgumentContent;
use super::field::{self, FieldEditor};
use super::form_field::{FieldInput, FormField};
use super::frame::{Frame, Row, TerminalSize, WrapOptions};
use super::item_editor::ItemEditor;
use super::key::Key;
use super::menu::{Menu, MenuItem};
use super::query::Query;
use super::suggestion_list::SuggestionList;
use super::terminal::Dialog;
use crate::print::{BAD, FAINT, STRONG};

/// A form that is being filled in.
pub(super) struct FormDialog {
    purpose: FormPurpose,
    fields: Vec<FormField>,
    /// Values by the index of their field; `None` if it is left out.
    values: Vec<Option<Json>>,
    /// The fields that are asked for one after the other. The others are shown in the review.
    steps: Vec<usize>,
    stage: Stage,
    suggestions: SuggestionList,
}

/// What the form is for.
enum FormPurpose {
    /// A server asked for it.
    Elicitation(Form),
    /// A call needs it.
    Arguments(ArgumentContent),
}

enum Stage {
    /// Asks whether to answer at all.
    Start(Menu),
    /// Edits one field.
    Field { at: usize, editor: FieldEditor, problem: Option<String>, then: AfterField },
    /// Edits a list of objects that was not given, and goes on to the next step.
    Items { at: usize, editor: ItemEditor, problem: Option<String> },
    /// Reviews all fields.
    Review { menu: Menu, problem: Option<String> },
}

/// Where to go after a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterField {
    NextStep,
    Review,
}

/// A problem of the whole content, and the field that it is about.
pub(super) struct ContentProblem {
    pub(super) field: Option<usize>,
    pub(super) text: String,
}

/// Choices before the first field.
const START_CHOICES: [&str; 3] = ["Answer", "Decline", "Cancel"];

impl FormDialog {
    /// Creates a dialog for an elicitation. Values in `given` take precedence over the server's defaults.
    pub(super) fn new(form: Form, given: &[(String, Json)]) -> Self {
        let of = |field: &Field| {
            let own = given.iter().find(|(name, _)| **name == *field.name).map(|(_, value)| value);
            own.or(field.default.as_ref()).cloned()
        };
        let values: Vec<Option<Json>> = form.fields.iter().map(of).collect();
        let fields = form.fields.iter().cloned().map(FormField::elicited).collect();
        let mut filling = Self {
            purpose: FormPurpose::Elicitation(form),
            fields,
            steps: (0..values.len()).collect(),
            values,
            stage: Stage::Start(start_menu()),
            suggestions: SuggestionList::default(),
        };
        // There is nothing to fill in, or it has been filled in already.
        if filling.fields.is_empty() || !given.is_empty() {
            filling.show_review(0);
        }
        filling
    }

    /// Creates a dialog for the arguments of a call. It asks for what is missing or wrong, and shows the rest in
    /// the review.
    pub(super) fn for_arguments(
        fields: Vec<FormField>,
        content: ArgumentContent,
        has_suggestions: bool,
    ) -> Self {
        let values: Vec<Option<Json>> = fields.iter().map(|field| content.given(field)).collect();
        let is_step = |at: &usize| match &values[*at] {
            None => !fields[*at].is_optional,
            Some(value) => {
                let editor = FieldEditor::new(&fields[*at], Some(value));
                editor.value(&fields[*at]).is_err()
            }
        };
        let steps: Vec<usize> = (0..fields.len()).filter(is_step).collect();
        let mut filling = Self {
            purpose: FormPurpose::Arguments(content),
            fields,
            values,
            steps,
            stage: Stage::Start(start_menu()),
            suggestions: SuggestionList::new(has_suggestions),
        };
        match filling.steps.first() {
            Some(first) => filling.edit_field(*first, AfterField::NextStep),
            None => filling.show_review(0),
        }
        filling
    }

    fn edit_field(&mut self, at: usize, then: AfterField) {
        let field = &self.fields[at];
        let value = self.values[at].as_ref().or(field.default());
        self.suggestions.clear();
        if let (FieldInput::Items(list, members), None, AfterField::NextStep) = (&field.input, value, then) {
            let editor = ItemEditor::new(list, members);
            self.stage = Stage::Items { at, editor, problem: None };
            return;
        }
        let editor = FieldEditor::new(field, value);
        self.stage = Stage::Field { at, editor, problem: None, then };
    }

    fn show_review(&mut self, at: usize) {
        let fields = self.fields.iter().zip(&self.values);
        let rows = fields.map(|(field, value)| {
            let shown = field::format_value(field, value.as_ref());
            MenuItem::new(format!("{}: {shown}", field.label())).more("edit")
        });
        let mut items: Vec<MenuItem> = Vec::new();
        match &self.purpose {
            FormPurpose::Elicitation(_) => {
                items.push(MenuItem::new(if self.values.is_empty() { "Accept" } else { "Send" }));
                items.extend(rows);
                items.push(MenuItem::new("Decline").more("tell the server no"));
                items.push(MenuItem::new("Cancel").more("dismiss it"));
            }
            FormPurpose::Arguments(content) => {
                items.push(MenuItem::new(content.action));
                items.extend(rows);
                let fieldless = content.fieldless(&self.fields, &self.values).into_iter();
                items.extend(fieldless.map(|(name, value)| {
                    MenuItem::new(format!("{name}: {value}")).more("not a parameter, sent as it is")
                }));
                items.push(MenuItem::new("Cancel").more("send nothing"));
            }
        }
        self.stage = Stage::Review { menu: Menu::single_choice(items, at), problem: None };
    }

    // EL-07: invalid content is not sent.
    fn send(&mut self) -> Option<ElicitResult> {
        let wrong = match &self.purpose {
            FormPurpose::Elicitation(form) => {
                let mut edit = Edit::new();
                for (field, value) in form.fields.iter().zip(&self.values) {
                    if let Some(value) = value {
                        edit = edit.set(&field.name, value);
                    }
                }
                let content = edit.apply(None).unwrap_or_else(|_| Json::empty_object());
                let Err(errors) = form::check_form(form, &content) else {
                    return Some(ElicitResult::Accept(Some(content)));
                };
                let wrong = errors.first()?;
                let field = form.fields.iter().position(|field| *field.name == *wrong.field);
                ContentProblem { field, text: wrong.problem.clone() }
            }
            FormPurpose::Arguments(content) => match content.build(&self.fields, &self.values) {
                Ok(content) => return Some(ElicitResult::Accept(Some(content))),
                Err(wrong) => wrong,
            },
        };
        if let Some(at) = wrong.field {
            self.edit_field(at, AfterField::Review);
        }
        match &mut self.stage {
            Stage::Field { problem, .. } | Stage::Review { problem, .. } => *problem = Some(wrong.text),
            Stage::Start(_) | Stage::Items { .. } => {}
        }
        None
    }

    /// Accepts the value of the field, or shows why it is invalid.
    fn accept_field(&mut self) {
        match &mut self.stage {
            Stage::Field { at, editor, problem, then } => match editor.value(&self.fields[*at]) {
                Err(why) => *problem = Some(why),
                Ok(value) => {
                    let (at, then) = (*at, *then);
                    self.set_value(at, value, then);
                }
            },
            Stage::Items { at, editor, problem } => {
                let FieldInput::Items(list, members) = &self.fields[*at].input else { return };
                match editor.accept(list, members) {
                    Err(why) => *problem = Some(why),
                    Ok(None) => *problem = None,
                    Ok(list) => {
                        let at = *at;
                        self.set_value(at, list, AfterField::NextStep);
                    }
                }
            }
            Stage::Start(_) | Stage::Review { .. } => {}
        }
    }

    /// Sets the value of a field, and goes on.
    fn set_value(&mut self, at: usize, value: Option<Json>, then: AfterField) {
        self.values[at] = value;
        let next = self.steps.iter().find(|step| **step > at).copied();
        match next.filter(|_| then == AfterField::NextStep) {
            Some(next) => self.edit_field(next, AfterField::NextStep),
            None => self.show_review(if then == AfterField::Review { at + 1 } else { 0 }),
        }
    }

    /// Goes back to the previous field, and discards the input of this one.
    fn go_back(&mut self) {
        if let Stage::Items { at, editor, problem } = &mut self.stage
            && let FieldInput::Items(_, members) = &self.fields[*at].input
            && editor.go_back(members)
        {
            *problem = None;
            return;
        }
        match &self.stage {
            Stage::Field { at, then: AfterField::NextStep, .. } | Stage::Items { at, .. } => {
                let before = self.steps.iter().rfind(|step| *step < at).copied();
                match (before, &self.purpose) {
                    (Some(before), _) => self.edit_field(before, AfterField::NextStep),
                    (None, FormPurpose::Elicitation(_)) => self.stage = Stage::Start(start_menu()),
                    (None, FormPurpose::Arguments(_)) => {}
                }
            }
            Stage::Field { at, then: AfterField::Review, .. } => self.show_review(at + 1),
            Stage::Review { .. } => {
                if let Some(last) = self.steps.last() {
                    self.edit_field(*last, AfterField::NextStep);
                }
            }
            Stage::Start(_) => {}
        }
    }

    /// Returns the line above a field: which step it is, its name, and whether it is required.
    fn heading(&self, at: usize, label: &str, is_required: bool) -> Row {
        let step = self.steps.iter().position(|step| *step == at);
        let place = step.map(|step| format!("{}/{}  ", step + 1, self.steps.len())).unwrap_or_default();
        Row::new(FAINT, &place).with(STRONG, label).with(BAD, if is_required { " *" } else { "" })
    }

    /// Completes what has been typed by a suggestion. Returns whether that changed anything.
    fn complete_text(&mut self) -> bool {
        let Stage::Field { editor, .. } = &mut self.stage else { return false };
        let Some(text) = editor.text() else { return false };
        match self.suggestions.complete(&text) {
            Some(longer) => {
                editor.set_text(&longer);
                true
            }
            None => false,
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
        if *key == Key::Tab && self.complete_text() {
            return None;
        }
        match &mut self.stage {
            Stage::Start(menu) => match (key, menu.at) {
                (Key::Enter, 0) => self.edit_field(0, AfterField::NextStep),
                (Key::Enter, 1) => return Some(ElicitResult::Decline),
                (Key::Enter, _) => return Some(ElicitResult::Cancel),
                _ => drop(menu.handle_key(key)),
            },
            Stage::Field { editor, problem, .. } => match key {
                Key::Enter | Key::Tab => self.accept_field(),
                _ if editor.handle_key(key) => *problem = None,
                _ => {}
            },
            Stage::Items { editor, problem, .. } => match key {
                Key::Enter | Key::Tab => self.accept_field(),
                _ if editor.handle_key(key) => *problem = None,
                _ => {}
            },
            Stage::Review { menu, .. } => {
                let (at, count) = (menu.at, self.values.len());
                match key {
                    Key::Enter if at == 0 => return self.send(),
                    Key::Enter if at <= count => self.edit_field(at - 1, AfterField::Review),
                    Key::Enter => match self.purpose {
                        FormPurpose::Elicitation(_) if at == count + 1 => return Some(ElicitResult::Decline),
                        // What has no field cannot be edited.
                        FormPurpose::Arguments(_) if !menu.is_at_end() => {}
                        FormPurpose::Elicitation(_) | FormPurpose::Arguments(_) => {
                            return Some(ElicitResult::Cancel);
                        }
                    },
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
                let field = &self.fields[*at];
                picture.push_row(self.heading(*at, &field.label(), is_required(field)));
                describe(&mut picture, field, room);
                picture.push_text(FAINT, &field::describe_constraints(field), text_wrap(room));
                let left = room.rows.saturating_sub(picture.rows.len() + 3);
                editor.draw(&mut picture, TerminalSize { rows: left, ..room });
                self.suggestions.draw(&mut picture, left.saturating_sub(1));
                if let Some(problem) = problem {
                    picture.push_text(BAD, problem, problem_wrap);
                }
                let back = if *then == AfterField::Review { "back to the review" } else { "goes back" };
                let tab = if self.suggestions.is_empty() { "" } else { "tab completes, " };
                picture.push_row(hint(&format!("{tab}{}, shift-tab {back}, esc cancels", editor.key_hint())));
            }
            Stage::Items { at, editor, problem } => {
                let field = &self.fields[*at];
                let FieldInput::Items(_, members) = &field.input else { return picture };
                let member = editor.member(members);
                let label = format!("{}{}", field.label(), editor.place(members));
                picture.push_row(self.heading(*at, &label, member.is_none_or(is_required)));
                describe(&mut picture, member.unwrap_or(field), room);
                if let Some(member) = member {
                    picture.push_text(FAINT, &field::describe_constraints(member), text_wrap(room));
                }
                let left = room.rows.saturating_sub(picture.rows.len() + 3);
                editor.draw(&mut picture, TerminalSize { rows: left, ..room });
                if let Some(problem) = problem {
                    picture.push_text(BAD, problem, problem_wrap);
                }
                picture.push_row(hint(&format!("{}, shift-tab goes back, esc cancels", editor.key_hint())));
            }
            Stage::Review { menu, problem } => {
                let title = match self.purpose {
                    FormPurpose::Elicitation(_) => "Your answer",
                    FormPurpose::Arguments(_) => "The arguments",
                };
                picture.push_row(Row::new(STRONG, title));
                picture.rows.extend(menu.rows(room.rows.saturating_sub(4)));
                if let Some(problem) = problem {
                    picture.push_text(BAD, problem, problem_wrap);
                }
                picture.push_row(hint("enter chooses, esc cancels"));
            }
        }
        picture
    }

    fn take_query(&mut self) -> Option<Query> {
        let Stage::Field { at, editor, .. } = &self.stage else { return None };
        let text = editor.text()?;
        let field = self.fields[*at].path.join(".");
        if !self.suggestions.is_news(&field, &text) {
            return None;
        }
        let others = self.fields.iter().zip(&self.values).enumerate().filter(|(other, _)| other != at);
        let context: BTreeMap<String, String> = others
            .filter_map(|(_, (field, value))| {
                Some((field.path.join("."), field::value_text(Some(value.as_ref()?))))
            })
            .collect();
        Some(Query { field, text, context })
    }

    fn handle_suggestions(&mut self, found: Vec<String>) {
        self.suggestions.set(found);
    }
}

fn start_menu() -> Menu {
    Menu::single_choice(START_CHOICES.map(MenuItem::new).into(), 0)
}

fn hint(text: &str) -> Row {
    Row::new(FAINT, "  ").with(FAINT, text)
}

/// Shows what is said about a field.
fn describe(picture: &mut Frame, field: &FormField, room: TerminalSize) {
    if let Some(description) = field.description() {
        picture.push_text(FAINT, &description, text_wrap(room));
    }
}

/// How texts above the input are wrapped.
const fn text_wrap(room: TerminalSize) -> WrapOptions {
    WrapOptions { columns: room.columns, indent: 4, max_rows: room.rows / 4 + 1 }
}

fn is_required(field: &FormField) -> bool {
    match &field.input {
        FieldInput::Plain(field) => field.required,
        FieldInput::Choice(..) | FieldInput::Value(_) | FieldInput::Items(..) => !field.is_optional,
    }
}
