//! Decides which words have the shape of a token, whatever they are called.

use std::collections::HashSet;
use std::ops::Range;

use super::scrutiny::Scrutiny;
use super::{REDACTED, find_in_url};

/// Redacts words with the shape of a token in a text of any kind, such as what a server prints: keys of well-known
/// services, long random words, what follows `Bearer` or `NAME_TOKEN=`, and passwords and keys in URLs.
pub fn redact_tokens(text: &str) -> String {
    let mut shown = text.to_owned();
    for range in find_in_prose(text).into_iter().rev() {
        shown.replace_range(range, REDACTED);
    }
    shown
}

/// Finds what [`redact_tokens`] redacts. The ranges are in order, and apart from each other.
fn find_in_prose(text: &str) -> Vec<Range<usize>> {
    let mut found = find_token_words(text);
    for (colon, scheme_end) in text.match_indices("://") {
        let before = text[..colon].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || "+-.".contains(c));
        let rest = &text[colon + scheme_end.len()..];
        let length = rest.find(|c: char| c.is_whitespace() || "\"'<>`".contains(c)).unwrap_or(rest.len());
        let url = &text[before.len()..colon + scheme_end.len() + length];
        found.extend(find_in_url(url).into_iter().map(|part| part.shifted(before.len()).range));
    }
    found.extend(find_after_scheme(text));
    let assigned = Scrutiny::Words.find_assigned(text, &HashSet::new());
    found.extend(assigned.into_iter().map(|part| part.range));
    merge(found)
}

/// Finds keys of well-known services and long random words.
fn find_token_words(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (at, run) in split_runs(text, |c| c.is_ascii_alphanumeric() || "-_+/=".contains(c)) {
        let count_before = found.len();
        for (inner, piece) in split_runs(run, |c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
            let word = piece.trim_start_matches('-');
            let begin = at + inner + piece.len() - word.len();
            if has_token_prefix(word) || is_random_word(word) {
                found.push(begin..begin + token_length(&text[begin..], word));
            }
        }
        // Base64 may have slashes in it, but so have paths.
        let is_apart = found.len() == count_before && !run.starts_with('/');
        if is_apart && has_all_classes(run) && is_random_word(run) {
            found.push(at..at + run.len());
        }
    }
    found
}

/// The length of a token that begins with this word. A JSON web token goes on after its dots.
fn token_length(rest: &str, word: &str) -> usize {
    if !word.starts_with(JWT_PREFIX) {
        return word.len();
    }
    let is_outside = |c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c);
    rest[..rest.find(is_outside).unwrap_or(rest.len())].trim_end_matches('.').len()
}

/// Finds what follows `Bearer` or `Basic`, unless it looks like prose or like a parameter of a challenge.
fn find_after_scheme(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut follows_scheme = false;
    for (at, run) in split_runs(text, |c| c.is_ascii_alphanumeric() || "-_.~+/=".contains(c)) {
        if follows_scheme && !is_joined_words(run) {
            found.push(at..at + run.len());
        }
        follows_scheme = ["bearer", "basic"].iter().any(|scheme| run.eq_ignore_ascii_case(scheme));
    }
    found
}

/// Whether a word begins as the keys of a well-known service do, and is not made of words: a package may be called
/// `sk-learn-server`.
pub(super) fn has_token_prefix(word: &str) -> bool {
    let Some(prefix) = TOKEN_PREFIXES.iter().find(|prefix| word.starts_with(**prefix)) else { return false };
    let is_apart = prefix.ends_with(['-', '_']);
    if is_apart && is_joined_words(word) {
        return false;
    }
    word.len() >= if is_apart { MIN_KEY_CHARS } else { MIN_PREFIXED_CHARS }
}

/// Whether a part of a path looks like it was drawn at random.
pub(super) fn is_random(part: &str) -> bool {
    part.len() >= 20
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte))
        && count(part, u8::is_ascii_digit) >= 3
        && count(part, u8::is_ascii_alphabetic) >= 3
}

/// Whether a word is a long random one: hexadecimal, or as mixed as base64 is.
pub(super) fn is_random_word(word: &str) -> bool {
    let is_hex = || word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    word.len() >= MIN_RANDOM_CHARS
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_+/=".contains(&byte))
        && count(word, u8::is_ascii_digit) >= 3
        && count(word, u8::is_ascii_alphabetic) >= 3
        && !is_joined_words(word)
        && (is_hex() || count_class_changes(word) * 4 >= word.len())
}

/// Whether a text consists of words and short numbers that are joined by other characters.
fn is_joined_words(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric()).all(is_plain_part)
}

