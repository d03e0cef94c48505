//! [`parse_field`]: turns what a person typed into the JSON value of a field.

use super::check_field;
use crate::wire::Json;
use crate::wire::view::{ChoiceOption, Field, FieldKind};

/// Parses the text that a person typed into a field. An error is worded for that person. An empty
/// text is a valid value of a text field; whether it means that the field is left out is up to the
/// caller.
///
/// A choice can be named by its value, its title or its number, and several are separated by
/// commas. The result always holds the value.
// EL-05
pub fn parse_field(field: &Field, typed: &str) -> Result<Json, String> {
    let value = match &field.kind {
        FieldKind::Text { format, .. } => parse_text(format.as_deref(), typed),
        FieldKind::Number { integer, .. } => parse_number(typed.trim(), *integer)?,
        FieldKind::Boolean => Json::encode(&parse_boolean(typed.trim())?),
        FieldKind::Choice(options) => Json::encode(parse_choice(options, typed.trim())?),
        FieldKind::Choices { options, .. } => Json::encode(&parse_choices(options, typed.trim())?),
    };
    let value = value.map_err(|_| "cannot be written".to_owned())?;
    check_field(field, &value)?;
    Ok(value)
}

type JsonResult = Result<Json, serde_json::Error>;

/// Parses a text. White space around an address or a date is removed; in plain text it may be
/// meant.
fn parse_text(format: Option<&str>, typed: &str) -> JsonResult {
    match format {
        Some("uri") => {
            let typed = typed.trim();
            // A person types https://bücher.example/; on the wire it has to be ASCII.
            let ascii = if typed.is_ascii() { None } else { url::Url::parse(typed).ok() };
            Json::encode(ascii.as_ref().map_or(typed, url::Url::as_str))
        }
        Some("email" | "date" | "date-time") => Json::encode(typed.trim()),
        _ => Json::encode(typed),
    }
}

/// Parses a number. An integer is written without a fraction, even if it was typed `3.0`.
fn parse_number(typed: &str, integer: bool) -> Result<JsonResult, String> {
    if let Ok(whole) = typed.parse::<i64>() {
        return Ok(Json::encode(&whole));
    }
    let refused = || if integer { "must be a whole number" } else { "must be a number" }.to_owned();
    // The parser accepts `inf` and `nan`, which JSON does not have.
    let value: f64 = typed.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(refused)?;
    if !integer {
        return Ok(Json::encode(&value));
    }
    // Beyond this not every integer has a float of its own.
    if value.fract() != 0.0 || value.abs() > 9_007_199_254_740_992.0 {
        return Err(refused());
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole and within range")]
    Ok(Json::encode(&(value as i64)))
}

fn parse_boolean(typed: &str) -> Result<bool, String> {
    match typed.to_ascii_lowercase().as_str() {
        "y" | "yes" | "true" | "on" | "1" => Ok(true),
        "n" | "no" | "false" | "off" | "0" => Ok(false),
        _ => Err("must be yes or no".into()),
    }
}

/// Finds the value of the option that was typed. Exact matches come before those that ignore case,
/// and names before numbers, since a value may look like a number.
fn parse_choice<'o>(options: &'o [ChoiceOption], typed: &str) -> Result<&'o str, String> {
    let by = |is: &dyn Fn(&ChoiceOption) -> bool| options.iter().find(|option| is(option));
    let alike = |text: &str| text.to_lowercase() == typed.to_lowercase();
    let mut similar = options.iter().filter(|option| alike(&option.value) || alike(&option.title));
    let found = by(&|option| &*option.value == typed)
        .or_else(|| by(&|option| &*option.title == typed))
        .or_else(|| similar.next().filter(|_| similar.next().is_none()))
        .or_else(|| options.get(typed.parse::<usize>().ok()?.checked_sub(1)?));
    found.map(|option| &*option.value).ok_or_else(|| "must be one of the choices".into())
}

fn parse_choices<'o>(options: &'o [ChoiceOption], typed: &str) -> Result<Vec<&'o str>, String> {
    if typed.is_empty() {
        return Ok(Vec::new());
    }
    // A title may contain a comma.
    if let Ok(one) = parse_choice(options, typed) {
        return Ok(vec![one]);
    }
    let mut all = Vec::new();
    for part in typed.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let value = parse_choice(options, part)?;
        if !all.contains(&value) {
            all.push(value);
        }
    }
    Ok(all)
}
