//! Reports what a running refresh waits for.

use super::Inner;
use crate::error::AuthError;
use crate::refresh::core::LoginSource;
use crate::refresh::driver::RefreshProgress;

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
    pub(super) fn handle_progress(&self, pass: RefreshProgress) -> bool {
        match pass {
            RefreshProgress::Starting => return self.critical_section.enter(),
            RefreshProgress::NotStarted => self.critical_section.leave(),
            RefreshProgress::WaitingForOther(by) => self.set_refresh_state(RefreshState::OtherProcess(by)),
            RefreshProgress::Requesting => self.set_refresh_state(RefreshState::AuthorizationServer),
            RefreshProgress::SaveFailed(why) => {
                self.set_refresh_state(RefreshState::Store(
                    self.save_error(&LoginSource::Refresh(None), &why.what),
                ));
            }
        }
        true
    }

    /// Resets the state after a refresh or save, unless a login is still unsaved.
    pub(super) fn clear_refresh_state(&self) {
        // Keep the last error while the login is unsaved.
        if !self.unsaved().is_some_and(|unsaved| unsaved.would_lose_login()) {
            self.set_refresh_state(RefreshState::Idle);
        }
    }

    /// Publishes the state if it changed.
    pub(super) fn set_refresh_state(&self, state: RefreshState) {
        self.refresh_state.send_if_modified(|told| {
            let changed = *told != state;
            *told = state;
            changed
        });
    }
}
