//! [`FormField`]: a field of a form, whether a server elicits it or a call needs it.

use std::fmt;

use bowline::Json;
use bowline::types::Field;

use super::frame::truncate;

/// One field of a form.
#[derive(Debug)]
pub(crate) struct FormField {
    /// The names of the members that lead to the value: one, or several for a member of a nested object.
    pub(crate) path: Vec<String>,
    pub(crate) input: FieldInput,
    /// Whether the value may be left out.
    pub(crate) is_optional: bool,
}

/// How the value is entered.
#[derive(Debug)]
pub(crate) enum FieldInput {
    /// As a field of an elicitation.
    Plain(Field),
    /// As one of these values.
    Choice(ValueField, Vec<Json>),
    /// As text that is parsed into any JSON.
    Value(ValueField),
    /// As a list of objects with these members; as JSON where there is a list already.
    Items(ValueField, Vec<FormField>),
}

/// A field whose kind elicitations do not have.
pub(crate) struct ValueField {
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) default: Option<Json>,
    /// What is accepted, in words.
    pub(crate) expected: String,
    /// Parses and checks what was typed. An error is worded for the person.
    pub(crate) parse: ParseValue,
}

/// Parses what a person typed into a field.
pub(crate) type ParseValue = Box<dyn Fn(&str) -> Result<Json, String> + Send + Sync>;

impl FormField {
    /// Takes over a field of an elicitation. One with a default may not be left out, since the default
    /// would be sent.
    // EL-06.
    pub(super) fn elicited(field: Field) -> Self {
        let is_optional = !field.required && field.default.is_none();
        Self { path: vec![field.name.to_string()], input: FieldInput::Plain(field), is_optional }
    }

    /// Returns the title of the field, or its name with those of the objects that it is in.
    pub(super) fn label(&self) -> String {
        let title = match &self.input {
            FieldInput::Plain(field) => field.title(),
            FieldInput::Choice(field, _) | FieldInput::Value(field) | FieldInput::Items(field, _) => {
                field.title.clone()
            }
        };
        let title = title.filter(|title| !title.trim().is_empty() && self.path.len() == 1);
        truncate(&title.unwrap_or_else(|| self.path.join(".")), 200)
    }

    pub(super) fn description(&self) -> Option<String> {
        match &self.input {
            FieldInput::Plain(field) => field.description(),
            FieldInput::Choice(field, _) | FieldInput::Value(field) | FieldInput::Items(field, _) => {
                field.description.clone()
            }
        }
    }

    /// Returns the value to fill in beforehand.
    pub(super) fn default(&self) -> Option<&Json> {
        match &self.input {
            FieldInput::Plain(field) => field.default.as_ref(),
            FieldInput::Choice(field, _) | FieldInput::Value(field) | FieldInput::Items(field, _) => {
                field.default.as_ref()
            }
        }
    }
}

impl fmt::Debug for ValueField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueField").field("expected", &self.expected).finish_non_exhaustive()
    }
}
