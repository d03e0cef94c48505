//! [`Control`]: what a test can do with a running MCP server, whatever its transport.

mod server_requests;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::engine::{Engine, Session, StreamKind, SubscriptionEnd, SubscriptionInfo};
use crate::fault::Fault;
use crate::message_log::ReceivedMessage;
use crate::script::Script;

pub use server_requests::PendingServerRequest;

/// How long [`Control::send`] waits for an open stream, and [`Control::request`] for a response.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A handle to a running server: it arms faults, sends messages, and returns what was received.
/// Cheap to clone; both [`HttpServer`](crate::HttpServer) and [`StdioServer`](crate::StdioServer)
/// dereference to it.
#[derive(Clone)]
pub struct Control {
    pub(crate) engine: Arc<Engine>,
}

impl Control {
    /// Arms a fault. Panics if it is impossible on this transport.
    pub fn arm(&self, fault: impl Into<Fault>) {
        let fault = fault.into();
        fault.assert_possible_on(self.engine.transport);
        self.engine.armed.add(fault);
        self.engine.message_log.notify_waiters();
    }

    /// Removes all armed faults.
    pub fn disarm(&self) {
        self.engine.armed.clear();
        self.engine.message_log.notify_waiters();
    }

    /// Returns the armed faults that have strikes left. A test that ends with some left did not
    /// test what it meant to.
    pub fn armed_faults(&self) -> Vec<Fault> {
        self.engine.armed.remaining()
    }

    /// Changes the script while the server runs: `server.edit(|s| s.tool("new"))`. Clients are not
    /// notified; see [`announce_tools`](Self::announce_tools).
    pub fn edit(&self, change: impl FnOnce(Script) -> Script) {
        self.engine.edit_script(change);
    }

    /// Returns everything received so far, in order.
    pub fn received(&self) -> Vec<ReceivedMessage> {
        self.engine.message_log.entries()
    }

    /// Clears the record of messages, for runs so long that it would fill the memory. The counts of
    /// executions and connections stay.
    pub fn clear_received(&self) {
        self.engine.message_log.clear_entries();
    }

    /// Returns the messages received with this method.
    pub fn received_with_method(&self, method: &str) -> Vec<ReceivedMessage> {
        let mut received = self.received();
        received.retain(|r| r.has_method(method));
        received
    }

    /// Returns how many messages were received with this method.
    pub fn count(&self, method: &str) -> usize {
        self.engine.message_log.with_entries(|all| all.iter().filter(|r| r.has_method(method)).count())
    }

    /// Returns how many `initialize` requests were received.
    pub fn initialize_count(&self) -> usize {
        self.count("initialize")
    }

    /// Returns how often this tool was executed, whatever became of the responses.
    pub fn executions(&self, tool: &str) -> u64 {
        self.engine.message_log.executions(tool)
    }

    /// Returns the ids of the requests the client canceled, by notification or (modern HTTP) by
    /// closing the response.
    pub fn cancellations(&self) -> Vec<Value> {
        self.engine.message_log.cancellations()
    }

    /// Returns what the client did that the protocol forbids and a lenient server tolerates.
    pub fn violations(&self) -> Vec<String> {
        self.engine.message_log.violations()
    }

    /// Returns the number of TCP connections accepted so far; on stdio, of processes started.
    pub fn connections(&self) -> u64 {
        self.engine.message_log.connections()
    }

    /// Returns how often the server was started; on stdio, how many processes were.
    pub fn runs(&self) -> u32 {
        self.engine.message_log.runs()
    }

    /// Returns the open handshake sessions.
    pub fn sessions(&self) -> Vec<Session> {
        self.engine.sessions()
    }

    /// Forgets all sessions, as an idle timeout does.
    pub fn drop_sessions(&self) {
        self.engine.drop_sessions();
    }

    /// Waits for a matching message, including those received before the call. Panics with a
    /// summary of all messages if none arrives within `timeout`.
    pub async fn wait_for(
        &self,
        matches: impl Fn(&ReceivedMessage) -> bool,
        timeout: Duration,
    ) -> ReceivedMessage {
        self.wait_for_nth(0, matches, timeout).await
    }

