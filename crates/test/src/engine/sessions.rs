//! The legacy sessions of the fake server: what each client declared and subscribed to.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Engine, EngineState};
use crate::fake_server::FakeEra;
use crate::listeners::Change;
use crate::request_outcome::RequestOutcome;

/// A legacy session.
pub(crate) struct Session {
    /// The capabilities that the client declared.
    capabilities: Value,
    /// The URIs of the resources whose updates the client wants.
    subscribed: HashSet<String>,
}

impl Engine {
    /// Opens a legacy session and returns the result of `initialize`.
    pub(crate) fn initialize(&self, session: &str, params: &Value) -> RequestOutcome {
        if self.script.era == FakeEra::Modern {
            return self.unsupported_version();
        }
        let opened = Session { capabilities: params["capabilities"].clone(), subscribed: HashSet::new() };
        self.state.lock().sessions.insert(session.to_owned(), opened);
        let mut result = json!({
            "protocolVersion": self.script.era.revision(),
            "capabilities": self.capabilities(),
            "serverInfo": self.server_info(),
        });
        if let Some(instructions) = &self.script.instructions {
            result["instructions"] = instructions.as_str().into();
        }
        RequestOutcome::Result(result)
    }

    /// Whether the session is open.
    pub(crate) fn has_session(&self, session: &str) -> bool {
        self.state.lock().sessions.contains_key(session)
    }

    /// Ends a session. Returns whether it was open.
    pub(crate) fn end_session(&self, session: &str) -> bool {
        let mut state = self.state.lock();
        let was_open = state.sessions.remove(session).is_some();
        state.discard_changes_of_ended_sessions();
        was_open
    }

    /// Forgets all sessions but that of byte streams, which lasts as long as they do.
    pub(crate) fn lose_sessions(&self) {
        let mut state = self.state.lock();
        state.sessions.retain(|session, _| session == STREAM_SESSION);
        state.discard_changes_of_ended_sessions();
    }

    /// Returns the capabilities that the client of a session declared; `null` if it is not open.
    pub(super) fn client_capabilities(&self, session: &str) -> Value {
        let state = self.state.lock();
        state.sessions.get(session).map(|session| session.capabilities.clone()).unwrap_or_default()
    }

    /// Subscribes a session to a resource.
    pub(super) fn subscribe_session(&self, session: &str, uri: &str) {
        if let Some(session) = self.state.lock().sessions.get_mut(session) {
            session.subscribed.insert(uri.to_owned());
        }
    }

    /// Ends the subscription of a session to a resource.
    pub(super) fn unsubscribe_session(&self, session: &str, uri: &str) {
        let mut state = self.state.lock();
        if let Some(session) = state.sessions.get_mut(session) {
            session.subscribed.remove(uri);
        }
        state.listeners.discard(|change| {
            change.session.as_deref() == Some(session) && change.uri.as_deref() == Some(uri)
        });
    }

    /// Changes the text of a resource.
    pub(crate) fn update_resource(&self, uri: &str, text: String) {
        assert!(
            self.script.resources.iter().any(|resource| resource.uri == uri),
            "there is no resource {uri}"
        );
        let EngineState { updated_texts, sessions, listeners, .. } = &mut *self.state.lock();
        updated_texts.insert(uri.to_owned(), text);
        let change_for = |session| Change {
            method: "notifications/resources/updated",
            flag: "resourceSubscriptions",
            uri: Some(uri.to_owned()),
            session,
        };
        match self.script.era {
            // Who subscribed listens.
            FakeEra::Modern => listeners.announce(change_for(None), false),
            // Who subscribed may be about to listen.
            FakeEra::Legacy => {
                for (id, _) in sessions.iter().filter(|(_, session)| session.subscribed.contains(uri)) {
                    listeners.announce(change_for(Some(id.clone())), true);
                }
            }
        }
    }
}

impl EngineState {
    fn discard_changes_of_ended_sessions(&mut self) {
        let Self { sessions, listeners, .. } = self;
        listeners
            .discard(|change| change.session.as_ref().is_some_and(|session| !sessions.contains_key(session)));
    }
}

/// The id of the session over byte streams, of which there is one. Over HTTP no session has it.
pub(crate) const STREAM_SESSION: &str = "";
