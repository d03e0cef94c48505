//! Decides which lists are fetched without a caller asking for them, and when.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_proto::wire::method;
use bowline_proto::wire::view::{ListItem, Prompt, Resource, ResourceTemplate};

use crate::connection::lists::catalog::ListDigest;
use crate::connection::{CallOptions, LiveLink, Shared};
use crate::features::{Feature, lists, tools};
use crate::sync::lock;

/// Which lists are tracked, and which of them are about to be fetched.
#[derive(Debug, Default)]
pub(crate) struct ListTracking {
    tools: AtomicBool,
    all: AtomicBool,
    /// Lists that are about to be fetched, because the server announced a change.
    pending_lists: Mutex<BTreeSet<&'static str>>,
    /// Held while a list is fetched, so that of two concurrent refreshes one detects the change.
    refresh_lock: tokio::sync::Mutex<()>,
}

impl ListTracking {
    fn is_tracked(&self, list: &str) -> bool {
        self.all.load(Ordering::Relaxed) || (list == method::TOOLS_LIST && self.tools.load(Ordering::Relaxed))
    }
}

impl Shared {
    /// Fetches the tools on every new link, and whenever the server announces a change.
    pub(crate) fn track_tools(self: &Arc<Self>) {
        let new = !self.list_tracking.tools.swap(true, Ordering::Relaxed);
        self.start_tracking(new);
    }

    /// Fetches all lists on every new link, and whenever the server announces a change.
    pub(crate) fn track_lists(self: &Arc<Self>) {
        let new = !self.list_tracking.all.swap(true, Ordering::Relaxed);
        self.start_tracking(new);
    }

    fn start_tracking(self: &Arc<Self>, new: bool) {
        self.demand_lists();
        if new && let Some(live) = self.live() {
            tokio::spawn(Arc::clone(self).refresh_lists(live));
        }
    }

    pub(crate) fn is_tracking(&self) -> bool {
        self.list_tracking.is_tracked(method::TOOLS_LIST)
    }

    /// The lists that were fetched before, and those that are tracked.
    pub(crate) fn tracked_lists(&self) -> BTreeSet<&'static str> {
        lock(&self.list_tracking.pending_lists).clear();
        let tracked = ALL_LISTS.into_iter().filter(|list| self.list_tracking.is_tracked(list));
        self.known_lists().into_iter().chain(tracked).collect()
    }

    /// Fetches a list again. Returns whether it changed, or `None` if it could not be fetched.
    pub(crate) async fn refetch_list(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        list: &'static str,
    ) -> Option<bool> {
        let _looking = self.list_tracking.refresh_lock.lock().await;
        self.refetch_list_locked(live, list).await
    }

    async fn refetch_list_locked(self: &Arc<Self>, live: &Arc<LiveLink>, list: &'static str) -> Option<bool> {
        self.invalidate_list(list);
        let before = self.list_changes(list);
        match list {
            method::TOOLS_LIST => {
                Box::pin(tools::list_tools(self, live, &CallOptions::background())).await.ok()?;
            }
            method::PROMPTS_LIST => self.fetch_list::<Prompt>(live, list, Feature::Prompts).await?,
            method::RESOURCES_LIST => self.fetch_list::<Resource>(live, list, Feature::Resources).await?,
            method::TEMPLATES_LIST => {
                self.fetch_list::<ResourceTemplate>(live, list, Feature::Resources).await?;
            }
            _ => return None,
        }
        Some(before != self.list_changes(list))
    }

    async fn fetch_list<T: ListItem>(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        list: &'static str,
        feature: Feature,
    ) -> Option<()> {
        if feature.is_offered(&live.peer) {
            let fetched =
                Box::pin(lists::fetch_all::<T>(self, live, list, &CallOptions::background())).await.ok()?;
            self.record_list(list, ListDigest::from_items(&fetched.items));
        }
        Some(())
    }

    /// Handles a change announced by the server (TL-10). A tracked list is fetched once for many
    /// announcements.
    pub(crate) fn handle_list_changed(self: &Arc<Self>, notification: &str) {
        let lists: &[&'static str] = match notification {
            method::TOOLS_CHANGED => &[method::TOOLS_LIST],
            method::PROMPTS_CHANGED => &[method::PROMPTS_LIST],
            method::RESOURCES_CHANGED => &[method::RESOURCES_LIST, method::TEMPLATES_LIST],
            _ => return,
        };
        let Some(live) = self.live() else { return };
        for list in lists {
            if self.list_tracking.is_tracked(list) && lock(&self.list_tracking.pending_lists).insert(list) {
                let (shared, live) = (Arc::clone(self), Arc::clone(&live));
                self.background.spawn(async move {
                    tokio::time::sleep(CHANGE_SETTLE_DELAY).await;
                    let looking = shared.list_tracking.refresh_lock.lock().await;
                    // From here on another announcement causes another fetch, which waits for this
                    // one; at most one can wait.
                    lock(&shared.list_tracking.pending_lists).remove(list);
                    shared.refetch_list_locked(&live, list).await;
                    drop(looking);
                });
            }
        }
    }
}

const ALL_LISTS: [&str; 4] =
    [method::TOOLS_LIST, method::PROMPTS_LIST, method::RESOURCES_LIST, method::TEMPLATES_LIST];

/// Delay before a changed list is fetched, since a server often announces many changes at once.
const CHANGE_SETTLE_DELAY: Duration = Duration::from_millis(200);
