//! Parses JSON into the tree, with the comments and trailing commas that editors allow in their
//! files, with the lone surrogates that JavaScript writes, and none of the other liberties that the
//! parser offers.

use std::borrow::Cow;
use std::ops::RangeInclusive;

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
    let text = replace_lone_surrogates(text);
    let (offset, message) = match parse_to_ast(&text, &CollectOptions::default(), &OPTIONS) {
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

/// Replaces each escape of a lone surrogate, such as `\ud83d`, with `\uFFFD`, the escape of the
/// replacement character. The text keeps its length, so every position in it stays the same.
///
/// `JSON.stringify` writes such an escape for a string that was cut in the middle of a character, and
/// hosts read it; the parser refuses it.
pub fn replace_lone_surrogates(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut replaced = String::new();
    let mut copied = 0;
    let mut at = 0;
    // A comment may have backslashes too. What is replaced in it has no meaning, and a string begins
    // with a quotation mark, so that no backslash of a comment escapes the first one of a string.
    while let Some(ahead) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += ahead;
        let unit = escaped_unit(bytes, at).filter(|unit| SURROGATES.contains(unit));
        let Some(unit) = unit else {
            // Whatever is escaped, be it another backslash.
            at += 2;
            continue;
        };
        let next = escaped_unit(bytes, at + ESCAPE_LENGTH);
        if HIGH_SURROGATES.contains(&unit) && next.is_some_and(|next| LOW_SURROGATES.contains(&next)) {
            at += 2 * ESCAPE_LENGTH;
            continue;
        }
        replaced.push_str(&text[copied..at]);
        replaced.push_str(REPLACEMENT_ESCAPE);
        at += ESCAPE_LENGTH;
        copied = at;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    replaced.push_str(&text[copied..]);
    Cow::Owned(replaced)
}

/// Reads the code unit of the escape that begins at `at`: `\u`, and four hexadecimal digits.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + ESCAPE_LENGTH)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| Some(unit * 16 + char::from(*digit).to_digit(16)?))
}

const ESCAPE_LENGTH: usize = 6;
const REPLACEMENT_ESCAPE: &str = "\\uFFFD";
const SURROGATES: RangeInclusive<u32> = 0xD800..=0xDFFF;
const HIGH_SURROGATES: RangeInclusive<u32> = 0xD800..=0xDBFF;
const LOW_SURROGATES: RangeInclusive<u32> = 0xDC00..=0xDFFF;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;
    use crate::tree::parse_tree;

    #[test]
    fn lone_surrogates_are_replaced_in_place() {
        for (text, expected) in [
            (r#""cut \ud83d""#, r#""cut \uFFFD""#),
            (r#""\uD83D cut""#, r#""\uFFFD cut""#),
            (r#""\ude00""#, r#""\uFFFD""#),
            (r#""\uDfFf\udC00""#, r#""\uFFFD\uFFFD""#),
            // A pair that is split by something, or is in the wrong order.
            (r#""\ud83d \ude00""#, r#""\uFFFD \uFFFD""#),
            (r#""\ud83d\n\ude00""#, r#""\uFFFD\n\uFFFD""#),
            (r#""\ud83d\\\ude00""#, r#""\uFFFD\\\uFFFD""#),
            (r#""\ude00\ud83d""#, r#""\uFFFD\uFFFD""#),
            // Only the second of two can have a partner.
            (r#""\ud83d\ud83d\ude00""#, r#""\uFFFD\ud83d\ude00""#),
            (r#""\ud83d\ude00\ude00""#, r#""\ud83d\ude00\uFFFD""#),
            (r#""\ud83d\u0041""#, r#""\uFFFD\u0041""#),
            // Three backslashes: one that is escaped, and an escape.
            (r#""\\\ud83d""#, r#""\\\uFFFD""#),
            ("\"é\\ud83dé\"", "\"é\\uFFFDé\""),
            (r#"["\ud83d", "\ude00"]"#, r#"["\uFFFD", "\uFFFD"]"#),
            ("// C:\\\n\"\\ud83d\"", "// C:\\\n\"\\uFFFD\""),
        ] {
            let replaced = replace_lone_surrogates(text);
            assert_eq!((&*replaced, replaced.len()), (expected, text.len()), "{text}");
        }
    }

    #[test]
    fn text_without_lone_surrogates_is_not_copied() {
        for text in [
            "",
            "\\",
            "\\u",
            "\\ud83",
            r#""\ud83d\ude00""#,
            r#""\uD83D\uDE00""#,
            // An escaped backslash before a letter is no escape of a surrogate.
            r#""\\ud83d""#,
            r#""\\\\ude00""#,
            r#""\u0041\ud7ff\ue000\uFFFD""#,
            r#""\ud8zz""#,
            r#""\u+d83""#,
            "\"\\é\\\"",
        ] {
            assert!(matches!(replace_lone_surrogates(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn lone_surrogates_are_read_as_replacement_characters() {
        for (text, expected) in [
            (r#""cut \ud83d""#, "cut \u{fffd}"),
            (r#""\uDE00 \uD83D\uDE00 \\ud83d""#, "\u{fffd} \u{1f600} \\ud83d"),
        ] {
            let root = parse_tree(&Source::new("host.json", text)).unwrap();
            assert!(matches!(&root.value, Value::String(text) if text == expected), "{text}");
        }
        // A problem elsewhere is still found, at its own position.
        let position = |text: &str| {
            let problem = parse_tree(&Source::new("host.json", text)).err();
            problem.map(|problem| (problem.line, problem.column))
        };
        let found = position("{\"a\": \"\\ud83d\",\n \"b\": }");
        assert!(found.is_some() && found == position("{\"a\": \"______\",\n \"b\": }"), "{found:?}");
    }
}
