//! Owns the shape both dialects are read into before anything is understood: a tree of values,
//! each with the offset it was written at.

mod json;
mod toml;

use crate::report::Report;
use crate::source::{Dialect, Source};

/// A value and where it begins.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) offset: usize,
    pub(crate) value: Value,
}

#[derive(Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// As written, so that nothing is lost to floating point before its meaning is known.
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

/// Reads the text, or reports what stops it from being read. A TOML document is always a table.
pub(crate) fn read(source: &Source, report: &mut Report<'_>) -> Option<Node> {
    match source.dialect {
        Dialect::Toml => toml::read(source.body(), report),
        Dialect::Json => json::read(source.body(), report),
    }
}
