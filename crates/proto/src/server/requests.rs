//! [`Requests`]: the open requests of a host. Each is answered at most once, a bounded number runs
//! at once, more wait in order, and the rest is refused.
//!
//! The table keeps a `T` for whatever serves a request, and returns it when the request is
//! canceled or when its turn comes.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use crate::wire::{Id, Json, object};

/// The requests of a host that are being served, or wait for that.
#[derive(Debug)]
pub struct Requests<T> {
    next_key: u64,
    /// Requests without a response, by the JSON text of their id: `1` and `"1"` differ, but
    /// `"a"` and `"\u0061"` do not.
    unanswered: HashMap<String, RequestKey>,
    entries: HashMap<RequestKey, Entry<T>>,
    running: usize,
    /// Requests that wait for their turn. Keys grow, so the first is the oldest.
    waiting: BTreeSet<RequestKey>,
    waiting_kib: usize,
}

/// The number of one request, which is never reused. Ids of a host may be, once they are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey(u64);

/// Whether a request may be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It may be served now.
    Running,
    /// It waits until others have ended.
    Waiting,
}

/// Why a request is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestRefusal {
    /// A request with the same id is open: a response to one would also be a response to the other.
    DuplicateId,
    /// The maximum is running, and no more can wait.
    Full,
}

#[derive(Debug)]
struct Entry<T> {
    /// The id as JSON text.
    id: String,
    task: Option<T>,
    /// How many KiB the request counts for while it waits; `None` once it runs.
    waiting_kib: Option<usize>,
}

/// How many requests run at once: more than any host sends. Each holds a task and perhaps a result.
pub const MAX_RUNNING_REQUESTS: usize = 512;
/// How many KiB of requests may wait to run: 64 MiB, or 4,096 small ones.
pub const MAX_WAITING_KIB: usize = 64 * 1024;
/// The least that a waiting request counts for: its task and its entry use memory too.
const MIN_WAITING_KIB: usize = 16;

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self {
            next_key: 0,
            unanswered: HashMap::new(),
            entries: HashMap::new(),
            running: 0,
            waiting: BTreeSet::new(),
            waiting_kib: 0,
        }
    }
}

impl<T> Requests<T> {
    /// Opens a request. `size` is how many bytes it holds while it waits.
    pub fn open(&mut self, id: &Id, size: usize) -> Result<RequestKey, RequestRefusal> {
        let id = unescape(&id.to_string()).into_owned();
        if self.unanswered.contains_key(&id) {
            return Err(RequestRefusal::DuplicateId);
        }
        let waiting_kib = if self.running < MAX_RUNNING_REQUESTS {
            None
        } else {
            let kib = (size / 1024).max(MIN_WAITING_KIB);
            if kib > MAX_WAITING_KIB - self.waiting_kib {
                return Err(RequestRefusal::Full);
            }
            Some(kib)
        };
        let key = RequestKey(self.next_key);
        self.next_key += 1;
        match waiting_kib {
            None => self.running += 1,
            Some(kib) => {
                self.waiting.insert(key);
                self.waiting_kib += kib;
            }
        }
        self.unanswered.insert(id.clone(), key);
        self.entries.insert(key, Entry { id, task: None, waiting_kib });
        Ok(key)
    }

    /// Whether a request with this id has no response yet.
    pub fn is_open(&self, id: &Id) -> bool {
        self.unanswered.contains_key(&*unescape(&id.to_string()))
    }

    /// Whether an open request may be served. `None` if it has ended.
    pub fn turn(&self, key: RequestKey) -> Option<Turn> {
        let entry = self.entries.get(&key)?;
        Some(if entry.waiting_kib.is_some() { Turn::Waiting } else { Turn::Running })
    }

    /// Sets what serves the request, and returns it if its turn has come. It is dropped if the
    /// request has ended.
    pub fn attach(&mut self, key: RequestKey, task: T) -> Option<&mut T> {
        let entry = self.entries.get_mut(&key)?;
        let task = entry.task.insert(task);
        entry.waiting_kib.is_none().then_some(task)
    }

    /// Whether a response may be sent. `true` once for each request, unless it was canceled.
    pub fn answer(&mut self, key: RequestKey) -> bool {
        let Some(entry) = self.entries.get(&key) else { return false };
        if self.unanswered.get(&entry.id) != Some(&key) {
            return false;
        }
        self.unanswered.remove(&entry.id);
        true
    }

    /// Cancels the request that the params of `notifications/cancelled` name, and returns what
    /// serves it. It gets no response.
    // CN-03
    pub fn cancel(&mut self, params: Option<&Json>) -> Option<T> {
        let id = params?.member("requestId")?;
        let key = self.unanswered.remove(&*unescape(id.as_str()))?;
        if self.turn(key) == Some(Turn::Waiting) {
            return self.remove(key).and_then(|entry| entry.task);
        }
        // It counts as running until it has ended.
        self.entries.get_mut(&key)?.task.take()
    }

    /// Ends a request, answered or not. Returns what serves the next one, whose turn has come.
    pub fn end(&mut self, key: RequestKey) -> Option<&mut T> {
        self.remove(key);
        if self.running >= MAX_RUNNING_REQUESTS {
            return None;
        }
        let next = self.waiting.pop_first()?;
        let entry = self.entries.get_mut(&next)?;
        self.waiting_kib -= entry.waiting_kib.take().unwrap_or_default();
        self.running += 1;
        entry.task.as_mut()
    }

    /// Takes the requests that have no response, the oldest first, with whether each may have been served.
    /// They get no further response.
    pub fn take_unanswered(&mut self) -> Vec<(Id, Turn)> {
        let mut unanswered: Vec<_> = self.unanswered.drain().map(|(id, key)| (key, id)).collect();
        unanswered.sort_unstable();
        let id_of = |text: String| Json::parse(text).ok().and_then(Id::from_json);
        let turn_of = |key| self.turn(key).unwrap_or(Turn::Running);
        unanswered.into_iter().filter_map(|(key, text)| Some((id_of(text)?, turn_of(key)))).collect()
    }

    /// Takes what serves each open request. The requests get no response.
    pub fn cancel_all(&mut self) -> Vec<T> {
        self.unanswered.clear();
        self.entries.values_mut().filter_map(|entry| entry.task.take()).collect()
    }

    /// Number of requests that have not ended.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether every request has ended.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn remove(&mut self, key: RequestKey) -> Option<Entry<T>> {
        let entry = self.entries.remove(&key)?;
        if self.unanswered.get(&entry.id) == Some(&key) {
            self.unanswered.remove(&entry.id);
        }
        match entry.waiting_kib {
            None => self.running -= 1,
            Some(kib) => {
                self.waiting.remove(&key);
                self.waiting_kib -= kib;
            }
        }
        Some(entry)
    }
}

/// Writes the JSON text of an id without escapes that are not necessary.
fn unescape(id: &str) -> Cow<'_, str> {
    let unescaped = id.contains('\\').then(|| serde_json::from_str::<String>(id).ok()).flatten();
    unescaped.map_or(Cow::Borrowed(id), |text| Cow::Owned(object::quote(&text)))
}

#[cfg(test)]
mod tests;
