//! Measures the time that login prompts are shown to a person, which does not count against the
//! deadlines of calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_auth::{
    DeviceCode, ForeignHostChoice, ForeignLoginHost, LoginPage, LoginPrompt, PageReply, PromptFuture,
};
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

    fn start(self: &Arc<Self>) -> OpenPrompt {
        let mut state = self.state.lock();
        state.open_prompts += 1;
        state.since.get_or_insert_with(clock::now);
        drop(state);
        OpenPrompt(Arc::clone(self))
    }
}

/// A prompt that is open until this is dropped.
struct OpenPrompt(Arc<PromptClock>);

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

/// A [`LoginPrompt`] whose open time is measured.
pub(crate) struct TimedPrompt {
    pub(crate) prompt: Arc<dyn LoginPrompt>,
    pub(crate) clock: Arc<PromptClock>,
}

/// Keeps the prompt open until the person has answered.
fn hold_open<'a, T: 'a>(open: OpenPrompt, answer: PromptFuture<'a, T>) -> PromptFuture<'a, T> {
    Box::pin(async move {
        let answer = answer.await;
        drop(open);
        answer
    })
}

impl LoginPrompt for TimedPrompt {
    fn show_page(&self, page: LoginPage) -> PromptFuture<'_, PageReply> {
        hold_open(self.clock.start(), self.prompt.show_page(page))
    }

    fn confirm_foreign_host(&self, question: ForeignLoginHost) -> PromptFuture<'_, ForeignHostChoice> {
        hold_open(self.clock.start(), self.prompt.confirm_foreign_host(question))
    }

    fn show_device_code(&self, code: DeviceCode) -> PromptFuture<'_, ()> {
        hold_open(self.clock.start(), self.prompt.show_device_code(code))
    }

    fn has_browser(&self) -> bool {
        self.prompt.has_browser()
    }

    fn can_paste(&self) -> bool {
        self.prompt.can_paste()
    }
}
