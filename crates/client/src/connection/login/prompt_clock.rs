//! Measures the time that login prompts are shown to a person, which does not count against the
//! deadlines of calls.

#![cfg_attr(not(feature = "auth"), allow(dead_code, reason = "nobody is prompted in this build"))]

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clock;

/// Total time for which login prompts were open on one connection.
#[derive(Debug, Default)]
pub(crate) struct PromptClock {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of prompts that are open.
    open_prompts: usize,
    since: Option<Instant>,
    /// Duration of the prompts that have closed.
    finished: Duration,
}

impl PromptClock {
    /// Total time up to now. Overlapping prompts count once.
    pub(crate) fn total(&self) -> Duration {
        let state = self.state.lock();
        state.finished + state.since.map_or(Duration::ZERO, clock::elapsed)
    }

    /// Whether a prompt is open, so that the total grows.
    pub(crate) fn is_running(&self) -> bool {
        self.state.lock().since.is_some()
    }

    pub(crate) fn start(self: &Arc<Self>) -> OpenPrompt {
        let mut state = self.state.lock();
        state.open_prompts += 1;
        state.since.get_or_insert_with(clock::now);
        drop(state);
        OpenPrompt(Arc::clone(self))
    }
}

/// A prompt that is open until this is dropped.
pub(crate) struct OpenPrompt(Arc<PromptClock>);

impl Drop for OpenPrompt {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.open_prompts -= 1;
        if state.open_prompts == 0
            && let Some(since) = state.since.take()
        {
            state.finished += clock::elapsed(since);
        }
    }
}
