//! Decides which lists are fetched without a caller asking for them, and when.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_proto::wire::method;
use bowline_proto::wire::view::{ListItem, Prompt, Resource, ResourceTemplate};
use parking_lot::Mutex;

use super::Lists;
use crate::connection::{CallOptions, Connection, LiveLink};
use crate::events::{Event, Notification};

/// Which lists are tracked, and which of them are about to be fetched.
#[derive(Debug, Default)]
pub(super) struct ListTracking {
    tools: AtomicBool,
    all: AtomicBool,
    /// Lists that are about to be fetched, because the server announced a change.
    pending_lists: Mutex<BTreeSet<&'static str>>,
    /// Held while a list is fetched, so that of two concurrent refreshes one detects the change.
    refresh_lock: tokio::sync::Mutex<()>,
    /// Whether a refresh after a gap of a stream waits for its turn.
    is_gap_waiting: Arc<AtomicBool>,
    /// Held during a refresh after a gap of a stream.
    gap_lock: Arc<tokio::sync::Mutex<()>>,
}

/// The turn of a refresh after a gap of a stream, of which one runs and one waits.
pub(crate) struct WaitingRefresh {
    is_waiting: Arc<AtomicBool>,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl WaitingRefresh {
    /// Waits until no other refresh runs. From then on another one can wait.
    pub(crate) async fn begin(self) -> tokio::sync::OwnedMutexGuard<()> {
        Arc::clone(&self.lock).lock_owned().await
    }
}

impl Drop for WaitingRefresh {
    fn drop(&mut self) {
        self.is_waiting.store(false, Ordering::Release);
    }
}

impl ListTracking {
    fn is_tracked(&self, list: &str) -> bool {
        self.all.load(Ordering::Relaxed) || (list == method::TOOLS_LIST && self.tools.load(Ordering::Relaxed))
    }
}

impl Lists {
    pub(crate) fn is_tracking(&self) -> bool {
        self.tracking.is_tracked(method::TOOLS_LIST)
    }

    /// Waits for the turn of a refresh after a gap of a stream. `None` if one that waits already will see what this one
    /// would.
    pub(crate) fn wait_to_refresh(&self) -> Option<WaitingRefresh> {
        let is_waiting = &self.tracking.is_gap_waiting;
        (!is_waiting.swap(true, Ordering::AcqRel)).then(|| WaitingRefresh {
            is_waiting: Arc::clone(is_waiting),
            lock: Arc::clone(&self.tracking.gap_lock),
        })
    }

    /// The lists that were fetched before, and those that are tracked.
    pub(crate) fn tracked_lists(&self) -> BTreeSet<&'static str> {
        self.tracking.pending_lists.lock().clear();
        let tracked = ALL_LISTS.into_iter().filter(|list| self.tracking.is_tracked(list));
        self.known_lists().into_iter().chain(tracked).collect()
    }
}

impl Connection {
    /// Fetches the tools on every new link, and whenever the server announces a change.
    pub(crate) fn track_tools(self: &Arc<Self>) {
        let new = !self.lists.tracking.tools.swap(true, Ordering::Relaxed);
        self.start_tracking(new);
    }

    /// Fetches all lists on every new link, and whenever the server announces a change.
    pub(crate) fn track_lists(self: &Arc<Self>) {
        let new = !self.lists.tracking.all.swap(true, Ordering::Relaxed);
        self.start_tracking(new);
    }

    fn start_tracking(self: &Arc<Self>, new: bool) {
        self.session.subscriptions.demand_lists();
        if new && let Some(live) = self.links.live() {
            tokio::spawn(Arc::clone(self).refresh_lists(live));
        }
    }

    /// Fetches a list again. Returns whether it changed, or `None` if it could not be fetched.
    pub(crate) async fn refetch_list(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        list: &'static str,
    ) -> Option<bool> {
        let _looking = self.lists.tracking.refresh_lock.lock().await;
        self.refetch_list_locked(live, list).await
    }

    async fn refetch_list_locked(self: &Arc<Self>, live: &Arc<LiveLink>, list: &'static str) -> Option<bool> {
        self.lists.invalidate_list(list);
        let before = self.lists.change_count(list);
        let offered = &live.peer.capabilities;
        match list {
            method::TOOLS_LIST => {
                Box::pin(self.list_tools(live, &CallOptions::background())).await.ok()?;
            }
            method::PROMPTS_LIST if offered.prompts.is_some() => {
                self.refetch_items::<Prompt>(live, list).await?;
            }
            method::RESOURCES_LIST if offered.resources.is_some() => {
                self.refetch_items::<Resource>(live, list).await?;
            }
            method::TEMPLATES_LIST if offered.resources.is_some() => {
                self.refetch_items::<ResourceTemplate>(live, list).await?;
            }
            method::PROMPTS_LIST | method::RESOURCES_LIST | method::TEMPLATES_LIST => {}
            _ => return None,
        }
        Some(before != self.lists.change_count(list))
    }

    async fn refetch_items<T: ListItem>(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        list: &'static str,
    ) -> Option<()> {
        Box::pin(self.fetch_list::<T>(live, list, &CallOptions::background())).await.ok().map(drop)
    }

    /// Fetches the known and tracked lists, and emits a notification for each that changed.
    pub(crate) async fn refresh_lists(self: Arc<Self>, live: Arc<LiveLink>) {
        for list in self.lists.tracked_lists() {
            let changed = self.refetch_list(&live, list).await;
            let announce = match list {
                method::TOOLS_LIST => method::TOOLS_CHANGED,
                method::PROMPTS_LIST => method::PROMPTS_CHANGED,
                _ => method::RESOURCES_CHANGED,
            };
            if changed == Some(true) {
                let said = Notification { method: announce.into(), params: None, inferred: true };
                self.events.emit(Event::Notification(said));
            }
        }
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
        let Some(live) = self.links.live() else { return };
        for list in lists {
            if self.lists.tracking.is_tracked(list) && self.lists.tracking.pending_lists.lock().insert(list) {
                let (connection, live) = (Arc::clone(self), Arc::clone(&live));
                self.background.spawn(async move {
                    tokio::time::sleep(connection.server.list_change_delay).await;
                    let looking = connection.lists.tracking.refresh_lock.lock().await;
                    // From here on another announcement causes another fetch, which waits for this
                    // one; at most one can wait.
                    connection.lists.tracking.pending_lists.lock().remove(list);
                    connection.refetch_list_locked(&live, list).await;
                    drop(looking);
                });
            }
        }
    }
}

const ALL_LISTS: [&str; 4] =
    [method::TOOLS_LIST, method::PROMPTS_LIST, method::RESOURCES_LIST, method::TEMPLATES_LIST];

/// Default delay before a changed list is fetched, since a server often announces many changes at
/// once.
pub(crate) const DEFAULT_LIST_CHANGE_DELAY: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    /// However often a stream is cut while lists are fetched, one more fetch waits.
    #[tokio::test]
    async fn one_refresh_runs_and_one_waits() {
        let lists = Lists::default();
        let first = lists.wait_to_refresh().expect("none waits");
        assert!(lists.wait_to_refresh().is_none(), "the first one has not begun");
        let running = first.begin().await;
        let second = lists.wait_to_refresh().expect("the first one may have missed this change");
        assert!(lists.wait_to_refresh().is_none());
        // A refresh that ends with its link while it waits does not keep others from waiting.
        let mut waiting = Box::pin(second.begin());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(waiting);
        let third = lists.wait_to_refresh().expect("none waits");
        drop(running);
        drop(third.begin().await);
    }
}
