//! [`ServerTexts`]: what a server offers, in the form that a search scans.
//!
//! Making it takes far longer than a search, so it is kept in a file beside the lists of the server. The first
//! line says which lists it was made from. Then each document has a line with its words, and after those, each
//! has a line of JSON for people.

use std::borrow::Cow;
use std::ops::Range;
use std::time::SystemTime;

use bowline::Json;
use bowline_gateway::ServerLists;
use memchr::{memchr_iter, memchr2_iter, memmem};
use serde::{Deserialize, Serialize};

use super::words::visit_words;

/// The documents of a server: its tools, prompts, resources and templates.
#[derive(Debug, Default)]
pub(crate) struct ServerTexts {
    /// A file as described above.
    text: String,
    /// The weighted number of words of each document.
    lengths: Vec<f32>,
    /// Where the words of all documents are. Each word begins with a space, each field ends with a tab, and
    /// each document ends with a line feed.
    words: Range<usize>,
    /// Where the JSON of each document begins.
    items: Vec<usize>,
}

/// The lists that a file was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    /// When they were saved.
    pub(crate) saved: SystemTime,
    /// Their length in the catalog.
    pub(crate) bytes: u64,
}

/// The first line of a file.
#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    source: Option<Source>,
    lengths: Vec<f32>,
}

/// Changes with the format, and with how texts are split into words.
const VERSION: u32 = 1;

/// A document, for people.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Item<'a> {
    /// `tool`, `prompt`, `resource` or `template`.
    #[serde(borrow)]
    pub(crate) kind: Cow<'a, str>,
    /// The name of a tool or prompt, the URI of a resource, or a template.
    #[serde(borrow)]
    pub(crate) id: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) title: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) description: Option<Cow<'a, str>>,
}

/// What is said about an element of a list.
#[derive(Default, Deserialize)]
#[serde(default)]
struct About<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow)]
    description: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uri: Cow<'a, str>,
    #[serde(borrow, rename = "uriTemplate")]
    uri_template: Cow<'a, str>,
}

/// How much the words of each field count: the names, the title and the description.
const WEIGHTS: [f32; 3] = [3.0, 2.0, 1.0];

impl ServerTexts {
    /// Makes the documents of these lists. `source`: where they are kept.
    pub(crate) fn new(lists: &ServerLists, source: Option<Source>) -> Self {
        let kinds: [(&str, &[Json]); 4] = [
            ("tool", &lists.tools),
            ("prompt", &lists.prompts),
            ("resource", &lists.resources),
            ("template", &lists.templates),
        ];
        let (mut lengths, mut words, mut items) = (Vec::new(), String::new(), String::new());
        for (kind, list) in kinds {
            for json in list {
                let Ok(about) = json.decode::<About<'_>>() else { continue };
                let id = match kind {
                    "resource" => &about.uri,
                    "template" => &about.uri_template,
                    _ => &about.name,
                };
                let other_name = if *id == about.name { "" } else { &*about.name };
                let title = about.title.as_deref().unwrap_or_default();
                let description = about.description.as_deref().unwrap_or_default();
                lengths.push(push_words(&[&[&**id, other_name], &[title], &[description]], &mut words));
                let item = Item {
                    kind: kind.into(),
                    id: id.clone(),
                    title: about.title.clone(),
                    description: about.description.clone(),
                };
                items.push_str(&serde_json::to_string(&item).expect("texts can be written as JSON"));
                items.push('\n');
            }
        }
        let header = serde_json::to_string(&Header { version: VERSION, source, lengths }).expect("the same");
        Self::parse(format!("{header}\n{words}{items}"), source).expect("it was written in this format")
    }

    /// Reads a file that was made from these lists. `None`: it was made from others, or is damaged.
    pub(crate) fn parse(text: String, source: Option<Source>) -> Option<Self> {
        let (header, _) = text.split_once('\n')?;
        let Header { version, source: given, lengths } = serde_json::from_str(header).ok()?;
        if version != VERSION || given != source {
            return None;
        }
        let first = header.len() + 1;
        let lines = memchr_iter(b'\n', &text.as_bytes()[first..]).map(|at| first + at + 1);
        let mut ends: Vec<usize> = std::iter::once(first).chain(lines).collect();
        if ends.len() != 2 * lengths.len() + 1 || ends.last() != Some(&text.len()) {
            return None;
        }
        ends.pop();
        let items = if lengths.is_empty() { Vec::new() } else { ends.split_off(lengths.len()) };
        let words = first..items.first().copied().unwrap_or(first);
        Some(Self { text, lengths, words, items })
    }

