//! Finds comments, literals and the ends of items in Rust source.
//!
//! This is a lexer for comments, literals and brackets, not a parser. It is exact for
//! rustfmt-formatted source.

use std::ops::Range;

/// Returns the line, from 1, of byte `at`.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Blanks comments, string and character literals, keeping length and line ends.
pub(super) fn blank_literals(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    for range in find_literals(text.as_bytes()) {
        wipe(&mut out[range]);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Blanks everything but comments, keeping length and line ends.
pub(super) fn blank_all_but_comments(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    for comment in find_literals(bytes).into_iter().filter(|range| bytes[range.start] == b'/') {
        wipe(&mut out[at..comment.start]);
        at = comment.end;
    }
    wipe(&mut out[at..]);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the ranges of comments, strings and characters, in order.
fn find_literals(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        at = match literal_end(bytes, at) {
            Some(end) => {
                found.push(at..end);
                end
            }
            // Skips whole words, so that the `r` of `for"` is not taken for a raw string.
            None if is_word(bytes[at]) => word_end(bytes, at),
            None => at + 1,
        };
    }
    found
}

/// Returns the byte after the end of a comment or literal that starts at `at`, if one does.
fn literal_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => Some(find(bytes, at, b"\n").unwrap_or(bytes.len())),
        [b'/', b'*', ..] => Some(block_comment_end(bytes, at)),
        [b'"', ..] => Some(quoted_end(bytes, at + 1, b'"')),
        [b'\'', b'\\', ..] => Some(quoted_end(bytes, at + 1, b'\'')),
        // A character literal is closed right behind it; a lifetime is not.
        [b'\'', first, ..] => {
            let width = utf8_width(*first);
            (rest.get(1 + width) == Some(&b'\'')).then_some(at + width + 2)
        }
        [first, ..] if is_word(*first) => {
            let prefix = word_end(bytes, at);
            match &bytes[at..prefix] {
                b"b" | b"c" if bytes.get(prefix) == Some(&b'"') => Some(quoted_end(bytes, prefix + 1, b'"')),
                b"b" if bytes.get(prefix) == Some(&b'\'') => Some(quoted_end(bytes, prefix + 1, b'\'')),
                b"r" | b"br" | b"cr" => raw_string_end(bytes, prefix),
                _ => None,
            }
        }
        _ => None,
    }
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

fn quoted_end(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'\\' => 2,
            _ if byte == quote => return at + 1,
            _ => 1,
        };
    }
    bytes.len()
}

fn raw_string_end(bytes: &[u8], hashes_start: usize) -> Option<usize> {
    let hashes = bytes[hashes_start..].iter().take_while(|&&byte| byte == b'#').count();
    let open = hashes_start + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    Some(find(bytes, open + 1, &close).map_or(bytes.len(), |end| end + close.len()))
}

/// Returns the end of the item at `at`: behind its `;` or behind its body.
pub(super) fn item_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b';' => return at + 1,
            b'{' => return group_end(bytes, at),
            b'(' | b'[' => at = group_end(bytes, at),
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the byte behind the bracket that closes the one at `open`.
pub(super) fn group_end(bytes: &[u8], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    bytes.len()
}

fn wipe(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(what.len()).position(|window| window == what).map(|at| from + at)
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

fn word_end(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take_while(|&&byte| is_word(byte)).count()
}

fn utf8_width(first: u8) -> usize {
    match first {
        0xF0.. => 4,
        0xE0.. => 3,
        0xC0.. => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_blanked_in_place() {
        let text =
            "let a = \"std::fs\"; // std::net\nlet b = r#\"x\"y\"#; /* a /* b */ c */ z('\"', 'é', b'\\'');";
        let code = blank_literals(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code.lines().count(), 2);
        let dense: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(dense.join(" "), "let a = ; let b = ; z( , , );");
    }

    #[test]
    fn comments_can_be_had_alone() {
        let text = "/// one\nlet a = \"// two\"; // three\n/* four */ let b = '\"'; // é";
        let comments = blank_all_but_comments(text);
        assert_eq!(comments.len(), text.len());
        let dense: Vec<&str> = comments.split_whitespace().collect();
        assert_eq!(dense.join(" "), "/// one // three /* four */ // é");
        assert_eq!(comments.lines().count(), 3);
    }

    #[test]
    fn lifetimes_and_raw_identifiers_stay_code() {
        let text = "fn f<'a>(r#type: &'a str) -> &'static str { for_r }";
        assert_eq!(blank_literals(text), text);
    }
}
