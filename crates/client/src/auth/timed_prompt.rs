//! Measures how long the prompts of a [`LoginPrompt`] are open.

use std::sync::Arc;

use bowline_auth::{
    DeviceCode, ForeignHostChoice, ForeignLoginHost, LoginPage, LoginPrompt, PageReply, PromptFuture,
};

use crate::connection::{OpenPrompt, PromptClock};

/// A [`LoginPrompt`] whose open time is measured.
pub(super) struct TimedPrompt {
    pub(super) prompt: Arc<dyn LoginPrompt>,
    pub(super) clock: Arc<PromptClock>,
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
