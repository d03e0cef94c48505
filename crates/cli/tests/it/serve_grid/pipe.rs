//! A scripted host of 2026-07-28 on stdin and stdout, where everything shares one channel.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::connect::host::Host;

/// The method of the first message of a subscription.
pub(super) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// The pipe of a host.
pub(super) struct Pipe {
    host: Host,
    /// The id of the only subscription, if there is one.
    listening: Option<u64>,
    /// What the subscription has said, and was not looked at.
    changes: VecDeque<Value>,
}

impl Pipe {
    pub(super) fn new(host: Host) -> Self {
        Self { host, listening: None, changes: VecDeque::new() }
    }

    pub(super) async fn send(&mut self, message: &Value) {
        self.host.send(message).await;
    }

    /// CN-03: on a pipe a request is canceled by a notification.
    pub(super) async fn cancel(&mut self, id: u64) {
        let params = json!({"requestId": id, "reason": "no longer wanted"});
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
    }

    /// Waits until the subscription of this request is acknowledged, and ends the one before it. Returns the
    /// acknowledgment.
    pub(super) async fn listen(&mut self, id: u64) -> Value {
        if let Some(before) = self.listening.replace(id) {
            self.cancel(before).await;
        }
        self.changes.clear();
        self.notification(ACKNOWLEDGED).await
    }

    /// The next message that belongs to a request other than a subscription.
    pub(super) async fn message_of_request(&mut self) -> Value {
        loop {
            if let Some(message) = self.next().await {
                return message;
            }
        }
    }

    /// The next notification of the subscription with this method.
    pub(super) async fn notification(&mut self, method: &str) -> Value {
        loop {
            while let Some(change) = self.changes.pop_front() {
                if change["method"] == method {
                    return change;
                }
            }
            if let Some(message) = self.next().await {
                panic!("nothing was requested: {message}");
            }
        }
    }

    /// Ends the host.
    pub(super) async fn close(self) -> Option<i32> {
        self.host.close().await.status.code()
    }

    /// Reads a message. SB-03: what belongs to a subscription has its id.
    async fn next(&mut self) -> Option<Value> {
        let message = self.host.next_message().await;
        let subscription = message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].as_u64();
        let Some(subscription) = subscription else { return Some(message) };
        // What was sent before a subscription was canceled may arrive later.
        if Some(subscription) == self.listening {
            self.changes.push_back(message);
        }
        None
    }
}
