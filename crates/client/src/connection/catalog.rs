//! What the server's lists were when they were last seen: which tools may be run twice, and whether a list
//! that is fetched again is another one.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::LazyLock;

use bowline_proto::wire::view::{Item, Page, Prompt, Resource, ResourceTemplate, Tool};
use bowline_proto::wire::{Json, method};

use super::Shared;
use super::link::lock;

/// What is kept of the lists that somebody has asked for.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    /// By list method.
    digests: HashMap<&'static str, Digest>,
    /// Tools that the server says to be read-only or idempotent. `None`: they were never listed.
    harmless: Option<HashSet<Box<str>>>,
}

/// What identifies a list, whatever its order: servers that keep tools in a hash table list them in a new
/// order after every start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    count: usize,
    sum: u64,
}

impl Digest {
    /// Of a list that nobody has seen as a whole: whatever is seen next differs from it.
    const UNKNOWN: Self = Self { count: usize::MAX, sum: 0 };

    pub(crate) fn of<T: Item>(items: &[T]) -> Self {
        static HASHER: LazyLock<foldhash::fast::RandomState> = LazyLock::new(Default::default);
        let sum =
            items.iter().fold(0, |sum: u64, item| sum.wrapping_add(HASHER.hash_one(item.json().as_bytes())));
        Self { count: items.len(), sum }
    }
}

impl Shared {
    /// Keeps what a complete list says. Says whether it differs from the one before.
    pub(crate) fn keep_list(&self, method: &'static str, digest: Digest) -> bool {
        lock(&self.catalog).digests.insert(method, digest).is_some_and(|before| before != digest)
    }

    pub(crate) fn keep_tools(&self, tools: &[Tool]) {
        let harmless = |tool: &&Tool| {
            tool.annotations.read_only == Some(true) || tool.annotations.idempotent == Some(true)
        };
        let names = tools.iter().filter(harmless).map(|tool| tool.name.clone()).collect();
        lock(&self.catalog).harmless = Some(names);
    }

    /// The same for a list that a caller pages through by itself. A list of one page is known; of a longer
    /// one only that somebody has seen it, so that the next one counts as another.
    pub(crate) fn note_list(&self, method: &str, params: Option<&Json>, result: &Json) {
        fn page<T: Item>(shared: &Shared, method: &'static str, first: bool, result: &Json) {
            let Ok(page) = Page::<T>::decode(result) else { return };
            let whole = first && page.next_cursor.is_none();
            shared.keep_list(method, if whole { Digest::of(&page.items) } else { Digest::UNKNOWN });
        }
        let first = params.is_none_or(|params| params.member("cursor").is_none());
        match method {
            method::TOOLS_LIST => page::<Tool>(self, method::TOOLS_LIST, first, result),
            method::PROMPTS_LIST => page::<Prompt>(self, method::PROMPTS_LIST, first, result),
            method::RESOURCES_LIST => page::<Resource>(self, method::RESOURCES_LIST, first, result),
            method::TEMPLATES_LIST => page::<ResourceTemplate>(self, method::TEMPLATES_LIST, first, result),
            _ => {}
        }
    }

    pub(super) fn seen_list(&self, method: &str) -> Option<Digest> {
        lock(&self.catalog).digests.get(method).copied()
    }

    /// The lists that somebody has asked for.
    pub(super) fn seen_lists(&self) -> Vec<&'static str> {
        lock(&self.catalog).digests.keys().copied().collect()
    }

    /// Whether to run a request twice is to run it once. `None`: nobody knows yet.
    ///
    /// A hint is a claim of the server's, and here it is believed: what it decides is only whether the same
    /// server gets the same request a second time.
    pub(super) fn is_harmless(&self, method: &str, params: Option<&Json>) -> Option<bool> {
        if method != method::TOOLS_CALL {
            return Some(only_reads(method));
        }
        let name: String = params?.member("name")?.decode().ok()?;
        lock(&self.catalog).harmless.as_ref().map(|harmless| harmless.contains(&*name))
    }
}

fn only_reads(method: &str) -> bool {
    matches!(
        method,
        method::PING
            | method::DISCOVER
            | method::TOOLS_LIST
            | method::RESOURCES_LIST
            | method::TEMPLATES_LIST
            | method::RESOURCES_READ
            | method::PROMPTS_LIST
            | method::PROMPTS_GET
            | method::COMPLETE
            // To say the same again is to have said it.
            | method::SET_LEVEL
            | method::RESOURCES_SUBSCRIBE
            | method::RESOURCES_UNSUBSCRIBE
    )
}
