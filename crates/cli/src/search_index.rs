//! [`SearchIndex`]: ranks what servers offer by how well it fits the words of a search.
//!
//! The rank is BM25 over weighted fields: a word counts for more if few documents have it, and if it is
//! in a short or important field.

mod server_texts;
mod words;

use std::collections::{BTreeSet, HashMap};

use bowline_config::closest_name;

pub(crate) use server_texts::{ServerTexts, Source};
use words::split_words;

/// The documents of some servers.
#[derive(Debug, Default)]
pub(crate) struct SearchIndex<'a> {
    servers: Vec<SearchedServer<'a>>,
    /// The weighted number of words of each document.
    lengths: Vec<f32>,
}

#[derive(Debug)]
struct SearchedServer<'a> {
    texts: &'a ServerTexts,
    /// The words of the name of the server. They belong to each of its documents.
    name: Vec<String>,
    /// The number of its first document.
    first: usize,
}

/// A document that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Match {
    /// The number of its server, in the order in which servers were added.
    pub(crate) server: usize,
    /// Its number among those of the server.
    pub(crate) document: usize,
    pub(crate) rank: f32,
}

/// Documents that have a word, with its weighted count in each.
type Postings = Vec<(usize, f32)>;

/// How much a word in the name of the server counts.
const SERVER_WEIGHT: f32 = 1.0;
/// How fast more occurrences of a word count for less.
const SATURATION: f32 = 1.2;
/// How much a long document counts for less.
const LENGTH_PENALTY: f32 = 0.6;
/// How much a word counts that only begins like the one searched for, or is spelled like it.
const BEGINS_ALIKE: f32 = 0.5;
const SPELLED_ALIKE: f32 = 0.3;
/// Shortest word whose beginning or spelling is compared.
const MIN_COMPARED_CHARS: usize = 3;

impl<'a> SearchIndex<'a> {
    /// Adds a server.
    pub(crate) fn add(&mut self, name: &str, texts: &'a ServerTexts) {
        let name = split_words(name);
        let first = self.lengths.len();
        #[expect(clippy::cast_precision_loss, reason = "a count of words is small")]
        let in_name = name.len() as f32 * SERVER_WEIGHT;
        self.lengths.extend(texts.lengths().iter().map(|length| length + in_name));
        self.servers.push(SearchedServer { texts, name, first });
    }

    /// The documents that have any of the words, the best first.
    pub(crate) fn search(&self, words: &str) -> Vec<Match> {
        let total: f32 = self.lengths.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "a count of documents is small")]
        let (count, average) = (self.lengths.len() as f32, total / self.lengths.len().max(1) as f32);
        let searched = split_words(words);
        // The sum of the ranks of a document, and the number of words that it has.
        let mut ranks = vec![(0.0, 0_u16); self.lengths.len()];
        for word in &searched {
            let mut best = vec![0.0_f32; self.lengths.len()];
            for (found, factor) in self.find(word) {
                #[expect(clippy::cast_precision_loss, reason = "a count of documents is small")]
                let having = found.len() as f32;
                let rarity = ((count - having + 0.5) / (having + 0.5)).ln_1p();
                for (document, occurrences) in found {
                    let length = self.lengths[document] / average.max(f32::EPSILON);
                    let norm = SATURATION * (1.0 - LENGTH_PENALTY + LENGTH_PENALTY * length);
                    let rank = factor * rarity * occurrences * (SATURATION + 1.0) / (occurrences + norm);
                    best[document] = best[document].max(rank);
                }
            }
            for ((sum, matched), rank) in ranks.iter_mut().zip(best).filter(|(_, rank)| *rank > 0.0) {
                (*sum, *matched) = (*sum + rank, *matched + 1);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a count of words is small")]
        let share = |matched: u16| f32::from(matched) / searched.len() as f32;
        let found = ranks.into_iter().enumerate().filter(|(_, (_, matched))| *matched > 0);
        let mut ranked: Vec<_> =
            found.map(|(document, (sum, matched))| (document, sum * share(matched))).collect();
        ranked.sort_by(|(one, a), (other, b)| b.total_cmp(a).then(one.cmp(other)));
        ranked.into_iter().map(|(document, rank)| self.to_match(document, rank)).collect()
    }

    fn to_match(&self, document: usize, rank: f32) -> Match {
        let server = self.servers.partition_point(|server| server.first <= document) - 1;
        Match { server, document: document - self.servers[server].first, rank }
    }

    /// The documents of a word and of words like it, and how much each of them counts.
    fn find(&self, word: &str) -> Vec<(Postings, f32)> {
        let is_compared = word.chars().count() >= MIN_COMPARED_CHARS;
        let found: Vec<_> = self
            .words_beginning_with(word)
            .into_iter()
            .filter(|(found, _)| is_compared || *found == word)
            .map(|(found, documents)| (documents, if found == word { 1.0 } else { BEGINS_ALIKE }))
            .collect();
        if !found.is_empty() || !is_compared {
            return found;
        }
        let words: BTreeSet<&str> = self.servers.iter().flat_map(SearchedServer::words).collect();
        let Some(near) = closest_name(word, words) else { return Vec::new() };
        let documents = self.words_beginning_with(near).remove(near).unwrap_or_default();
        vec![(documents, SPELLED_ALIKE)]
    }

    /// The words that begin like this, and their documents.
    fn words_beginning_with(&self, beginning: &str) -> HashMap<&str, Postings> {
        let mut all: HashMap<&str, Postings> = HashMap::new();
        for server in &self.servers {
            for (word, counts) in server.count_words(beginning) {
                let documents = counts.into_iter().enumerate().filter(|(_, count)| *count > 0.0);
                let numbered = documents.map(|(document, count)| (server.first + document, count));
                all.entry(word).or_default().extend(numbered);
            }
        }
        all
    }
}

