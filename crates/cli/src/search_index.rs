//! [`SearchIndex`]: ranks documents by how well they fit the words of a search.
//!
//! The rank is BM25 over weighted fields: a word counts for more if few documents have it, and if it is
//! in a short or important field. The index is made anew for each search from lists that are small, so
//! there is no file of it that could be out of date.

use std::collections::HashMap;

use bowline_config::closest_name;
use unicode_width::UnicodeWidthChar as _;

/// Words of documents, and which documents have them.
#[derive(Debug, Default)]
pub(crate) struct SearchIndex {
    /// The weighted number of words of each document.
    lengths: Vec<f32>,
    /// For each word, the documents that have it, with its weighted count in each.
    words: HashMap<Box<str>, Vec<(usize, f32)>>,
}

/// How fast more occurrences of a word count for less.
const SATURATION: f32 = 1.2;
/// How much a long document counts for less.
const LENGTH_PENALTY: f32 = 0.6;
/// How much a word counts that only begins like the one searched for, or is spelled like it.
const BEGINS_ALIKE: f32 = 0.5;
const SPELLED_ALIKE: f32 = 0.3;
/// Shortest word whose beginning or spelling is compared.
const MIN_COMPARED_CHARS: usize = 3;
/// Most words of a field, and of a search.
const MAX_WORDS: usize = 200;
/// Longest word.
const MAX_WORD_CHARS: usize = 64;

impl SearchIndex {
    /// Adds a document, whose number is that of the documents before it. Each field has a weight.
    pub(crate) fn add(&mut self, fields: &[(&str, f32)]) {
        let document = self.lengths.len();
        let mut length = 0.0;
        for (text, weight) in fields {
            visit_words(text, |word| {
                length += weight;
                // Most words are known: only a new one is copied.
                let Some(documents) = self.words.get_mut(word) else {
                    self.words.insert(word.into(), vec![(document, *weight)]);
                    return;
                };
                match documents.last_mut() {
                    Some((last, count)) if *last == document => *count += weight,
                    _ => documents.push((document, *weight)),
                }
            });
        }
        self.lengths.push(length);
    }

    /// The documents that have any of the words, the best first, with their ranks.
    pub(crate) fn search(&self, words: &str) -> Vec<(usize, f32)> {
        let total: f32 = self.lengths.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "a count of documents is small")]
        let (count, average) = (self.lengths.len() as f32, total / self.lengths.len().max(1) as f32);
        let searched = split_words(words);
        let mut ranks: HashMap<usize, (f32, usize)> = HashMap::new();
        for word in &searched {
            let mut best: HashMap<usize, f32> = HashMap::new();
            for (found, factor) in self.find(word) {
                #[expect(clippy::cast_precision_loss, reason = "a count of documents is small")]
                let having = found.len() as f32;
                let rarity = ((count - having + 0.5) / (having + 0.5)).ln_1p();
                for (document, occurrences) in found {
                    let length = self.lengths[*document] / average.max(f32::EPSILON);
                    let norm = SATURATION * (1.0 - LENGTH_PENALTY + LENGTH_PENALTY * length);
                    let rank = factor * rarity * occurrences * (SATURATION + 1.0) / (occurrences + norm);
                    let best = best.entry(*document).or_default();
                    *best = best.max(rank);
                }
            }
            for (document, rank) in best {
                let (sum, matched) = ranks.entry(document).or_default();
                (*sum, *matched) = (*sum + rank, *matched + 1);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a count of words is small")]
        let share = |matched: usize| matched as f32 / searched.len() as f32;
        let mut ranked: Vec<_> =
            ranks.into_iter().map(|(document, (sum, matched))| (document, sum * share(matched))).collect();
        ranked.sort_by(|(one, a), (other, b)| b.total_cmp(a).then(one.cmp(other)));
        ranked
    }

    /// The documents of a word and of words like it, and how much each of them counts.
    fn find(&self, word: &str) -> Vec<(&[(usize, f32)], f32)> {
        let mut found: Vec<(&[(usize, f32)], f32)> = Vec::new();
        found.extend(self.words.get(word).map(|documents| (&documents[..], 1.0)));
        if word.chars().count() < MIN_COMPARED_CHARS {
            return found;
        }
        let alike = self.words.iter().filter(|(other, _)| other.starts_with(word) && ***other != *word);
        found.extend(alike.map(|(_, documents)| (&documents[..], BEGINS_ALIKE)));
        if found.is_empty()
            && let Some(near) = closest_name(word, self.words.keys().map(|word| &**word))
        {
            found.push((&self.words[near], SPELLED_ALIKE));
        }
        found
    }
}

/// The words of a text, see [`visit_words`].
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    visit_words(text, |word| words.push(word.to_owned()));
    words
}

/// Visits the words of a text in lower case and without endings. Names in one word, such as
/// `listFiles`, are split as well.
fn visit_words(text: &str, mut visit: impl FnMut(&str)) {
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

    fn index(documents: &[(&str, &str)]) -> SearchIndex {
        let mut index = SearchIndex::default();
        for (name, about) in documents {
            index.add(&[(name, 3.0), (about, 1.0)]);
        }
        index
    }

    fn found(index: &SearchIndex, words: &str) -> Vec<usize> {
        index.search(words).into_iter().map(|(document, _)| document).collect()
    }

    #[test]
    fn words_of_names_and_texts() {
        assert_eq!(split_words("listFiles"), ["list", "file", "listfiles"]);
        assert_eq!(split_words("HTTPServer_get-URLs"), ["http", "server", "httpserver", "get", "url"]);
        assert_eq!(split_words("Searches the classes, queried!"), ["search", "the", "class", "queri"]);
        assert_eq!(split_words("日本x größe"), ["日", "本", "x", "größe"]);
        assert_eq!(split_words(" …"), [""; 0]);
    }

    #[test]
    fn names_count_for_more_than_texts_and_rare_words_for_more_than_common_ones() {
        let index = index(&[
            ("read_file", "Reads a file from the disk"),
            ("delete_file", "Removes a file"),
            ("send_mail", "Sends a message, with a file attached"),
            ("weather", "The weather of a city"),
        ]);
        assert_eq!(found(&index, "file"), [1, 0, 2]);
        assert_eq!(found(&index, "files mail")[0], 2);
        assert_eq!(found(&index, "city weather"), [3]);
        assert_eq!(found(&index, "nothing like it"), [0; 0]);
        assert_eq!(found(&index, ""), [0; 0]);
    }

    #[test]
    fn beginnings_and_misspelled_words_are_found() {
        let index =
            index(&[("screenshot", "Takes a picture"), ("screen", "About the screen"), ("other", "")]);
        assert_eq!(found(&index, "screen"), [1, 0], "the whole word first");
        assert_eq!(found(&index, "screensh"), [0]);
        assert_eq!(found(&index, "screnshot"), [0]);
    }

    #[test]
    fn a_document_with_all_words_comes_first() {
        let index = index(&[
            ("issue", "issue issue issue issue"),
            ("create_issue", "Creates an issue in a repository"),
            ("create", "create"),
        ]);
        assert_eq!(found(&index, "create issue")[0], 1);
    }
}
