//! The tree that a text is parsed into before any key is interpreted: values, each with its offset in
//! the text.

mod json;
mod toml;

use crate::problem::Problem;
use crate::report::Report;
use crate::source::{FileFormat, Source};

pub use json::replace_lone_surrogates;

/// A value and the offset it begins at.
pub struct Node {
    /// The offset of its first byte, without a byte order mark.
    pub offset: usize,
    /// The value.
    pub value: Value,
}

/// A value of a text.
pub enum Value {
    /// Nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number as written, so that no digit is lost to floating point before its meaning is known.
    Number(String),
    /// A string.
    String(String),
    /// A date, which only TOML has.
    Date,
    /// A list.
    Array(Vec<Node>),
    /// A table in the order of the file; JSON may repeat a key.
    Table(Vec<(Key, Node)>),
}

/// A key of a table.
pub struct Key {
    /// The offset of its first byte.
    pub offset: usize,
    /// The key.
    pub name: String,
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

/// Parses a text without giving its keys a meaning. The problem never quotes the text.
pub fn parse_tree(source: &Source) -> Result<Node, Box<Problem>> {
    let mut report = Report::new(source);
    let root = read(source, &mut report);
    let (mut problems, _) = report.finish();
    match root {
        Some(root) => Ok(root),
        None => Err(Box::new(problems.remove(0))),
    }
}

/// Parses the text, or reports what prevents it. A TOML document is always a table.
pub(crate) fn read(source: &Source, report: &mut Report<'_>) -> Option<Node> {
    match source.format {
        FileFormat::Toml => toml::read(source.body(), report),
        FileFormat::Json => json::read(source.body(), report),
    }
}
