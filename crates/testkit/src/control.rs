//! [`Control`]: what a test does with a server whatever its transport.

mod asking;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::engine::{Engine, ListenEnd, Listening, Session, Via};
use crate::fault::Fault;
use crate::ledger::Received;
use crate::script::Script;

pub use asking::Request;

/// How long [`Control::send`] waits for a channel, and [`Control::request`] for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Arms faults, sends messages, and tells what was received. Cheap to clone; both
/// [`HttpServer`](crate::HttpServer) and [`StdioServer`](crate::StdioServer) dereference to it.
#[derive(Clone)]
pub struct Control {
    pub(crate) engine: Arc<Engine>,
}

impl Control {
    /// Arms a fault. Panics if it has no meaning on this transport.
    pub fn arm(&self, fault: impl Into<Fault>) {
        let fault = fault.into();
        fault.check(self.engine.front);
        self.engine.armed.add(fault);
        self.engine.ledger.touch();
    }

    /// Takes all faults back.
    pub fn disarm(&self) {
        self.engine.armed.clear();
        self.engine.ledger.touch();
    }

    /// The faults that have not struck as often as they shall. A test that ends with some left did
    /// not test what it meant to.
    pub fn armed(&self) -> Vec<Fault> {
        self.engine.armed.left()
    }

    /// Changes the script while the server runs: `server.edit(|s| s.tool("new"))`. Nobody is told;
    /// see [`announce_tools`](Self::announce_tools).
    pub fn edit(&self, change: impl FnOnce(Script) -> Script) {
        self.engine.edit(change);
    }

    /// Everything received so far, in order.
    pub fn received(&self) -> Vec<Received> {
        self.engine.ledger.received()
    }

    /// Clears the record of messages, for runs so long that it would fill the memory. Counts of
    /// executions and connections stay.
    pub fn forget_received(&self) {
        self.engine.ledger.forget_received();
    }

    /// What was received with this method.
    pub fn received_of(&self, method: &str) -> Vec<Received> {
        let mut received = self.received();
        received.retain(|r| r.is(method));
        received
    }

    /// How often this method was received.
    pub fn count(&self, method: &str) -> usize {
        self.engine.ledger.count(method)
    }

    /// How often a handshake was asked for.
    pub fn initialize_count(&self) -> usize {
        self.count("initialize")
    }

    /// How often this tool was carried out, whatever became of the answers.
    pub fn executions(&self, tool: &str) -> u64 {
        self.engine.ledger.executions(tool)
    }

    /// Ids of requests the client cancelled, by notification or (modern HTTP) by going away.
    pub fn cancellations(&self) -> Vec<Value> {
        self.engine.ledger.cancellations()
    }

    /// Things the client did that the protocol forbids and a lenient server lets pass.
    pub fn violations(&self) -> Vec<String> {
        self.engine.ledger.violations()
    }

    /// TCP connections accepted so far; on stdio, processes started.
    pub fn connections(&self) -> u64 {
        self.engine.ledger.connections()
    }

    /// How often the server was started; on stdio, how many processes were.
    pub fn runs(&self) -> u32 {
        self.engine.ledger.runs()
    }

    /// The open handshake sessions.
    pub fn sessions(&self) -> Vec<Session> {
        self.engine.sessions()
    }

    /// Forgets all sessions, as an idle timeout does.
    pub fn drop_sessions(&self) {
        self.engine.drop_sessions();
    }

    /// Waits until something matching was received, also if that was long ago. Panics with the
    /// record of what came instead.
    pub async fn wait_for(&self, matches: impl Fn(&Received) -> bool, timeout: Duration) -> Received {
        self.wait_for_nth(0, matches, timeout).await
    }

    /// Like [`wait_for`](Self::wait_for), for the match after `n` others.
    pub async fn wait_for_nth(
        &self,
        n: usize,
        matches: impl Fn(&Received) -> bool,
        timeout: Duration,
    ) -> Received {
        let (mut next, mut left) = (0, n);
        // Each record is looked at once, however long the wait.
        let look = || {
            self.engine.ledger.received_from(next).into_iter().find(|r| {
                next = r.seq + 1;
                matches(r) && left.checked_sub(1).map(|fewer| left = fewer).is_none()
            })
        };
        match self.engine.ledger.until(look, timeout).await {
            Some(found) => found,
            None => panic!("nothing like it within {timeout:?}; {}", self.engine.ledger.summary()),
        }
    }

    /// Waits until the condition holds, looking again after every event. Panics with the record.
    pub async fn wait_until(&self, holds: impl Fn(&Self) -> bool, timeout: Duration) {
        let came_true = self.engine.ledger.until(|| holds(self).then_some(()), timeout).await.is_some();
        assert!(came_true, "it did not come true within {timeout:?}; {}", self.engine.ledger.summary());
    }

    /// Sends a message of the server's own, as soon as a channel is open: GET stream first, else
    /// the stream of a POST under way. Panics if none opens within ten seconds.
    pub async fn send(&self, message: Value) {
        self.send_via(Via::Any, message).await;
    }

    /// Like [`send`](Self::send), on this kind of channel.
    pub async fn send_via(&self, via: Via, message: Value) {
        let sent = self.engine.ledger.until(|| self.engine.send(via, &message).then_some(()), PATIENCE);
        let sent = sent.await.is_some();
        assert!(sent, "no channel for {via:?} opened; {}", self.engine.ledger.summary());
    }

    /// Open channels of this kind.
    pub fn open_streams(&self, via: Via) -> usize {
        self.engine.open_outlets(via)
    }

    /// Open modern subscriptions.
    pub fn subscriptions(&self) -> usize {
        self.engine.listening().len()
    }

    /// Open modern subscriptions, in the order they were opened.
    pub fn listening(&self) -> Vec<Listening> {
        self.engine.listening()
    }

    /// Ends every modern subscription with its final result.
    pub fn end_subscriptions(&self) {
        self.engine.end_subscriptions(None, ListenEnd::Result);
    }

    /// Ends the subscription with this id, or all of them, in this way. Gives the number.
    pub fn end_listening(&self, only: Option<&Value>, how: ListenEnd) -> usize {
        self.engine.end_subscriptions(only, how)
    }

    /// Says that the tools changed: to handshake sessions with an open stream, and to modern
    /// subscriptions that asked. Gives the number reached.
    pub fn announce_tools(&self) -> usize {
        self.announce("tools")
    }

    /// Says that the resources changed.
    pub fn announce_resources(&self) -> usize {
        self.announce("resources")
    }

    /// Says that the prompts changed.
    pub fn announce_prompts(&self) -> usize {
        self.announce("prompts")
    }

    /// Says that one resource changed, to whoever subscribed to it.
    pub fn announce_resource(&self, uri: &str) -> usize {
        let params = json!({"uri": uri});
        self.engine.announce("notifications/resources/updated", "resourceSubscriptions", &params)
    }

    /// Logs out of the blue, to each handshake session with an open stream whose level lets it. Gives the
    /// number reached.
    pub fn log(&self, level: &str, data: &Value) -> usize {
        self.engine.log(level, data)
    }

    /// Somebody was on the page of this elicitation: tools that waited for it go on, and handshake sessions
    /// of 2025-11-25 with an open stream are told. Gives the number reached.
    pub fn complete_elicitation(&self, id: &str) -> usize {
        self.engine.complete_elicitation(id)
    }

    fn announce(&self, what: &str) -> usize {
        let method = format!("notifications/{what}/list_changed");
        self.engine.announce(&method, &format!("{what}ListChanged"), &Value::Null)
    }
}
