//! Reports what a running refresh waits for.

use super::Inner;
use crate::error::AuthError;
use crate::refresh::core::Over;
use crate::refresh::drive::Pass;

/// What the refresh of a login waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefreshState {
    /// No refresh is running, and the current login is saved.
    #[default]
    Idle,
    /// Another process, which is refreshing the same login; its process id, if known.
    OtherProcess(Option<u32>),
    /// The authorization server, which was asked for new tokens.
    AuthorizationServer,
    /// The store, which could not save the new tokens yet. The error names the server and the
    /// reason. Until they are saved, the login is lost if the program exits.
    Store(AuthError),
}

impl Inner {
    /// Handles a progress report of a refresh. Returns `false` if the refresh must not start.
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

    /// Resets the state after a refresh or save, unless a login is still unsaved.
    pub(super) fn wait_no_longer(&self) {
        // Keep the last error while the login is unsaved.
        if !self.unsaved().is_some_and(|unsaved| unsaved.is_at_stake()) {
            self.wait_for(RefreshState::Idle);
        }
    }

    /// Publishes the state if it changed.
    pub(super) fn wait_for(&self, state: RefreshState) {
        self.waiting.send_if_modified(|told| {
            let changed = *told != state;
            *told = state;
            changed
        });
    }
}
