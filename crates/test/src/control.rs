//! [`FakeControl`]: what arrived at a running server, and which faults it is to have.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::engine::Engine;

/// The handle of a running server. Cheap to clone; all clones are the same server.
#[derive(Clone)]
pub struct FakeControl {
    pub(crate) engine: Arc<Engine>,
}

/// A request or notification that arrived.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReceivedMessage {
    /// The method.
    pub method: String,
    /// The params; `null` if there were none.
    pub params: Value,
}

impl FakeControl {
    /// Returns all requests and notifications that arrived, in order, including those that were
    /// refused or cut.
    pub fn received(&self) -> Vec<ReceivedMessage> {
        self.engine.state.lock().received.clone()
    }

    /// Returns the arguments of each call that ran the tool, in order.
    pub fn calls(&self, tool: &str) -> Vec<Value> {
        let state = self.engine.state.lock();
        state.calls.iter().filter(|(name, _)| name == tool).map(|(_, arguments)| arguments.clone()).collect()
    }

    /// Asserts that the tool ran this often.
    ///
    /// # Panics
    /// If it did not; the message lists the calls.
    #[track_caller]
    pub fn assert_called(&self, tool: &str, times: usize) {
        let calls = self.calls(tool);
        assert!(
            calls.len() == times,
            "the tool {tool} ran {} times instead of {times}: {calls:?}",
            calls.len()
        );
    }

    /// Forgets all sessions and what was subscribed to in them: their next request is answered with
    /// 404. A server in the modern era or over byte streams has none to forget, and nothing changes.
    pub fn lose_session(&self) {
        self.engine.lose_sessions();
    }

    /// Cuts the connection when the next request has arrived; the tool does not run. Over byte
    /// streams the connection has then ended for good.
    pub fn cut_next(&self) {
        self.engine.state.lock().faults.cut = true;
    }

    /// Handles the next request only after this time, on the clock of tokio.
    pub fn delay_next(&self, delay: Duration) {
        self.engine.state.lock().faults.delay = Some(delay);
    }

    /// Changes the text of a resource, and notifies the clients that are subscribed to it. A client
    /// that subscribed in a session and does not listen yet is notified as soon as it does.
    ///
    /// # Panics
    /// If there is no such resource.
    pub fn update_resource(&self, uri: &str, text: impl Into<String>) {
        self.engine.update_resource(uri, text.into());
    }

    /// Removes a tool from the list, and notifies the clients. Calls of it are refused.
    ///
    /// # Panics
    /// If there is no such tool.
    pub fn remove_tool(&self, tool: &str) {
        self.engine.set_tool_removed(tool, true);
    }

    /// Puts a removed tool back, and notifies the clients. A tool that is to appear later is removed
    /// before the client connects.
    ///
    /// # Panics
    /// If there is no such tool.
    pub fn restore_tool(&self, tool: &str) {
        self.engine.set_tool_removed(tool, false);
    }

    /// Refuses the next request with 401 and a challenge. Has no effect over byte streams.
    pub fn unauthorized_next(&self) {
        self.engine.state.lock().faults.unauthorized = true;
    }
}

impl fmt::Debug for FakeControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeControl").field("server", &self.engine.script).finish_non_exhaustive()
    }
}
