//! Escapes server text for a terminal. A server must not move the cursor, set a title, write to the
//! clipboard, reorder text, or hide text from the person that a model reads.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

/// Escapes text of several lines; line ends and tabs are kept.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    escape_chars(text, |c| c == '\n' || c == '\t')
}

/// Escapes text that has to stay on one line.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escape_chars(text, |_| false)
}

/// Escapes text of several lines for use in our own layout. Lines after the first are indented, so
/// that none of them can pass for ours.
pub(crate) fn indented_text(text: &str) -> String {
    self::text(text).trim_end().replace('\n', "\n    ")
}

/// Returns whether a terminal may act on the character, or omit it, instead of showing it.
pub(crate) fn is_active(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || is_invisible(c)
}

/// Returns whether a character is invisible by its Unicode properties:
/// `Default_Ignorable_Code_Point` or the general category `Cf`. Blanks are not included, nor is the
/// empty Braille pattern: they are seen as blanks.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' // soft hyphen
        | '\u{34f}' // combining grapheme joiner
        | '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}' // marks around numbers
        | '\u{61c}' // mark of direction
        | '\u{115f}'..='\u{1160}' | '\u{3164}' | '\u{ffa0}' // fillers of Hangul
        | '\u{17b4}'..='\u{17b5}' // vowels of Khmer that are inherent
        | '\u{180b}'..='\u{180f}' // selectors of Mongolian
        | '\u{200b}'..='\u{200f}' // zero width, marks of direction
        | '\u{202a}'..='\u{202e}' // embeddings and overrides
        | '\u{2060}'..='\u{206f}' // joiners, operators, isolates
        | '\u{fe00}'..='\u{fe0f}' // variation selectors
        | '\u{feff}' // byte order mark
        | '\u{fff0}'..='\u{fffb}' // reserved; annotations between the lines
        | '\u{110bd}' | '\u{110cd}' // number signs of Kaithi
        | '\u{13430}'..='\u{1343f}' // format of hieroglyphs
        | '\u{1bca0}'..='\u{1bca3}' // format of shorthand
        | '\u{1d173}'..='\u{1d17a}' // format of music
        | '\u{e0000}'..='\u{e0fff}' // tags, further variation selectors, reserved
    )
}

/// Returns whether a text has characters that a model reads and a person does not see. The selector
/// that chooses the color form of a pictograph does not count: it is common in ordinary text.
pub(crate) fn has_hidden_text(text: &str) -> bool {
    let before = std::iter::once(' ').chain(text.chars());
    text.chars().zip(before).any(|(c, before)| {
        let is_presentation = matches!(c, '\u{fe0e}' | '\u{fe0f}') && is_pictograph(before);
        is_invisible(c) && !is_presentation
    })
}

/// Applies [`has_hidden_text`] to every string in a value, including member names.
pub(crate) fn value_has_hidden_text(value: &Value) -> bool {
    match value {
        Value::String(text) => has_hidden_text(text),
        Value::Array(items) => items.iter().any(value_has_hidden_text),
        Value::Object(members) => {
            members.iter().any(|(name, value)| has_hidden_text(name) || value_has_hidden_text(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns whether a symbol has both a color and a text form.
fn is_pictograph(c: char) -> bool {
    matches!(c,
        '©' | '®' | '‼' | '⁉' | '™' | 'ℹ' | '〰' | '〽' | '㊗' | '㊙'
        | '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}' | '\u{2460}'..='\u{27bf}' | '\u{2900}'..='\u{297f}'
        | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

fn escape_chars(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let active = |c: char| is_active(c) && !stays(c);
    // Most text is of printable ASCII characters, which are found faster.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) || !text.contains(active) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // CR LF is a single line end.
            '\r' if stays('\n') && chars.peek() == Some(&'\n') => {}
            '\n' if !stays(c) => out.push_str("\\n"),
            '\t' if !stays(c) => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if active(c) => write!(out, "\\u{{{:x}}}", u32::from(c)).expect("writing to a string"),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_active_is_left() {
        let hostile = "a\x1b[31mred\x1b]0;title\x07\u{9b}2J\u{202e}rev\u{7f}\0\u{e0041}\r\x08";
        for shown in [text(hostile), line(hostile)] {
            assert!(!shown.contains(is_active), "{shown:?}");
        }
        assert_eq!(text("\x1b[2J"), "\\u{1b}[2J");
    }

    /// Compares with the tables of another project, for every character.
    #[test]
    fn everything_invisible_is_known_to_be() {
        let ignorable = regex::Regex::new(r"^[\p{Default_Ignorable_Code_Point}\p{Cf}]$").unwrap();
        let acted_on =
            regex::Regex::new(r"^[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Variation_Selector}]$").unwrap();
        let mut text = [0; 4];
        for c in '\0'..=char::MAX {
            let text = &*c.encode_utf8(&mut text);
            assert_eq!(is_invisible(c), ignorable.is_match(text), "U+{:04X}", u32::from(c));
            let is_escaped = ignorable.is_match(text) || acted_on.is_match(text);
            assert_eq!(is_active(c), is_escaped, "U+{:04X}", u32::from(c));
            assert_eq!(line(text) != text, is_escaped, "U+{:04X}", u32::from(c));
        }
    }

    #[test]
    fn what_a_person_does_not_see_is_noticed() {
        for plain in ["", "naïve 日本語 👍", "⚠\u{fe0f} careful", "a\tb\n", "\u{a0}\u{3000}"] {
            assert!(!has_hidden_text(plain), "{plain:?}");
        }
        for hiding in [
            "\u{fe0f}",
            "a\u{fe0f}",
            "⚠\u{fe0f}\u{fe0f}",
            "⚠\u{fe01}",
            "⚠\u{e0101}",
            "a\u{200b}b",
            "x\u{e0041}",
            "\u{3164}",
            "\u{feff}a",
            "pass\u{ad}word",
        ] {
            assert!(has_hidden_text(hiding), "{hiding:?}");
            let nested = serde_json::json!({ "a": [{ "b": hiding }] });
            let named = serde_json::json!({ "a": [{ hiding: null }] });
            assert!(value_has_hidden_text(&nested) && value_has_hidden_text(&named), "{hiding:?}");
        }
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(text("a\r\nb\tc\n"), "a\nb\tc\n");
        assert_eq!(line("a\r\nb\tc"), "a\\r\\nb\\tc");
        assert_eq!(text("a\rb"), "a\\rb");
    }

    #[test]
    fn ordinary_text_is_not_copied() {
        assert!(matches!(text("naïve 日本語 👍\n"), Cow::Borrowed(_)));
    }
}