    /// The contents of a file.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The weighted number of words of each document.
    pub(super) fn lengths(&self) -> &[f32] {
        &self.lengths
    }

    /// A document, for people.
    pub(crate) fn item(&self, document: usize) -> Option<Item<'_>> {
        let line = self.text.get(*self.items.get(document)?..)?.lines().next()?;
        serde_json::from_str(line).ok()
    }

    /// All words, some of them more than once.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.text[self.words.clone()].split_ascii_whitespace()
    }

    /// Visits the words that begin like this: with the number of their document, and their weight.
    pub(super) fn visit_words<'a>(&'a self, beginning: &str, mut visit: impl FnMut(&'a str, usize, f32)) {
        let text = &self.text[self.words.clone()];
        let (mut document, mut field, mut seen) = (0, 0, 0);
        for at in memmem::find_iter(text.as_bytes(), &format!(" {beginning}")) {
            for mark in memchr2_iter(b'\t', b'\n', &text.as_bytes()[seen..at]) {
                let is_field = text.as_bytes()[seen + mark] == b'\t';
                (document, field) = if is_field { (document, field + 1) } else { (document + 1, 0) };
            }
            seen = at;
            let word = &text[at + 1..];
            // Words have letters and digits only, and what follows one is a blank.
            let end = word.bytes().position(|byte| byte <= b' ').unwrap_or(word.len());
            visit(&word[..end], document, WEIGHTS.get(field).copied().unwrap_or_default());
        }
    }
}

/// Appends a document with these fields, of one or more texts each. Returns its weighted number of words.
fn push_words(fields: &[&[&str]; WEIGHTS.len()], words: &mut String) -> f32 {
    let mut length = 0.0;
    for (texts, weight) in fields.iter().zip(WEIGHTS) {
        for text in *texts {
            visit_words(text, |word| {
                length += weight;
                words.push(' ');
                words.push_str(word);
            });
        }
        words.push('\t');
    }
    words.push('\n');
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists() -> ServerLists {
        let json = |text| Json::parse(text).unwrap();
        ServerLists {
            tools: vec![
                json(r#"{"name":"readFile","description":"Reads\n\ta file"}"#),
                json(r#"{"name":1}"#),
            ],
            resources: vec![json(r#"{"uri":"a://b","name":"File list","title":"Files"}"#)],
            ..ServerLists::default()
        }
    }

    fn found<'a>(texts: &'a ServerTexts, beginning: &str) -> Vec<(&'a str, usize, f32)> {
        let mut found = Vec::new();
        texts.visit_words(beginning, |word, document, weight| found.push((word, document, weight)));
        found
    }

    #[test]
    fn words_are_found_with_their_documents_and_weights() {
        let texts = ServerTexts::new(&lists(), None);
        assert_eq!(texts.lengths(), [12.0, 14.0]);
        assert_eq!(
            found(&texts, "file"),
            [("file", 0, 3.0), ("file", 0, 1.0), ("file", 1, 3.0), ("file", 1, 2.0)]
        );
        assert_eq!(found(&texts, "readf"), [("readfile", 0, 3.0)]);
        assert_eq!(found(&texts, "ile"), []);
        let item = texts.item(1).unwrap();
        assert_eq!((&*item.kind, &*item.id, item.title.as_deref()), ("resource", "a://b", Some("Files")));
        assert_eq!(texts.item(0).unwrap().description.as_deref(), Some("Reads\n\ta file"));
        assert!(texts.item(2).is_none());
    }

    #[test]
    fn a_file_is_used_only_for_the_lists_that_it_was_made_from() {
        let source = Some(Source { saved: SystemTime::UNIX_EPOCH, bytes: 7 });
        for lists in [lists(), ServerLists::default()] {
            let made = ServerTexts::new(&lists, source);
            let read = |text: &str, source| ServerTexts::parse(text.to_owned(), source);
            let again = read(made.as_str(), source).expect("it is what was written");
            assert_eq!(again.words().collect::<Vec<_>>(), made.words().collect::<Vec<_>>());
            assert!(read(made.as_str(), Some(Source { saved: SystemTime::UNIX_EPOCH, bytes: 8 })).is_none());
            assert!(read(made.as_str(), None).is_none());
            for end in 0..made.as_str().len() {
                assert!(read(&made.as_str()[..end], source).is_none(), "{end}");
            }
            assert!(read(&format!("{}\n", made.as_str()), source).is_none());
        }
    }
}
