//! [`Line`]: who is next where several servers wait for the same thing.
//!
//! Not first come, first served: a server that asks ten times would then make all others wait for ten answers.
//! Next is the server whose last turn is longest ago, so that others wait for one turn of each server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// A line in front of something that so many can have at the same time.
#[derive(Debug)]
pub(crate) struct Line {
    state: Arc<Mutex<State>>,
}

/// What was waited for. Dropping it gives it to the next in the line.
#[derive(Debug)]
pub(crate) struct Turn {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    places: usize,
    free: usize,
    /// In the order in which they came. Nobody waits while there is a free place.
    waiting: Vec<(Arc<str>, oneshot::Sender<Turn>)>,
    /// How many turns there have been.
    turns: u64,
    /// Which of them was the last of each server, since there was last nothing to do.
    last: HashMap<Arc<str>, u64>,
}

impl Line {
    pub(crate) fn new(places: usize) -> Self {
        let state = State {
            places: places.max(1),
            free: places.max(1),
            waiting: Vec::new(),
            turns: 0,
            last: HashMap::new(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Waits for a turn. Dropping the future leaves the line.
    pub(crate) async fn turn(&self, server: &Arc<str>) -> Turn {
        let mine = {
            let mut state = lock(&self.state);
            if state.free > 0 {
                state.free -= 1;
                state.serve(server);
                return Turn { state: Arc::clone(&self.state) };
            }
            let (next, mine) = oneshot::channel();
            state.waiting.push((Arc::clone(server), next));
            mine
        };
        mine.await.expect("a turn is given to everybody in the line")
    }
}

impl State {
    fn serve(&mut self, server: &Arc<str>) {
        self.turns += 1;
        self.last.insert(Arc::clone(server), self.turns);
    }

    /// Who has the place that became free, if anybody wants it.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        self.waiting.retain(|(_, next)| !next.is_closed());
        // The first of those that are equal: within a server, and among new ones, it is who came first.
        let longest_ago = |(_, (server, _)): &(usize, &(Arc<str>, _))| self.last.get(server).copied();
        let Some((at, _)) = self.waiting.iter().enumerate().min_by_key(longest_ago) else {
            self.free += 1;
            if self.free == self.places {
                self.last.clear();
            }
            return None;
        };
        let (server, next) = self.waiting.remove(at);
        self.serve(&server);
        Some(next)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = lock(&self.state).next();
        if let Some(next) = next {
            // Who has left just now cannot take it; the turn is dropped here then, and goes on to the one after.
            let _ = next.send(Self { state: Arc::clone(&self.state) });
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::future::join_all;

    use super::*;

    /// Other servers wait for one turn of each, however many of one are in the line.
    #[tokio::test]
    async fn servers_take_turns() {
        let line = Line::new(1);
        let [a, b, c] = ["a", "b", "c"].map(Arc::from);
        let order = Mutex::new(Vec::new());
        let first = line.turn(&a).await;
        let rest = join_all([&a, &a, &b, &c, &b].map(async |server| {
            let _turn = line.turn(server).await;
            order.lock().unwrap().push(server.to_string());
        }));
        tokio::join!(rest, async { drop(first) });
        assert_eq!(*order.lock().unwrap(), ["b", "c", "a", "b", "a"]);
        assert!(lock(&line.state).last.is_empty(), "nothing is kept when there is nothing to do");
    }

    /// Who leaves, with a turn or without, keeps nobody waiting.
    #[tokio::test]
    async fn whoever_leaves_makes_room() {
        let line = Line::new(2);
        let server = Arc::from("a");
        let (first, second) = (line.turn(&server).await, line.turn(&server).await);
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(line.turn(&server))).collect();
        assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()), "two places are taken");
        // The second of those that wait leaves, then the first: its turn has come, and it never looked.
        drop(waiting.remove(1));
        drop(first);
        drop(waiting.remove(0));
        let third = waiting.remove(0).now_or_never().expect("it is next");
        drop((second, third));
        assert_eq!(lock(&line.state).free, 2);
    }
}
