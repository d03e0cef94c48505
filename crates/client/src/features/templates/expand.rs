//! Expands a parsed template (RFC 6570, section 3).

use std::collections::BTreeMap;

use super::parse::is_triplet;
use super::{MAX_URI_BYTES, Modifier, Operator, Part, TemplateError, Value, VariableSpec};

pub(super) fn expand_parts(
    parts: &[Part],
    values: &BTreeMap<String, Value>,
) -> Result<String, TemplateError> {
    let mut uri = UriBuffer(String::new());
    for part in parts {
        match part {
            Part::Literal(text) => uri.encode(text, Allow::Reserved)?,
            Part::Expression { operator, specs } => {
                expand_expression(&mut uri, operator.style(), specs, values)?;
            }
        }
    }
    Ok(uri.0)
}

/// How an operator formats its values (the table of section 3.2.1).
#[derive(Clone, Copy)]
struct Style {
    /// Prefix of the first value.
    first: &'static str,
    /// Separator between values.
    between: &'static str,
    /// Whether the variable's name is written.
    named: bool,
    /// Written after the name of an empty value.
    empty: &'static str,
    allow: Allow,
}

/// Which characters are not encoded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allow {
    Unreserved,
    /// Reserved characters and percent-encoded bytes too.
    Reserved,
}

impl Operator {
    fn style(self) -> Style {
        let style =
            |first, between| Style { first, between, named: false, empty: "", allow: Allow::Unreserved };
        match self {
            Self::Simple => style("", ","),
            Self::Reserved => Style { allow: Allow::Reserved, ..style("", ",") },
            Self::Fragment => Style { allow: Allow::Reserved, ..style("#", ",") },
            Self::Label => style(".", "."),
            Self::Path => style("/", "/"),
            Self::PathParameter => Style { named: true, ..style(";", ";") },
            Self::Query => Style { named: true, empty: "=", ..style("?", "&") },
            Self::Continuation => Style { named: true, empty: "=", ..style("&", "&") },
        }
    }
}

fn expand_expression(
    uri: &mut UriBuffer,
    style: Style,
    specs: &[VariableSpec],
    values: &BTreeMap<String, Value>,
) -> Result<(), TemplateError> {
    let mut lead = style.first;
    for spec in specs {
        let Some(value) = values.get(&*spec.name).filter(|value| value.is_defined()) else { continue };
        uri.push(lead)?;
        lead = style.between;
        expand_variable(uri, style, spec, value)?;
    }
    Ok(())
}

fn expand_variable(
    uri: &mut UriBuffer,
    style: Style,
    spec: &VariableSpec,
    value: &Value,
) -> Result<(), TemplateError> {
    match (value, spec.modifier) {
        (Value::Text(text), modifier) => {
            let text = match modifier {
                Modifier::Prefix(length) => prefix(text, length, style.allow),
                Modifier::None | Modifier::Explode => text,
            };
            if style.named {
                uri.push_name(&spec.name, text, style)?;
            }
            uri.encode(text, style.allow)
        }
        (_, Modifier::Prefix(_)) => Err(TemplateError::NotText(spec.name.clone())),
        (Value::List(list), Modifier::Explode) => uri.push_joined(list, style.between, |uri, item| {
            if style.named {
                uri.push_name(&spec.name, item, style)?;
            }
            uri.encode(item, style.allow)
        }),
        (Value::Map(map), Modifier::Explode) => uri.push_joined(map, style.between, |uri, (key, item)| {
            uri.encode(key, style.allow)?;
            uri.push(if style.named && item.is_empty() { style.empty } else { "=" })?;
            uri.encode(item, style.allow)
        }),
        (Value::List(list), Modifier::None) => {
            if style.named {
                uri.push(&spec.name)?;
                uri.push("=")?;
            }
            uri.push_joined(list, ",", |uri, item| uri.encode(item, style.allow))
        }
        (Value::Map(map), Modifier::None) => {
            if style.named {
                uri.push(&spec.name)?;
                uri.push("=")?;
            }
            uri.push_joined(map, ",", |uri, (key, item)| {
                uri.encode(key, style.allow)?;
                uri.push(",")?;
                uri.encode(item, style.allow)
            })
        }
    }
}

/// The first `length` characters. Where percent-encoded bytes pass through, each counts as one
/// character and is not cut.
fn prefix(text: &str, length: usize, allow: Allow) -> &str {
    let mut rest = text;
    for _ in 0..length {
        let Some(char) = rest.chars().next() else { return text };
        let triplet = allow == Allow::Reserved && is_triplet(rest.as_bytes());
        rest = &rest[if triplet { 3 } else { char.len_utf8() }..];
    }
    &text[..text.len() - rest.len()]
}

impl Value {
    fn is_defined(&self) -> bool {
        match self {
            Self::Text(_) => true,
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
        }
    }
}

/// The URI written so far, which never exceeds its size limit.
struct UriBuffer(String);

impl UriBuffer {
    fn push(&mut self, text: &str) -> Result<(), TemplateError> {
        if self.0.len() + text.len() > MAX_URI_BYTES {
            return Err(TemplateError::TooLong);
        }
        self.0.push_str(text);
        Ok(())
    }

    fn encode(&mut self, text: &str, allow: Allow) -> Result<(), TemplateError> {
        let bytes = text.as_bytes();
        for (index, byte) in bytes.iter().enumerate() {
            let plain = match allow {
                Allow::Unreserved => is_unreserved(*byte),
                Allow::Reserved => {
                    is_unreserved(*byte) || RESERVED.contains(byte) || is_triplet(&bytes[index..])
                }
            };
            if plain {
                self.push(&text[index..=index])?;
            } else {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
                self.push("%")?;
                self.push(digit(byte >> 4).encode_utf8(&mut [0; 4]))?;
                self.push(digit(*byte).encode_utf8(&mut [0; 4]))?;
            }
        }
        Ok(())
    }

    /// Writes a variable's name and the separator to its value.
    fn push_name(&mut self, name: &str, value: &str, style: Style) -> Result<(), TemplateError> {
        self.push(name)?;
        self.push(if value.is_empty() { style.empty } else { "=" })
    }

    fn push_joined<T>(
        &mut self,
        items: &[T],
        between: &str,
        mut each: impl FnMut(&mut Self, &T) -> Result<(), TemplateError>,
    ) -> Result<(), TemplateError> {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.push(between)?;
            }
            each(self, item)?;
        }
        Ok(())
    }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

const RESERVED: &[u8] = b":/?#[]@!$&'()*+,;=";
