//! Splits texts into the words that are searched for.

use unicode_width::UnicodeWidthChar as _;

/// Most words of a field, and of a search.
const MAX_WORDS: usize = 200;
/// Longest word.
const MAX_WORD_CHARS: usize = 64;

/// The words of a text, see [`visit_words`].
pub(super) fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    visit_words(text, |word| words.push(word.to_owned()));
    words
}

/// Visits the words of a text in lower case and without endings. Names in one word, such as
/// `listFiles`, are split as well.
pub(super) fn visit_words(text: &str, mut visit: impl FnMut(&str)) {
    let mut word = String::new();
    let parts = text.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
    for part in parts.take(MAX_WORDS) {
        word.clear();
        if part.len() <= MAX_WORD_CHARS && part.bytes().all(|byte| byte.is_ascii_lowercase()) {
            word.push_str(part);
            stem(&mut word);
            visit(&word);
        } else {
            visit_pieces(part, &mut word, &mut visit);
        }
    }
}

/// Visits the pieces of a word that may be a name, and the whole of it if there are several.
fn visit_pieces(part: &str, word: &mut String, visit: &mut impl FnMut(&str)) {
    let mut pieces = 0;
    let mut before: Option<char> = None;
    let chars: Vec<char> = part.chars().take(MAX_WORD_CHARS).collect();
    for (at, c) in chars.iter().enumerate() {
        // `URLs` is one word.
        let is_plural = chars[at + 1..] == ['s'];
        let next_is_lower = chars.get(at + 1).is_some_and(|next| next.is_lowercase()) && !is_plural;
        let begins = before.is_some_and(|before| {
            // `listFiles`, `HTTPServer`, and scripts without spaces.
            (c.is_uppercase() && (before.is_lowercase() || next_is_lower)) || is_wide(*c) || is_wide(before)
        });
        if begins && !word.is_empty() {
            stem(word);
            visit(word);
            word.clear();
            pieces += 1;
        }
        word.extend(c.to_lowercase());
        before = Some(*c);
    }
    stem(word);
    visit(word);
    if pieces > 0 && !chars.iter().any(|c| is_wide(*c)) {
        let whole: String = chars.iter().flat_map(|c| c.to_lowercase()).collect();
        visit(&whole);
    }
}

/// Whether a character is of a script that is written without spaces.
fn is_wide(c: char) -> bool {
    c.width() == Some(2)
}

/// An ending, what takes its place, and how much must be left of the word.
const ENDINGS: [(&str, &str, usize); 8] = [
    ("ies", "y", 2),
    ("ches", "ch", 2),
    ("shes", "sh", 2),
    ("xes", "x", 2),
    ("sses", "ss", 2),
    ("s", "", 3),
    ("ing", "", 4),
    ("ed", "", 4),
];

/// Removes the commonest endings of English words, so that `files` finds `file`.
fn stem(word: &mut String) {
    if !word.is_ascii() || word.ends_with("ss") {
        return;
    }
    for (ending, replacement, min) in ENDINGS {
        let rest = word.len().saturating_sub(ending.len());
        if word.ends_with(ending) && rest >= min {
            word.truncate(rest);
            word.push_str(replacement);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_names_and_texts() {
        assert_eq!(split_words("listFiles"), ["list", "file", "listfiles"]);
        assert_eq!(split_words("HTTPServer_get-URLs"), ["http", "server", "httpserver", "get", "url"]);
        assert_eq!(split_words("Searches the classes, queried!"), ["search", "the", "class", "queri"]);
        assert_eq!(split_words("日本x größe"), ["日", "本", "x", "größe"]);
        assert_eq!(split_words(" …"), [""; 0]);
    }
}
