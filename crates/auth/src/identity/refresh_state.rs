//! Reports what a running refresh waits for.

use tokio::sync::watch;

use crate::error::AuthError;

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

/// Publishes the [`RefreshState`] of one login.
#[derive(Default)]
pub(super) struct RefreshStatePublisher {
    sender: watch::Sender<RefreshState>,
}

impl RefreshStatePublisher {
    /// Publishes the state if it changed.
    pub(super) fn set(&self, state: RefreshState) {
        self.sender.send_if_modified(|published| {
            let changed = *published != state;
            *published = state;
            changed
        });
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<RefreshState> {
        self.sender.subscribe()
    }

    /// Why the store could not save the login, while it is waited for.
    pub(super) fn store_error(&self) -> Option<AuthError> {
        match &*self.sender.borrow() {
            RefreshState::Store(error) => Some(error.clone()),
            RefreshState::Idle | RefreshState::OtherProcess(_) | RefreshState::AuthorizationServer => None,
        }
    }
}
