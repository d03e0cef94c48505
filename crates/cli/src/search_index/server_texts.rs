//! [`ServerTexts`]: what a server offers, in the form that a search scans.
//!
//! Making it takes far longer than a search, so it is kept in a file beside the lists of the server. The first
//! line says which lists it was made from, after a checksum of what it says. Then each document has a line with its
//! words, and after those, each has a line of JSON for people, which is read only of servers of which something is
//! shown.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fs::{File, Metadata};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::time::SystemTime;

use bowline::Json;
use bowline_gateway::{SavedLists, ServerLists};
use memchr::{memchr_iter, memchr2_iter, memmem};
use serde::{Deserialize, Serialize};

use super::words::visit_words;

/// The documents of a server: its tools, prompts, resources and templates.
#[derive(Debug, Default)]
pub(crate) struct ServerTexts {
    /// The weighted number of words of each document.
    lengths: Vec<f32>,
    /// The words of all documents. Each word begins with a space, each field ends with a tab, and each document ends
    /// with a line feed.
    words: String,
    /// A line of JSON for each document.
    items: OnceCell<Vec<u8>>,
    /// Where the items are if they were not read.
    file: Option<SearchFile>,
}

/// A file as described above.
#[derive(Debug)]
struct SearchFile {
    lists: SavedLists,
    /// Its first line. A file with the same one has the same documents.
    header: Vec<u8>,
    /// Where the items begin, and their checksum.
    items: u64,
    items_checksum: u32,
}

/// The lists that a file was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    /// When they were saved.
    pub(crate) saved: SystemTime,
    /// Their length in the catalog.
    pub(crate) bytes: u64,
}

impl Source {
    pub(crate) fn of(lists: &SavedLists) -> Option<Self> {
        Some(Self { saved: lists.saved(), bytes: lists.bytes()? })
    }
}

/// The first line of a file: its checksum, and then this as JSON.
#[derive(Serialize, Deserialize)]
struct Header<'a> {
    version: u32,
    source: Source,
    lengths: Cow<'a, [f32]>,
    /// The bytes of all words, and of all items, and a checksum of either.
    words: u64,
    items: u64,
    words_checksum: u32,
    items_checksum: u32,
}

/// Changes with the format, with how texts are split into words, and with which lists a file is made of.
const VERSION: u32 = 5;
/// The length of the checksum at the beginning of the first line, in hexadecimal digits.
const CHECKSUM_DIGITS: usize = 8;

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
    /// Makes the documents of these lists.
    pub(crate) fn new(lists: &ServerLists) -> Self {
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
        Self { lengths, words, items: OnceCell::from(items.into_bytes()), file: None }
    }

    /// Reads the file of these lists. `None`: it was made from others, or is damaged.
    pub(crate) fn read(lists: &SavedLists) -> Option<Self> {
        let source = Source::of(lists)?;
        let path = lists.search_path();
        // Opening a pipe would wait for its writer.
        let bytes = std::fs::metadata(&path).ok().filter(Metadata::is_file)?.len();
        let mut reader = BufReader::new(File::open(&path).ok()?.take(bytes));
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line).ok()?;
        let header = Header::from_line(&line)?;
        if header.version != VERSION || header.source != source {
            return None;
        }
        let items = (line.len() as u64).checked_add(header.words)?;
        if items.checked_add(header.items)? != bytes {
            return None;
        }
        let mut words = String::with_capacity(usize::try_from(header.words).ok()?);
        reader.take(header.words).read_to_string(&mut words).ok()?;
        let is_of_words = has_lines(words.as_bytes(), header.lengths.len());
        if !is_of_words || crc32fast::hash(words.as_bytes()) != header.words_checksum {
            return None;
        }
        let lengths = header.lengths.into_owned();
        let items_checksum = header.items_checksum;
        let file = SearchFile { lists: lists.clone(), header: line, items, items_checksum };
        Some(Self { lengths, words, items: OnceCell::new(), file: Some(file) })
    }

    /// The contents of a file. `source`: the lists that the documents were made from.
    pub(crate) fn to_file(&self, source: Source) -> Vec<u8> {
        let items = self.items();
        let header = Header {
            version: VERSION,
            source,
            lengths: Cow::Borrowed(&self.lengths),
            words: self.words.len() as u64,
            items: items.len() as u64,
            words_checksum: crc32fast::hash(self.words.as_bytes()),
            items_checksum: crc32fast::hash(items),
        };
        let mut file = header.to_line();
        file.extend_from_slice(self.words.as_bytes());
        file.extend_from_slice(items);
        file
    }

    fn items(&self) -> &[u8] {
        self.items.get_or_init(|| {
            let Some(file) = &self.file else { return Vec::new() };
            let items = file.read_items().filter(|items| has_lines(items, self.lengths.len()));
            items.or_else(|| self.make_items(file)).unwrap_or_default()
        })
    }

    /// Makes the items anew if the file is damaged. `None` if the lists have changed since it was read.
    fn make_items(&self, file: &SearchFile) -> Option<Vec<u8>> {
        let made = Self::new(&file.lists.load()?);
        // Next time the file is made anew too.
        let _ = std::fs::remove_file(file.lists.search_path());
        if made.words == self.words { made.items.into_inner() } else { None }
    }

    /// A document, for people. `None` if the file has changed since it was read.
    pub(crate) fn item(&self, document: usize) -> Option<Item<'_>> {
        let mut lines = self.items().split(|byte| *byte == b'\n');
        serde_json::from_slice(lines.nth(document)?).ok()
    }

    /// The weighted number of words of each document.
    pub(super) fn lengths(&self) -> &[f32] {
        &self.lengths
    }

    /// All words, some of them more than once.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.words.split_ascii_whitespace()
    }

    /// Visits the words that begin like this: with the number of their document, and their weight.
    pub(super) fn visit_words<'a>(&'a self, beginning: &str, mut visit: impl FnMut(&'a str, usize, f32)) {
        let text = &*self.words;
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

impl Header<'_> {
    /// Reads the first line of a file. `None`: it is damaged, or of another version.
    fn from_line(line: &[u8]) -> Option<Self> {
        let (checksum, json) = line.strip_suffix(b"\n")?.split_at_checked(CHECKSUM_DIGITS)?;
        (checksum == checksum_digits(json).as_bytes()).then(|| serde_json::from_slice(json).ok())?
    }

    fn to_line(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).expect("numbers can be written as JSON");
        [checksum_digits(&json).as_bytes(), &*json, b"\n"].concat()
    }
}

