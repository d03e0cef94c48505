//! [`Pages`]: the pages that people were sent to and that servers have not called done (EL-11).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ids of pages under way. A server decides how many it opens and whether it ever calls one done, so the
/// oldest are forgotten.
#[derive(Debug, Default)]
pub(super) struct Pages(Mutex<VecDeque<(Arc<str>, Box<str>)>>);

/// A page that is being asked about. Unless it is kept, it is forgotten: nobody went there.
pub(super) struct Entry {
    pages: Arc<Pages>,
    server: Arc<str>,
    id: Option<Box<str>>,
}

impl Pages {
    /// Before the question: the person may be done before we hear of their consent.
    pub(super) fn begin(self: &Arc<Self>, server: &Arc<str>, id: Box<str>) -> Entry {
        let mut pages = self.lock();
        if pages.len() >= MOST_PAGES {
            pages.pop_front();
        }
        pages.push_back((Arc::clone(server), id.clone()));
        drop(pages);
        Entry { pages: Arc::clone(self), server: Arc::clone(server), id: Some(id) }
    }

    /// Whether the page was under way. It no longer is.
    pub(super) fn finish(&self, server: &str, id: &str) -> bool {
        let mut pages = self.lock();
        let at = pages.iter().position(|(of, known)| **of == *server && **known == *id);
        at.is_some_and(|at| pages.remove(at).is_some())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Arc<str>, Box<str>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// The person agreed to go.
    pub(super) fn keep(mut self) {
        self.id = None;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.pages.finish(&self.server, id);
        }
    }
}

const MOST_PAGES: usize = 256;
