//! [`FairQueue`]: decides which of several servers is next for a shared resource.
//!
//! It is not first come, first served, because a server with ten requests would make all others
//! wait for ten. The next permit goes to the server whose last one is longest ago.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A queue for a resource that has several permits.
#[derive(Debug)]
pub(crate) struct FairQueue {
    state: Arc<Mutex<State>>,
}

/// A permit of a [`FairQueue`]. Dropping it passes it to the next in the queue.
#[derive(Debug)]
pub(crate) struct FairPermit {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    capacity: usize,
    free: usize,
    /// Waiting requests in order of arrival. Empty while there is a free permit.
    waiting: Vec<(Arc<str>, oneshot::Sender<FairPermit>)>,
    /// Number of permits given so far.
    permits_given: u64,
    /// Number of the last permit of each server, cleared when the queue is idle.
    last_permit: HashMap<Arc<str>, u64>,
}

impl FairQueue {
    pub(crate) fn new(places: usize) -> Self {
        let state = State {
            capacity: places.max(1),
            free: places.max(1),
            waiting: Vec::new(),
            permits_given: 0,
            last_permit: HashMap::new(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Waits for a permit. Dropping the future leaves the queue.
    pub(crate) async fn acquire(&self, server: &Arc<str>) -> FairPermit {
        let mine = {
            let mut state = self.state.lock();
            if state.free > 0 {
                state.free -= 1;
                state.record_permit(server);
                return FairPermit { state: Arc::clone(&self.state) };
            }
            let (next, mine) = oneshot::channel();
            state.waiting.push((Arc::clone(server), next));
            mine
        };
        mine.await.expect("a turn is given to everybody in the line")
    }
}

impl State {
    fn record_permit(&mut self, server: &Arc<str>) {
        self.permits_given += 1;
        self.last_permit.insert(Arc::clone(server), self.permits_given);
    }

    /// Selects who gets the permit that became free, or frees it.
    fn next_waiting(&mut self) -> Option<oneshot::Sender<FairPermit>> {
        self.waiting.retain(|(_, next)| !next.is_closed());
        // `min_by_key` takes the first of equals: within a server, and among new servers, the
        // earliest.
        let longest_ago = |(_, (server, _)): &(usize, &(Arc<str>, _))| self.last_permit.get(server).copied();
        let Some((at, _)) = self.waiting.iter().enumerate().min_by_key(longest_ago) else {
            self.free += 1;
            if self.free == self.capacity {
                self.last_permit.clear();
            }
            return None;
        };
        let (server, next) = self.waiting.remove(at);
        self.record_permit(&server);
        Some(next)
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        let next = self.state.lock().next_waiting();
        if let Some(next) = next {
            // If the receiver has just left, the permit is dropped here and passes on.
            let _ = next.send(Self { state: Arc::clone(&self.state) });
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::future::join_all;

    use super::*;

    /// Other servers wait for one permit of each, however many requests one server has.
    #[tokio::test]
    async fn servers_take_turns() {
        let line = FairQueue::new(1);
        let [a, b, c] = ["a", "b", "c"].map(Arc::from);
        let order = Mutex::new(Vec::new());
        let first = line.acquire(&a).await;
        let rest = join_all([&a, &a, &b, &c, &b].map(async |server| {
            let _turn = line.acquire(server).await;
            order.lock().push(server.to_string());
        }));
        tokio::join!(rest, async { drop(first) });
        assert_eq!(*order.lock(), ["b", "c", "a", "b", "a"]);
        assert!(line.state.lock().last_permit.is_empty(), "nothing is kept when there is nothing to do");
    }

    /// Leaving the queue, with a permit or without, blocks nobody.
    #[tokio::test]
    async fn leaving_the_queue_makes_room() {
        let line = FairQueue::new(2);
        let server = Arc::from("a");
        let (first, second) = (line.acquire(&server).await, line.acquire(&server).await);
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(line.acquire(&server))).collect();
        assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()), "two places are taken");
        // The second waiter leaves, then the first, which had been given a permit without noticing.
        drop(waiting.remove(1));
        drop(first);
        drop(waiting.remove(0));
        let third = waiting.remove(0).now_or_never().expect("it is next");
        drop((second, third));
        assert_eq!(line.state.lock().free, 2);
    }
}
