//! Owns what is told of a refresh while it lasts: whom it waits for.

use super::Inner;
use crate::error::AuthError;
use crate::refresh::core::Over;
use crate::refresh::drive::Pass;

/// What the refresh of a login waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefreshState {
    /// Nothing: no refresh is under way, and what is held is written down.
    #[default]
    Idle,
    /// Another process, which refreshes the same login; its id, where that is known.
    OtherProcess(Option<u32>),
    /// The authorization server, which is asked for new tokens.
    AuthorizationServer,
    /// The store: what the authorization server gave could not be written down yet. The error says that in a sentence,
    /// with the server's name and the reason. Until it is written down, the login is lost if the program ends.
    Store(AuthError),
}

impl Inner {
    /// Takes what a refresh tells as it goes. `false`: it must not begin.
    pub(super) fn pass(&self, pass: Pass) -> bool {
        match pass {
            Pass::In => return self.gate.enter(),
            Pass::Out => self.gate.leave(),
            Pass::Others(by) => self.wait_for(RefreshState::OtherProcess(by)),
            Pass::Asking => self.wait_for(RefreshState::AuthorizationServer),
            Pass::Unwritten(why) => {
                self.wait_for(RefreshState::Store(self.unwritten(&Over::Renewed(None), &why.what)));
            }
        }
        true
    }

    /// A refresh, or an attempt to write down what it brought, is over.
    pub(super) fn wait_no_longer(&self) {
        // What is still not written down is waited for until it is, with the reason that was told last.
        if !self.unsaved().is_some_and(|unsaved| unsaved.is_at_stake()) {
            self.wait_for(RefreshState::Idle);
        }
    }

    /// Tells whoever watches what is waited for from now on.
    pub(super) fn wait_for(&self, state: RefreshState) {
        self.waiting.send_if_modified(|told| {
            let changed = *told != state;
            *told = state;
            changed
        });
    }
}
