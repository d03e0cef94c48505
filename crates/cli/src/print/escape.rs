//! Owns what of a server's text may reach a terminal. A server must not move the cursor, set a
//! title, write to the clipboard, or make text read in another order than it is in.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Text of several lines: line ends and tabs stay.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c == '\n' || c == '\t')
}

/// Text that has to stay on one line.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// Text of several lines within our own layout: what follows the first is indented, so that no
/// line of it can pass for ours.
pub(crate) fn hanging(text: &str) -> String {
    self::text(text).trim_end().replace('\n', "\n    ")
}

/// What a terminal may act on instead of showing it.
pub(crate) fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200e}' | '\u{200f}' | '\u{061c}' // marks of direction
            | '\u{202a}'..='\u{202e}' // embeddings and overrides
            | '\u{2066}'..='\u{2069}' // isolates
            | '\u{2028}' | '\u{2029}' // line and paragraph ends
            | '\u{e0000}'..='\u{e007f}') // tags: text that nobody sees
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let active = |c: char| is_active(c) && !stays(c);
    if !text.contains(active) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // A line end of two characters is a line end.
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