fn checksum_digits(json: &[u8]) -> String {
    format!("{:0CHECKSUM_DIGITS$x}", crc32fast::hash(json))
}

/// Whether a text has this many lines, each with its end.
fn has_lines(text: &[u8], count: usize) -> bool {
    text.last().is_none_or(|last| *last == b'\n') && memchr_iter(b'\n', text).count() == count
}

impl SearchFile {
    fn read_items(&self) -> Option<Vec<u8>> {
        let mut file = File::open(self.lists.search_path()).ok()?;
        let mut header = vec![0; self.header.len()];
        file.read_exact(&mut header).ok()?;
        if header != self.header {
            return None;
        }
        file.seek(SeekFrom::Start(self.items)).ok()?;
        let mut items = Vec::new();
        file.read_to_end(&mut items).ok()?;
        (crc32fast::hash(&items) == self.items_checksum).then_some(items)
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
    use bowline::Server;
    use bowline::negotiation::ServerKey;
    use bowline_gateway::{CatalogCache as _, CatalogKey, FolderCatalog, Profile};
    use tempfile::TempDir;

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
        let texts = ServerTexts::new(&lists());
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

    /// Saves lists in a folder.
    fn save(folder: &TempDir, lists: &ServerLists) -> SavedLists {
        let server = ServerKey::from_server(&Server::stdio("s", "s").build().unwrap());
        let catalog = FolderCatalog::new(folder.path());
        catalog.save(&CatalogKey { server, profile: Profile::default() }, lists);
        catalog.latest(&[server]).remove(0).unwrap()
    }

    /// Reads a file with these contents.
    fn read(lists: &SavedLists, contents: &[u8]) -> Option<ServerTexts> {
        std::fs::write(lists.search_path(), contents).unwrap();
        ServerTexts::read(lists)
    }

    #[test]
    fn a_file_is_used_only_for_the_lists_that_it_was_made_from() {
        for lists in [lists(), ServerLists::default()] {
            let folder = tempfile::tempdir().unwrap();
            let saved = save(&folder, &lists);
            assert!(ServerTexts::read(&saved).is_none());
            let made = ServerTexts::new(&lists);
            let source = Source::of(&saved).unwrap();
            let file = made.to_file(source);
            let again = read(&saved, &file).expect("it is what was written");
            assert_eq!((&again.words, again.items()), (&made.words, made.items()));
            let other = Source { bytes: source.bytes + 1, ..source };
            assert!(read(&saved, &made.to_file(other)).is_none());
            for end in 0..file.len() {
                assert!(read(&saved, &file[..end]).is_none(), "{end}");
            }
            assert!(read(&saved, &[&*file, b"\n"].concat()).is_none());
        }
    }

    /// Words that were damaged are not searched, and items that were damaged are made anew.
    #[test]
    fn a_damaged_file_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let saved = save(&folder, &lists());
        let made = ServerTexts::new(&lists());
        let file = made.to_file(Source::of(&saved).unwrap());
        let items = file.len() - made.items().len();
        for at in items - made.words.len()..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            let read = read(&saved, &damaged);
            assert_eq!(read.is_some(), at >= items, "{at}");
            if let Some(texts) = read {
                assert_eq!(texts.items(), made.items(), "{at}");
                assert!(!saved.search_path().exists(), "{at}");
            }
        }
    }

    /// The first line, and where it ends.
    fn split_header(file: &[u8]) -> (Header<'_>, usize) {
        let end = file.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        (Header::from_line(&file[..end]).unwrap(), end)
    }

    #[test]
    fn a_file_with_a_damaged_first_line_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let saved = save(&folder, &lists());
        let file = ServerTexts::new(&lists()).to_file(Source::of(&saved).unwrap());
        let (_, end) = split_header(&file);
        for at in 0..end {
            let mut damaged = file.clone();
            for bits in 1..=u8::MAX {
                damaged[at] = file[at] ^ bits;
                let line = damaged.split_inclusive(|byte| *byte == b'\n').next().unwrap();
                assert!(Header::from_line(line).is_none(), "{at} {bits}");
            }
            assert!(read(&saved, &damaged).is_none(), "{at}");
        }
    }

    /// A search would look for the length of a document that has none.
    #[test]
    fn a_file_has_one_length_and_one_item_for_each_document() {
        let folder = tempfile::tempdir().unwrap();
        let saved = save(&folder, &lists());
        let made = ServerTexts::new(&lists());
        let file = made.to_file(Source::of(&saved).unwrap());
        let (_, end) = split_header(&file);
        let with_header = |change: &dyn Fn(&mut Header<'_>), rest: &[u8]| {
            let (mut header, _) = split_header(&file);
            change(&mut header);
            read(&saved, &[&*header.to_line(), rest].concat())
        };
        let (words, items) = (made.words.as_bytes(), made.items());
        assert!(with_header(&|_| {}, &file[end..]).is_some());
        for lengths in [vec![], vec![12.0], vec![12.0; 3]] {
            let with_lengths = |header: &mut Header<'_>| header.lengths = Cow::Owned(lengths.clone());
            assert!(with_header(&with_lengths, &file[end..]).is_none(), "{lengths:?}");
        }
        // All of it is items.
        let without_words = |header: &mut Header<'_>| {
            (header.items, header.words) = (header.items + header.words, 0);
            header.words_checksum = crc32fast::hash(b"");
        };
        assert!(with_header(&without_words, &file[end..]).is_none());
        // The last line of words has no end.
        let cut = &words[..words.len() - 1];
        let with_cut_words = |header: &mut Header<'_>| {
            header.words -= 1;
            header.words_checksum = crc32fast::hash(cut);
            header.lengths = Cow::Owned(vec![12.0]);
        };
        assert!(with_header(&with_cut_words, &[cut, items].concat()).is_none());
        // Items that are not those of the words are made anew.
        let with_more_items = |header: &mut Header<'_>| {
            header.items += 1;
            header.items_checksum = crc32fast::hash(&[items, b"\n"].concat());
        };
        let more = with_header(&with_more_items, &[words, items, b"\n"].concat()).unwrap();
        assert_eq!(more.items(), items);
        assert!(!saved.search_path().exists());
    }

    #[test]
    fn items_of_other_lists_are_not_shown_for_those_that_were_found() {
        let folder = tempfile::tempdir().unwrap();
        let saved = save(&folder, &lists());
        let file = ServerTexts::new(&lists()).to_file(Source::of(&saved).unwrap());
        let [before, after] = [(); 2].map(|()| read(&saved, &file).unwrap());
        assert_eq!(before.item(1).unwrap().id, "a://b");
        save(&folder, &ServerLists::default());
        std::fs::remove_file(saved.search_path()).unwrap();
        assert!(after.item(1).is_none());
        assert_eq!(before.item(1).unwrap().id, "a://b");
    }

    /// Opening a pipe would wait for ever.
    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let saved = save(&folder, &lists());
        let made = std::process::Command::new("mkfifo").arg(saved.search_path()).status().unwrap();
        assert!(made.success());
        assert!(ServerTexts::read(&saved).is_none());
    }
}
