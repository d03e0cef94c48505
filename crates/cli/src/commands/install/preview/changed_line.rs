//! [`ChangedLine`]: what is shown of a line of JSON in which only a part has changed, such as that of a file that is
//! one long line. Keys and brackets are shown, and no values.

use std::ops::Range;

use super::{HIDDEN, is_shown_key};

/// A line of JSON, and the line that it took the place of or that takes its place.
pub(super) struct ChangedLine<'a> {
    pub(super) line: &'a str,
    pub(super) other: &'a str,
}

/// A piece of a line, and what is shown of it.
struct Token<'a> {
    /// Byte offset in the line.
    start: usize,
    text: &'a str,
    shown: &'a str,
}

/// How many characters are shown before and after a change.
const CONTEXT_CHARS: usize = 40;
/// Longest change that is shown. One reason for a longer one is a second change at the end of the line.
const MAX_CHANGE_CHARS: usize = 4000;

impl ChangedLine<'_> {
    /// Returns the part of the line that the other one does not have, with a few characters around it. Entries of
    /// bowline are shown in full. `None` if the part is too long, or the line as a whole is an entry of bowline.
    pub(super) fn show(&self, own_texts: &[String]) -> Option<String> {
        if own_texts.iter().any(|text| text.lines().any(|own| own == self.line)) {
            return None;
        }
        let (tokens, others) = (read_tokens(self.line), read_tokens(self.other));
        let own = find_own_ranges(self.line, own_texts);
        if !own.iter().all(|range| is_aligned(range, &tokens)) {
            return None;
        }
        let is_own = |token: &Token<'_>| own.iter().any(|range| range.contains(&token.start));
        let shown = tokens.iter().map(|token| if is_own(token) { token.text } else { token.shown });
        let shown: Vec<&str> = shown.collect();
        let changed = find_change(&tokens, &others);
        if shown[changed.clone()].iter().map(|text| text.chars().count()).sum::<usize>() > MAX_CHANGE_CHARS {
            return None;
        }
        let first = changed.start - count_context(shown[..changed.start].iter().rev());
        let last = changed.end + count_context(shown[changed.end..].iter());
        let mut text = shown[first..last].concat();
        if first > 0 && !text.starts_with(HIDDEN) {
            text.insert_str(0, HIDDEN);
        }
        if last < shown.len() && !text.ends_with(HIDDEN) {
            text.push_str(HIDDEN);
        }
        Some(text)
    }
}

/// The tokens that are not at the beginning or the end of the other line as well.
fn find_change(tokens: &[Token<'_>], others: &[Token<'_>]) -> Range<usize> {
    let is_same = |(one, other): &(&Token<'_>, &Token<'_>)| one.text == other.text;
    let head = tokens.iter().zip(others).take_while(is_same).count();
    let rest = tokens.len().min(others.len()) - head;
    let tail = tokens.iter().rev().zip(others.iter().rev()).take(rest).take_while(is_same).count();
    head..tokens.len() - tail
}

/// How many of these tokens are shown around a change.
fn count_context<'a>(shown: impl Iterator<Item = &'a &'a str>) -> usize {
    let mut chars = 0;
    let is_near = |text: &&&str| {
        chars += text.chars().count();
        chars <= CONTEXT_CHARS
    };
    shown.take_while(is_near).count()
}

/// Where the entries of bowline are in a line.
fn find_own_ranges(line: &str, own_texts: &[String]) -> Vec<Range<usize>> {
    let texts = own_texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
    texts.filter_map(|text| line.find(text).map(|at| at..at + text.len())).collect()
}

/// Whether a range begins and ends where tokens do.
fn is_aligned(range: &Range<usize>, tokens: &[Token<'_>]) -> bool {
    tokens.iter().any(|token| token.start == range.start)
        && tokens.iter().any(|token| token.start + token.text.len() == range.end)
}

fn read_tokens(line: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut start = 0;
    while start < line.len() {
        let rest = &line[start..];
        let (length, is_shown) = measure_token(rest);
        let text = &rest[..length];
        tokens.push(Token { start, text, shown: if is_shown { text } else { HIDDEN } });
        start += length;
    }
    tokens
}

/// The length of the first token in bytes, and whether it is shown.
fn measure_token(rest: &str) -> (usize, bool) {
    let count = |is_part: fn(char) -> bool| rest.len() - rest.trim_start_matches(is_part).len();
    let is_word_part: fn(char) -> bool = |c| c.is_ascii_alphanumeric() || "+-.".contains(c);
    match rest.as_bytes() {
        [b'{' | b'}' | b'[' | b']' | b',' | b':', ..] => (1, true),
        [b'"', ..] => measure_string(rest),
        [b'/', b'*', ..] => (rest[2..].find("*/").map_or(rest.len(), |at| at + 4), false),
        _ if rest.starts_with(char::is_whitespace) => (count(char::is_whitespace), true),
        _ if rest.starts_with(is_word_part) => (count(is_word_part), false),
        // A comment up to the end of the line, or something else than JSON.
        _ => (rest.len(), false),
    }
}

/// The length of a string with its quotes, and whether it is a key that is shown.
fn measure_string(rest: &str) -> (usize, bool) {
    let mut is_escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => {
                let is_key = rest[at + 1..].trim_start().starts_with(':');
                return (at + 1, is_key && is_shown_key(&rest[1..at]));
            }
            _ => {}
        }
    }
    (rest.len(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_line_are_never_shown() {
        for (line, shown) in [
            (r#"{"a": "x", "b" : [1.5e+3, true, null]}"#, r#"{"a": …, "b" : […, …, …]}"#),
            (r#"["x", "y\": z"]"#, "[…, …]"),
            (r#"{"sk\"-x": 1, "a b": "x"} // mine"#, r#"{…: …, "a b": …} …"#),
            (r#"{"a": /* x */ {}, "b"#, r#"{"a": … {}, …"#),
            ("token x", "… …"),
            ("é: x", "…"),
        ] {
            let tokens = read_tokens(line);
            assert_eq!(tokens.iter().map(|token| token.shown).collect::<String>(), shown, "{line}");
            assert_eq!(tokens.iter().map(|token| token.text).collect::<String>(), line);
        }
    }
}
