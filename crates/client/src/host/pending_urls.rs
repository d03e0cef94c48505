//! [`PendingUrls`]: the URL elicitations that a person accepted and the server has not completed
//! (EL-11).

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

/// Ids of pending URL elicitations. The server decides how many there are and whether they ever
/// complete, so the oldest are dropped.
#[derive(Debug, Default)]
pub(super) struct PendingUrls(Mutex<VecDeque<(Arc<str>, Box<str>)>>);

/// A URL elicitation that is being asked about. It is removed when dropped, unless it was
/// confirmed.
pub(super) struct PendingUrl {
    pages: Arc<PendingUrls>,
    server: Arc<str>,
    id: Option<Box<str>>,
}

impl PendingUrls {
    /// Registers an elicitation before the question is shown: the person may be done before their
    /// consent arrives.
    pub(super) fn insert(self: &Arc<Self>, server: &Arc<str>, id: Box<str>) -> PendingUrl {
        let mut pages = self.0.lock();
        if pages.len() >= MAX_PENDING_URLS {
            pages.pop_front();
        }
        pages.push_back((Arc::clone(server), id.clone()));
        drop(pages);
        PendingUrl { pages: Arc::clone(self), server: Arc::clone(server), id: Some(id) }
    }

    /// Removes an elicitation. Returns whether it was pending.
    pub(super) fn remove(&self, server: &str, id: &str) -> bool {
        let mut pages = self.0.lock();
        let at = pages.iter().position(|(of, known)| **of == *server && **known == *id);
        at.is_some_and(|at| pages.remove(at).is_some())
    }
}

impl PendingUrl {
    /// Keeps the elicitation pending, because the person accepted.
    pub(super) fn confirm(mut self) {
        self.id = None;
    }
}

impl Drop for PendingUrl {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.pages.remove(&self.server, id);
        }
    }
}

const MAX_PENDING_URLS: usize = 256;
