//! What the server's lists contained when they were last fetched: which tools are safe to repeat,
//! and whether a list has changed.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock};

use bowline_proto::client::retry::is_harmless_method;
use bowline_proto::wire::view::{ListItem, Page, Prompt, Resource, ResourceTemplate, TaskSupport, Tool};
use bowline_proto::wire::{Json, method};

use super::Lists;
use crate::connection::events::ConnectionEvents;
use crate::events::{Event, ListChange, ListKind};

/// Digests and facts of the lists that have been fetched.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    /// State of each list, by its list method.
    lists: HashMap<&'static str, ListState>,
    /// Tools annotated as read-only or idempotent. `None` if the tools were never listed.
    harmless: Option<HashSet<Box<str>>>,
    /// Tools that may or must be called as tasks of 2025-11-25.
    tasks: HashMap<Box<str>, TaskSupport>,
}

#[derive(Debug)]
struct ListState {
    digest: ListDigest,
    /// How often the list differed from the previous one.
    changes: u64,
}

/// Identifies the contents of a list regardless of order: servers that keep tools in a hash table
/// list them in a new order after every start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListDigest {
    /// A hash of each element, by its key. `None` if the list was never seen as a whole.
    elements: Option<HashMap<Box<str>, u64>>,
}

impl ListDigest {
    const UNKNOWN: Self = Self { elements: None };

    pub(crate) fn from_items<T: ListItem>(items: &[T]) -> Self {
        static HASHER: LazyLock<RandomState> = LazyLock::new(Default::default);
        let mut elements = HashMap::with_capacity(items.len());
        for item in items {
            // Elements with the same key contribute to one sum.
            let sum: &mut u64 = elements.entry(item.key().into()).or_default();
            *sum = sum.wrapping_add(HASHER.hash_one(item.json().as_bytes()));
        }
        Self { elements: Some(elements) }
    }

    /// What was added, removed and changed since `before`. `None` if nothing was, or if either list
    /// is unknown.
    fn changes_since(&self, before: &Self, list: ListKind) -> Option<ListChange> {
        let (before, now) = (before.elements.as_ref()?, self.elements.as_ref()?);
        let names = |names: &mut dyn Iterator<Item = &Box<str>>| {
            let mut names: Vec<Box<str>> = names.cloned().collect();
            names.sort_unstable();
            names
        };
        let change = ListChange {
            list,
            added: names(&mut now.keys().filter(|name| !before.contains_key(*name))),
            removed: names(&mut before.keys().filter(|name| !now.contains_key(*name))),
            changed: names(
                &mut now
                    .iter()
                    .filter_map(|(name, is)| before.get(name).is_some_and(|was| was != is).then_some(name)),
            ),
        };
        (!change.is_empty()).then_some(change)
    }
}

impl Lists {
    /// Records a complete list, and emits an event if it differs from the previous one.
    pub(crate) fn record_list(&self, events: &ConnectionEvents, method: &'static str, digest: ListDigest) {
        let change = {
            let mut catalog = self.catalog.lock();
            let Some(seen) = catalog.lists.get_mut(method) else {
                catalog.lists.insert(method, ListState { digest, changes: 0 });
                return;
            };
            if seen.digest == digest {
                return;
            }
            let change =
                ListKind::from_method(method).and_then(|list| digest.changes_since(&seen.digest, list));
            *seen = ListState { digest, changes: seen.changes + 1 };
            change
        };
        if let Some(change) = change {
            events.emit(Event::ListChanged(Arc::new(change)));
        }
    }

    pub(crate) fn record_tools(&self, tools: &[Tool]) {
        let harmless = |tool: &&Tool| {
            tool.annotations.read_only == Some(true) || tool.annotations.idempotent == Some(true)
        };
        // If two tools share a name, it is unknown which one is called.
        let doubtful: HashSet<_> =
            tools.iter().filter(|tool| !harmless(tool)).map(|tool| &tool.name).collect();
        let names = tools.iter().filter(harmless).filter(|tool| !doubtful.contains(&tool.name));
        let names = names.map(|tool| tool.name.clone()).collect();
        let supporting = tools.iter().map(|tool| (tool, tool.task_support()));
        let supporting = supporting.filter(|(_, support)| *support != TaskSupport::Forbidden);
        let mut catalog = self.catalog.lock();
        catalog.tasks = supporting.map(|(tool, support)| (tool.name.clone(), support)).collect();
        catalog.harmless = Some(names);
    }

    /// Whether a tool may be called as a task (TA-01). `None` if the tools were never listed.
    pub(crate) fn task_support(&self, tool: &str) -> Option<TaskSupport> {
        let catalog = self.catalog.lock();
        catalog.harmless.as_ref()?;
        Some(catalog.tasks.get(tool).copied().unwrap_or_default())
    }

    /// Records a page that a caller has fetched. A single-page list is recorded as a whole; a
    /// longer one becomes unknown, so that the next complete list counts as changed.
    pub(crate) fn record_list_page(
        &self,
        events: &ConnectionEvents,
        method: &str,
        params: Option<&Json>,
        result: &Json,
    ) {
        fn digest<T: ListItem>(first: bool, result: &Json) -> Option<ListDigest> {
            let page = Page::<T>::decode(result).ok()?;
            let whole = first && page.next_cursor.is_none();
            Some(if whole { ListDigest::from_items(&page.items) } else { ListDigest::UNKNOWN })
        }
        let first = params.is_none_or(|params| params.member("cursor").is_none());
        let (list, digest) = match method {
            method::TOOLS_LIST => (method::TOOLS_LIST, digest::<Tool>(first, result)),
            method::PROMPTS_LIST => (method::PROMPTS_LIST, digest::<Prompt>(first, result)),
            method::RESOURCES_LIST => (method::RESOURCES_LIST, digest::<Resource>(first, result)),
            method::TEMPLATES_LIST => (method::TEMPLATES_LIST, digest::<ResourceTemplate>(first, result)),
            _ => return,
        };
        if let Some(digest) = digest {
            self.record_list(events, list, digest);
        }
    }

    /// How often a list has differed from the previous one.
    pub(crate) fn change_count(&self, method: &str) -> u64 {
        self.catalog.lock().lists.get(method).map_or(0, |seen| seen.changes)
    }

    /// The lists that have been fetched.
    pub(crate) fn known_lists(&self) -> Vec<&'static str> {
        self.catalog.lock().lists.keys().copied().collect()
    }

    /// Whether repeating a request is harmless. `None` if that is not known yet.
    ///
    /// A tool's hint is the server's own claim. It is believed here because it decides only whether
    /// the same server gets the same request a second time.
    pub(crate) fn is_harmless(&self, method: &str, params: Option<&Json>) -> Option<bool> {
        if method != method::TOOLS_CALL {
            return Some(is_harmless_method(method));
        }
        let name: String = params?.member("name")?.decode().ok()?;
        self.catalog.lock().harmless.as_ref().map(|harmless| harmless.contains(&*name))
    }
}
