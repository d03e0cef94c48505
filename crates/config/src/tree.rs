//! Owns the tree that both dialects are parsed into before any key is interpreted: values, each
//! with its offset in the text.

mod json;
mod toml;

use crate::report::Report;
use crate::source::{FileFormat, Source};

/// A value and the offset it begins at.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) offset: usize,
    pub(crate) value: Value,
}

#[derive(Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// As written, so that no digit is lost to floating point before its meaning is known.
    Number(String),
    String(String),
    /// TOML only.
    Date,
    Array(Vec<Node>),
    /// In the order of the file; JSON may repeat a key.
    Table(Vec<(Key, Node)>),
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) offset: usize,
    pub(crate) name: String,
}

impl Value {
    /// The type, for messages that must not show the value.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Date => "a date",
            Self::Array(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// Parses the text, or reports what prevents it. A TOML document is always a table.
pub(crate) fn read(source: &Source, report: &mut Report<'_>) -> Option<Node> {
    match source.format {
        FileFormat::Toml => toml::read(source.body(), report),
        FileFormat::Json => json::read(source.body(), report),
    }
}
