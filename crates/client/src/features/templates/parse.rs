//! Parses a template (RFC 6570, section 2).

use super::{
    MAX_TEMPLATE_BYTES, MAX_VARIABLES, Modifier, Operator, Part, Template, TemplateError, VariableSpec,
};

pub(super) fn parse_template(text: &str) -> Result<Template, TemplateError> {
    if text.len() > MAX_TEMPLATE_BYTES {
        return Err(TemplateError::TooLarge("longer than 8 KiB"));
    }
    let mut parts = Vec::new();
    let mut variables = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let at = text.len() - rest.len();
        if let Some(inner) = rest.strip_prefix('{') {
            let end = inner.find('}').ok_or(syntax_error(at, "an expression without an end"))?;
            let part = parse_expression(&inner[..end], at + 1)?;
            if let Part::Expression { specs, .. } = &part {
                variables += specs.len();
            }
            if variables > MAX_VARIABLES {
                return Err(TemplateError::TooLarge("more than 256 variables"));
            }
            parts.push(part);
            rest = &inner[end + 1..];
        } else {
            let end = rest.find('{').unwrap_or(rest.len());
            check_literal(&rest[..end], at)?;
            parts.push(Part::Literal(rest[..end].into()));
            rest = &rest[end..];
        }
    }
    Ok(Template { parts })
}

/// Checks the text outside expressions.
fn check_literal(text: &str, at: usize) -> Result<(), TemplateError> {
    for (index, char) in text.char_indices() {
        let wrong = match char {
            '%' if !is_triplet(&text.as_bytes()[index..]) => "a percent sign that encodes nothing",
            '}' => "an end without an expression",
            // The apostrophe is allowed by an erratum.
            '"' | '<' | '>' | '\\' | '^' | '`' | '|' | ' ' => "a character that must be encoded",
            char if char.is_control() => "a control character",
            _ => continue,
        };
        return Err(syntax_error(at + index, wrong));
    }
    Ok(())
}

/// Parses the text between braces.
fn parse_expression(text: &str, at: usize) -> Result<Part, TemplateError> {
    let operator = match text.chars().next() {
        Some('+') => Operator::Reserved,
        Some('#') => Operator::Fragment,
        Some('.') => Operator::Label,
        Some('/') => Operator::Path,
        Some(';') => Operator::PathParameter,
        Some('?') => Operator::Query,
        Some('&') => Operator::Continuation,
        Some('=' | ',' | '!' | '@' | '|') => return Err(syntax_error(at, "an operator that has no meaning")),
        Some(_) => Operator::Simple,
        None => return Err(syntax_error(at, "an empty expression")),
    };
    let mut place = at + usize::from(operator != Operator::Simple);
    let mut specs = Vec::new();
    for written in text[place - at..].split(',') {
        specs.push(parse_spec(written, place)?);
        place += written.len() + 1;
    }
    Ok(Part::Expression { operator, specs })
}

fn parse_spec(text: &str, at: usize) -> Result<VariableSpec, TemplateError> {
    let (name, modifier) = if let Some(name) = text.strip_suffix('*') {
        (name, Modifier::Explode)
    } else if let Some((name, length)) = text.split_once(':') {
        let digits = (1..=4).contains(&length.len()) && length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse().ok().filter(|_| digits && !length.starts_with('0'));
        (name, Modifier::Prefix(length.ok_or(syntax_error(at, "a prefix that is not a length below 10000"))?))
    } else {
        (text, Modifier::None)
    };
    if !is_name(name) {
        return Err(syntax_error(at, "no name of a variable"));
    }
    Ok(VariableSpec { name: name.into(), modifier })
}

/// Whether it is a valid name: letters, digits, `_` and percent-encoded bytes, in groups joined by
/// single dots.
fn is_name(name: &str) -> bool {
    name.split('.').all(|group| {
        let mut rest = group.as_bytes();
        while let Some(byte) = rest.first() {
            match byte {
                b'%' if is_triplet(rest) => rest = &rest[3..],
                b'_' => rest = &rest[1..],
                byte if byte.is_ascii_alphanumeric() => rest = &rest[1..],
                _ => return false,
            }
        }
        !group.is_empty()
    })
}

/// Whether `bytes` begin with a percent-encoded byte such as `%2F`.
pub(super) fn is_triplet(bytes: &[u8]) -> bool {
    matches!(bytes, [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

fn syntax_error(at: usize, what: &'static str) -> TemplateError {
    TemplateError::Syntax { at, what }
}
