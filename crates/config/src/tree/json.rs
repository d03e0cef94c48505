//! Parses JSON into the tree, with the comments and trailing commas that editors allow in their
//! files and none of the other liberties that the parser offers.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::{Key, Node, Value};
use crate::problem::ProblemKind;
use crate::report::{Finding, Location, Report};

const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub(super) fn read(text: &str, report: &mut Report<'_>) -> Option<Node> {
    let (offset, message) = match parse_to_ast(text, &CollectOptions::default(), &OPTIONS) {
        Ok(parsed) => match parsed.value {
            Some(value) => return Some(node(value)),
            None => (0, "not valid JSON: the file is empty".to_owned()),
        },
        Err(error) => {
            // The kind says what was expected without quoting the text.
            let mut message = error.kind().to_string();
            if let Some(first) = message.get_mut(..1) {
                first.make_ascii_lowercase();
            }
            (error.range().start, format!("not valid JSON: {message}"))
        }
    };
    report.error(&Location::new(offset, ""), Finding::new(ProblemKind::Syntax, message));
    None
}

fn node(value: ast::Value<'_>) -> Node {
    let offset = value.range().start;
    let value = match value {
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
        ast::Value::NumberLit(literal) => Value::Number(literal.value.to_owned()),
        ast::Value::StringLit(literal) => Value::String(literal.value.into_owned()),
        ast::Value::Array(array) => Value::Array(array.elements.into_iter().map(node).collect()),
        ast::Value::Object(object) => Value::Table(object.properties.into_iter().map(property).collect()),
    };
    Node { offset, value }
}

fn property(property: ast::ObjectProp<'_>) -> (Key, Node) {
    let key = Key { offset: property.range.start, name: property.name.into_string() };
    (key, node(property.value))
}
