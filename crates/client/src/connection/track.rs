//! Decides which lists are fetched without a caller asking for them, and when.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_proto::wire::method;
use bowline_proto::wire::view::{ListItem, Prompt, Resource, ResourceTemplate};

use super::catalog::Digest;
use super::link::lock;
use super::{CallOptions, Live, Shared};
use crate::features::{Feature, lists, tools};

/// Which lists are tracked, and which of them are about to be fetched.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    tools: AtomicBool,
    all: AtomicBool,
    /// Lists that are about to be fetched, because the server announced a change.
    due: Mutex<BTreeSet<&'static str>>,
    /// Held while a list is fetched, so that of two concurrent refreshes one detects the change.
    looking: tokio::sync::Mutex<()>,
}

impl Tracks {
    fn has(&self, list: &str) -> bool {
        self.all.load(Ordering::Relaxed) || (list == method::TOOLS_LIST && self.tools.load(Ordering::Relaxed))
    }
}

impl Shared {
    /// Fetches the tools on every new link, and whenever the server announces a change.
    pub(crate) fn track_tools(self: &Arc<Self>) {
        let new = !self.tracks.tools.swap(true, Ordering::Relaxed);
        self.begin_tracking(new);
    }

    /// Fetches all lists on every new link, and whenever the server announces a change.
    pub(crate) fn track_lists(self: &Arc<Self>) {
        let new = !self.tracks.all.swap(true, Ordering::Relaxed);
        self.begin_tracking(new);
    }

    fn begin_tracking(self: &Arc<Self>, new: bool) {
        self.want_lists();
        if new && let Some(live) = self.live() {
            tokio::spawn(Arc::clone(self).look(live));
        }
    }

    pub(super) fn is_tracking(&self) -> bool {
        self.tracks.has(method::TOOLS_LIST)
    }

    /// The lists that were fetched before, and those that are tracked.
    pub(super) fn tracked_lists(&self) -> BTreeSet<&'static str> {
        lock(&self.tracks.due).clear();
        let tracked = LISTS.into_iter().filter(|list| self.tracks.has(list));
        self.seen_lists().into_iter().chain(tracked).collect()
    }

    /// Fetches a list again. Returns whether it changed, or `None` if it could not be fetched.
    pub(super) async fn look_at(self: &Arc<Self>, live: &Arc<Live>, list: &'static str) -> Option<bool> {
        let _looking = self.tracks.looking.lock().await;
        self.look_now(live, list).await
    }

    async fn look_now(self: &Arc<Self>, live: &Arc<Live>, list: &'static str) -> Option<bool> {
        self.outdate_list(list);
        let before = self.changes_seen(list);
        match list {
            method::TOOLS_LIST => {
                Box::pin(tools::list(self, live, &CallOptions::quietly())).await.ok()?;
            }
            method::PROMPTS_LIST => self.fetch::<Prompt>(live, list, Feature::Prompts).await?,
            method::RESOURCES_LIST => self.fetch::<Resource>(live, list, Feature::Resources).await?,
            method::TEMPLATES_LIST => self.fetch::<ResourceTemplate>(live, list, Feature::Resources).await?,
            _ => return None,
        }
        Some(before != self.changes_seen(list))
    }

    async fn fetch<T: ListItem>(
        self: &Arc<Self>,
        live: &Arc<Live>,
        list: &'static str,
        feature: Feature,
    ) -> Option<()> {
        if feature.is_offered(&live.peer) {
            let fetched = Box::pin(lists::all::<T>(self, live, list, &CallOptions::quietly())).await.ok()?;
            self.keep_list(list, Digest::of(&fetched.items));
        }
        Some(())
    }

    /// Handles a change announced by the server (TL-10). A tracked list is fetched once for many
    /// announcements.
    pub(super) fn look_at_change(self: &Arc<Self>, notification: &str) {
        let lists: &[&'static str] = match notification {
            method::TOOLS_CHANGED => &[method::TOOLS_LIST],
            method::PROMPTS_CHANGED => &[method::PROMPTS_LIST],
            method::RESOURCES_CHANGED => &[method::RESOURCES_LIST, method::TEMPLATES_LIST],
            _ => return,
        };
        let Some(live) = self.live() else { return };
        for list in lists {
            if self.tracks.has(list) && lock(&self.tracks.due).insert(list) {
                let (shared, live) = (Arc::clone(self), Arc::clone(&live));
                self.errands.serve(async move {
                    tokio::time::sleep(SETTLE).await;
                    let looking = shared.tracks.looking.lock().await;
                    // From here on another announcement causes another fetch, which waits for this
                    // one; at most one can wait.
                    lock(&shared.tracks.due).remove(list);
                    shared.look_now(&live, list).await;
                    drop(looking);
                });
            }
        }
    }
}

const LISTS: [&str; 4] =
    [method::TOOLS_LIST, method::PROMPTS_LIST, method::RESOURCES_LIST, method::TEMPLATES_LIST];

/// Delay before a changed list is fetched, since a server often announces many changes at once.
const SETTLE: Duration = Duration::from_millis(200);
