//! Checks the content of a form against the schema of its elicitation.
//!
//! A terminal checks every field as it is typed, and the host checks the whole form again before it
//! is sent, so a server never gets content that its own schema refuses.
// EL-05 to EL-07

mod format;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::{Map, Value};

pub use parse::parse_field;

use crate::wire::Json;
use crate::wire::object::Edit;
use crate::wire::view::{ChoiceOption, Field, FieldKind, Form};

/// A value in a form that does not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormError {
    /// The name of the field. Empty for the content as a whole.
    pub field: Box<str>,
    /// What is wrong, in words for a person: `must be at least 18`.
    pub problem: String,
}

impl FormError {
    /// Creates an error of a field; an empty name is the content as a whole.
    pub fn new(field: impl Into<Box<str>>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

/// Checks whether `content` can be sent as the content of `form`. Returns all errors at once.
pub fn check_form(form: &Form, content: &Json) -> Result<(), Vec<FormError>> {
    let error = |field: &str, problem: String| FormError::new(field, problem);
    let Ok(content) = content.decode::<Map<String, Value>>() else {
        return Err(vec![error("", "must be an object".into())]);
    };
    let mut errors = Vec::new();
    for field in &form.fields {
        match content.get(&*field.name) {
            Some(value) => {
                errors.extend(check_value(field, value).err().map(|what| error(&field.name, what)));
            }
            None if field.required => errors.push(error(&field.name, "must be filled in".into())),
            None => {}
        }
    }
    let asked = |name: &str| form.fields.iter().any(|field| &*field.name == name);
    let strangers = content.keys().filter(|name| !asked(name));
    errors.extend(strangers.map(|name| error(name, "was not asked for".into())));
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Checks whether `value` fits this field.
pub fn check_field(field: &Field, value: &Json) -> Result<(), String> {
    let value: Value = value.decode().map_err(|_| "cannot be read".to_owned())?;
    check_value(field, &value)
}

/// Adds to `content` the defaults of the fields that it lacks. A default that does not fit its own
/// field is ignored. Content that is not an object is returned unchanged.
// EL-06
pub fn fill_defaults(form: &Form, content: &Json) -> Json {
    let Ok(given) = content.decode::<Map<String, Value>>() else { return content.clone() };
    let untouched = form.fields.iter().filter(|field| !given.contains_key(&*field.name));
    let mut edit = Edit::new();
    for field in untouched {
        if let Some(default) = field.default.as_ref().filter(|default| check_field(field, default).is_ok()) {
            edit = edit.set(&field.name, default);
        }
    }
    edit.apply(Some(content)).unwrap_or_else(|_| content.clone())
}

fn check_value(field: &Field, value: &Value) -> Result<(), String> {
    match (&field.kind, value) {
        (FieldKind::Text { min_length, max_length, format, pattern }, Value::String(text)) => {
            let length = text.chars().count() as u64;
            check_count(length, *min_length, *max_length, "character")?;
            format.as_deref().map_or(Ok(()), |name| format::check(name, text))?;
            pattern.as_deref().map_or(Ok(()), |pattern| format::check_pattern(pattern, text))
        }
        (FieldKind::Number { integer, minimum, maximum }, Value::Number(number)) => {
            // serde_json does not produce numbers beyond the range of f64.
            let value = number.as_f64().unwrap_or(f64::NAN);
            if *integer && value.fract() != 0.0 {
                return Err("must be a whole number".into());
            }
            match (minimum, maximum) {
                (Some(least), _) if value < *least => Err(format!("must be at least {least}")),
                (_, Some(most)) if value > *most => Err(format!("must be at most {most}")),
                _ => check_bounds(field, value),
            }
        }
        (FieldKind::Boolean, Value::Bool(_)) => Ok(()),
        (FieldKind::Choice(options), Value::String(value)) => check_choice(options, value),
        (FieldKind::Choices { options, min_items, max_items }, Value::Array(values)) => {
            check_count(values.len() as u64, *min_items, *max_items, "choice")?;
            let again = |(at, value)| values[..at].contains(value);
            if field.bounds.unique_items && values.iter().enumerate().any(again) {
                return Err("must not have a choice twice".into());
            }
            values.iter().try_for_each(|value| match value {
                Value::String(value) => check_choice(options, value),
                _ => Err("must be a list of texts".into()),
            })
        }
        (kind, _) => Err(format!("must be {}", describe_kind(kind))),
    }
}

/// Checks the exclusive bounds of a number, and that it is a multiple of the step.
fn check_bounds(field: &Field, value: f64) -> Result<(), String> {
    let bounds = &field.bounds;
    match (bounds.exclusive_minimum, bounds.exclusive_maximum, bounds.multiple_of) {
        (Some(least), _, _) if value <= least => Err(format!("must be more than {least}")),
        (_, Some(most), _) if value >= most => Err(format!("must be less than {most}")),
        (_, _, Some(step)) if !is_multiple(value, step) => Err(format!("must be a multiple of {step}")),
        _ => Ok(()),
    }
}

/// Whether `value` is a multiple of `step`. Whole numbers are divided exactly; for others rounding
/// errors are allowed, since 0.3 is three times 0.1 but their floats are not.
fn is_multiple(value: f64, step: f64) -> bool {
    if value.fract() == 0.0 && step.fract() == 0.0 {
        return value % step == 0.0;
    }
    let times = value / step;
    (times - times.round()).abs() <= 4.0 * f64::EPSILON * times.abs()
}

fn check_count(count: u64, least: Option<u64>, most: Option<u64>, what: &str) -> Result<(), String> {
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    match (least, most) {
        (Some(least), _) if count < least => {
            Err(format!("must have at least {least} {what}{}", plural(least)))
        }
        (_, Some(most)) if count > most => Err(format!("must have at most {most} {what}{}", plural(most))),
        _ => Ok(()),
    }
}

/// Checks that `value` is the value of an option. Titles do not count (EL-05).
fn check_choice(options: &[ChoiceOption], value: &str) -> Result<(), String> {
    if options.iter().any(|option| &*option.value == value) {
        return Ok(());
    }
    Err("must be one of the choices".into())
}

fn describe_kind(kind: &FieldKind) -> &'static str {
    match kind {
        FieldKind::Text { .. } => "a text",
        FieldKind::Number { integer: true, .. } => "a whole number",
        FieldKind::Number { .. } => "a number",
        FieldKind::Boolean => "true or false",
        FieldKind::Choice(_) => "one of the choices",
        FieldKind::Choices { .. } => "a list of choices",
    }
}

impl std::error::Error for FormError {}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name comes from the server, so it is escaped.
        match &*self.field {
            "" => write!(f, "the answer {}", self.problem),
            name => write!(f, "{} {}", name.escape_debug(), self.problem),
        }
    }
}