impl SearchedServer<'_> {
    /// The words that begin like this, and the weighted count of each in every document.
    fn count_words(&self, beginning: &str) -> Vec<(&str, Vec<f32>)> {
        let mut counts: Vec<(&str, Vec<f32>)> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut find_or_add = |word, counts: &mut Vec<_>| {
            *places.entry(word).or_insert_with(|| {
                counts.push((word, vec![0.0; self.texts.lengths().len()]));
                counts.len() - 1
            })
        };
        for word in self.name.iter().filter(|word| word.starts_with(beginning)) {
            let place = find_or_add(word, &mut counts);
            for count in &mut counts[place].1 {
                *count += SERVER_WEIGHT;
            }
        }
        // Most often a word is the same as the one before.
        let mut latest: Option<(&str, usize)> = None;
        self.texts.visit_words(beginning, |word, document, weight| {
            let same = latest.filter(|(latest, _)| *latest == word);
            let (_, place) = same.unwrap_or_else(|| (word, find_or_add(word, &mut counts)));
            latest = Some((word, place));
            counts[place].1[document] += weight;
        });
        counts
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        self.name.iter().map(String::as_str).chain(self.texts.words())
    }
}

#[cfg(test)]
mod tests {
    use bowline::Json;
    use bowline_gateway::ServerLists;
    use serde_json::json;

    use super::*;

    fn texts(tools: &[(&str, &str)]) -> ServerTexts {
        let tool = |(name, about): &(&str, &str)| {
            Json::parse(json!({ "name": name, "description": about }).to_string()).unwrap()
        };
        let tools = tools.iter().map(tool).collect();
        ServerTexts::new(&ServerLists { tools, ..ServerLists::default() })
    }

    fn found(texts: &ServerTexts, words: &str) -> Vec<usize> {
        let mut index = SearchIndex::default();
        index.add("", texts);
        index.search(words).into_iter().map(|found| found.document).collect()
    }

    #[test]
    fn names_count_for_more_than_texts_and_rare_words_for_more_than_common_ones() {
        let texts = texts(&[
            ("read_file", "Reads a file from the disk"),
            ("delete_file", "Removes a file"),
            ("send_mail", "Sends a message, with a file attached"),
            ("weather", "The weather of a city"),
        ]);
        assert_eq!(found(&texts, "file"), [1, 0, 2]);
        assert_eq!(found(&texts, "files mail")[0], 2);
        assert_eq!(found(&texts, "city weather"), [3]);
        assert_eq!(found(&texts, "nothing like it"), [0; 0]);
        assert_eq!(found(&texts, ""), [0; 0]);
    }

    #[test]
    fn beginnings_and_misspelled_words_are_found() {
        let texts =
            texts(&[("screenshot", "Takes a picture"), ("screen", "About the screen"), ("other", "")]);
        assert_eq!(found(&texts, "screen"), [1, 0], "the whole word first");
        assert_eq!(found(&texts, "screensh"), [0]);
        assert_eq!(found(&texts, "screnshot"), [0]);
        assert_eq!(found(&texts, "sc"), [0; 0], "too short to compare");
    }

    #[test]
    fn a_document_with_all_words_comes_first() {
        let texts = texts(&[
            ("issue", "issue issue issue issue"),
            ("create_issue", "Creates an issue in a repository"),
            ("create", "create"),
        ]);
        assert_eq!(found(&texts, "create issue")[0], 1);
    }

    #[test]
    fn the_name_of_a_server_belongs_to_all_that_it_offers() {
        let (one, none, two) = (texts(&[("list", ""), ("add", "")]), texts(&[]), texts(&[("list", "")]));
        let mut index = SearchIndex::default();
        for (name, texts) in [("mail", &one), ("empty", &none), ("files", &two)] {
            index.add(name, texts);
        }
        let found = |words| -> Vec<_> {
            index.search(words).into_iter().map(|found| (found.server, found.document)).collect()
        };
        assert_eq!(found("mail"), [(0, 0), (0, 1)]);
        assert_eq!(found("list file"), [(2, 0), (0, 0)]);
        assert_eq!(found("malil"), [(0, 0), (0, 1)]);
    }
}
