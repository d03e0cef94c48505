//! Counts the traffic of a connection for its keepalive.

use std::time::{Duration, Instant};

/// Times of recent calls, and how often the server replied. It is kept under a lock that every call
/// takes anyway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallTraffic {
    pub(crate) last_call: Instant,
    /// Time of the last call before the gap that the newest call ended.
    pub(crate) last_call_before_pause: Instant,
    /// Number of responses and progress notifications received.
    pub(crate) heard_count: u64,
}

impl CallTraffic {
    pub(crate) fn new(now: Instant) -> Self {
        Self { last_call: now, last_call_before_pause: now, heard_count: 0 }
    }

    pub(crate) fn record_call(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last_call) > CONVERSATION_GAP {
            self.last_call_before_pause = self.last_call;
        }
        self.last_call = now;
    }

    pub(crate) fn record_reply(&mut self) {
        self.heard_count += 1;
    }
}

/// Calls that are closer together than this belong to one conversation.
const CONVERSATION_GAP: Duration = Duration::from_secs(1);