/// Whether a part is a word, which may have a number at its end, or a short number.
fn is_plain_part(part: &str) -> bool {
    let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = part.len() - letters.len();
    if letters.is_empty() {
        return digits <= 4;
    }
    let has_one_case = letters.bytes().skip(1).all(|byte| byte.is_ascii_lowercase())
        || letters.bytes().all(|byte| byte.is_ascii_uppercase());
    part.len() <= 3 || (has_one_case && letters.len() <= MAX_WORD_CHARS && digits <= 2)
}

/// Counts the neighbors of different kinds: lowercase, uppercase, digit.
fn count_class_changes(word: &str) -> usize {
    let class = |byte: u8| match byte {
        b'a'..=b'z' => Some(0),
        b'A'..=b'Z' => Some(1),
        b'0'..=b'9' => Some(2),
        _ => None,
    };
    let classes: Vec<_> = word.bytes().map(class).collect();
    classes.windows(2).filter(|pair| pair[0].is_some() && pair[1].is_some() && pair[0] != pair[1]).count()
}

fn has_all_classes(word: &str) -> bool {
    [u8::is_ascii_digit, u8::is_ascii_lowercase, u8::is_ascii_uppercase]
        .into_iter()
        .all(|is| count(word, is) > 0)
}

fn count(word: &str, is: fn(&u8) -> bool) -> usize {
    word.bytes().filter(is).count()
}

/// Finds the longest runs of such characters, each with its offset.
fn split_runs(text: &str, is_inside: impl Fn(char) -> bool) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    for piece in text.split_inclusive(|c| !is_inside(c)) {
        let run = piece.trim_end_matches(|c| !is_inside(c));
        if !run.is_empty() {
            found.push((at, run));
        }
        at += piece.len();
    }
    found
}

/// Joins ranges that overlap.
pub(super) fn merge(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

const JWT_PREFIX: &str = "eyJ";

/// How tokens of well-known services begin.
const TOKEN_PREFIXES: [&str; 27] = [
    "hf_",
    "gsk_",
    "shpat_",
    "dop_v1_",
    "ASIA",
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghr_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxa-",
    "xoxb-",
    "xoxe-",
    "xoxp-",
    "xoxr-",
    "xoxs-",
    "xapp-",
    "AKIA",
    "AIza",
    JWT_PREFIX,
    "ntn_",
];

/// From this length on, a word with such a beginning is a token.
const MIN_PREFIXED_CHARS: usize = 16;
/// From this length on, a word is a token whose beginning ends with a hyphen or an underscore.
const MIN_KEY_CHARS: usize = 8;
/// Shortest word that is a token because it looks random.
const MIN_RANDOM_CHARS: usize = 32;
/// Longest word in a name.
const MAX_WORD_CHARS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        let mut shown = text.to_owned();
        for range in find_in_prose(text).into_iter().rev() {
            shown.replace_range(range, "*");
        }
        shown
    }

    #[test]
    fn words_with_the_shape_of_a_token_are_found_in_prose() {
        for (text, shown) in [
            ("bad key (sk-live-S3CR3T0123456789), again", "bad key (*), again"),
            ("no `sk-S3CR3T`", "no `*`"),
            ("token=ghp_0123456789abcdef0123.", "token=*"),
            ("is github_pat_11ABCDEFG0abcdefghij_x.", "is *."),
            ("xoxb-12345-67890-AbCdEf and xoxa-2-12345-AbCdEf", "* and *"),
            ("use AKIAIOSFODNN7EXAMPLE!", "use *!"),
            ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl.", "jwt *."),
            ("id 0f8fad5bd9cb469fa16570867728950e", "id *"),
            ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEX4MPL3K3Y", "*"),
            ("Authorization: Bearer aB3xY9", "Authorization: Bearer *"),
            ("{\"a\":\"Zx81kQ0pLm5Tn2Rv7Bw4Yc6Hd9Jf3Gs8\"}", "{\"a\":\"*\"}"),
            ("at https://u:p@h/s/0f8fad5b-d9cb-469f-a165-70867728950e/mcp", "at https://*@h/s/*/mcp"),
            ("set API_KEY=hush; exit", "set API_KEY=*; exit"),
        ] {
            assert_eq!(redacted(text), shown);
        }
    }

    #[test]
    fn prose_without_tokens_stays_as_it_is() {
        for text in [
            "the server wants a bearer token",
            "Bearer realm=\"mcp\", resource_metadata=\"https://h/.well-known/oauth-protected-resource/mcp\"",
            "/usr/local/lib/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js:10:5",
            "error -32601: method notifications/resources/list_changed is unknown",
            "modern, revision 2026-07-28, over http by everything-server-for-tests 12.34.5678",
            "Bearer [redacted], key [redacted]",
            "skip sk-learn, task-list and eye",
        ] {
            assert_eq!(redacted(text), text);
        }
    }
}