    /// Like [`wait_for`](Self::wait_for), for the match after `n` others.
    pub async fn wait_for_nth(
        &self,
        n: usize,
        matches: impl Fn(&ReceivedMessage) -> bool,
        timeout: Duration,
    ) -> ReceivedMessage {
        let (mut next, mut left) = (0, n);
        // Each message is tested once, however long the wait.
        let look = || {
            self.engine.message_log.entries_from(next).into_iter().find(|r| {
                next = r.seq + 1;
                matches(r) && left.checked_sub(1).map(|fewer| left = fewer).is_none()
            })
        };
        self.engine.message_log.expect_entry(look, timeout).await
    }

    /// Waits until the condition holds, testing it after every event. Panics with a summary of all
    /// messages after `timeout`.
    pub async fn wait_until(&self, holds: impl Fn(&Self) -> bool, timeout: Duration) {
        self.engine.message_log.expect_condition(|| holds(self), timeout).await;
    }

    /// Sends a message to the client as soon as a stream is open: the GET stream first, else the
    /// stream of a POST that is still being answered. Panics if none opens within ten seconds.
    pub async fn send(&self, message: Value) {
        self.send_via(StreamKind::Any, message).await;
    }

    /// Like [`send`](Self::send), on this kind of stream.
    pub async fn send_via(&self, via: StreamKind, message: Value) {
        let sent =
            self.engine.message_log.wait_for(|| self.engine.send(via, &message).then_some(()), WAIT_TIMEOUT);
        let sent = sent.await.is_some();
        assert!(sent, "no channel for {via:?} opened; {}", self.engine.message_log.summary());
    }

    /// Returns the number of open streams of this kind.
    pub fn open_streams(&self, via: StreamKind) -> usize {
        self.engine.count_open_outlets(via)
    }

    /// Returns the number of open modern subscriptions.
    pub fn subscription_count(&self) -> usize {
        self.engine.open_subscriptions().len()
    }

    /// Returns the open modern subscriptions, in the order they were opened.
    pub fn open_subscriptions(&self) -> Vec<SubscriptionInfo> {
        self.engine.open_subscriptions()
    }

    /// Ends the subscription with this id, or all of them, in this way. Returns how many.
    pub fn end_matching_subscriptions(&self, only: Option<&Value>, how: SubscriptionEnd) -> usize {
        self.engine.end_subscriptions(only, how)
    }

    /// Announces a change of the tools to handshake sessions with an open stream, and to modern
    /// subscriptions that requested it. Returns how many it reached.
    pub fn announce_tools(&self) -> usize {
        self.announce("tools")
    }

    /// Announces a change of the resource list.
    pub fn announce_resources(&self) -> usize {
        self.announce("resources")
    }

    /// Announces a change of the prompt list.
    pub fn announce_prompts(&self) -> usize {
        self.announce("prompts")
    }

    /// Announces an update of one resource to its subscribers.
    pub fn announce_resource(&self, uri: &str) -> usize {
        let params = json!({"uri": uri});
        self.engine.announce("notifications/resources/updated", "resourceSubscriptions", &params)
    }

    /// Sends a log message outside of any request, to each handshake session with an open stream
    /// whose level admits it. Returns how many it reached.
    pub fn send_log_message(&self, level: &str, data: &Value) -> usize {
        self.engine.send_log_message(level, data)
    }

    /// Marks this URL elicitation as completed: tools that waited for it proceed, and handshake
    /// sessions of 2025-11-25 with an open stream are notified. Returns how many it reached.
    pub fn complete_elicitation(&self, id: &str) -> usize {
        self.engine.complete_elicitation(id)
    }

    fn announce(&self, what: &str) -> usize {
        let method = format!("notifications/{what}/list_changed");
        self.engine.announce(&method, &format!("{what}ListChanged"), &Value::Null)
    }
}
