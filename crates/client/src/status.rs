//! [`Health`]: the statistics of a connection.

use std::time::SystemTime;

use bowline_proto::fault::Fault;

use crate::events::{ConnectionEvent, ConnectionEventKind};

/// The statistics of a connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// Since when the server is ready; `None` while it is not.
    pub connected_since: Option<SystemTime>,
    /// Number of recoveries, including new sessions.
    pub recoveries: u64,
    /// Number of sessions that the server lost.
    pub sessions_lost: u64,
    /// Connection attempts since the connection was last ready.
    pub attempt: u32,
    /// The last fault and its time. Kept after the recovery.
    pub last_fault: Option<(SystemTime, Fault)>,
}

impl Health {
    pub(crate) fn record(&mut self, life: &ConnectionEvent) {
        self.attempt = life.attempt;
        match life.kind {
            ConnectionEventKind::Connected => self.connected_since = Some(life.at),
            ConnectionEventKind::Recovered => {
                self.connected_since = Some(life.at);
                self.recoveries += 1;
            }
            ConnectionEventKind::SessionLost => {
                self.connected_since = None;
                self.sessions_lost += 1;
            }
            ConnectionEventKind::Disconnected
            | ConnectionEventKind::NeedsLogin
            | ConnectionEventKind::Failed => self.connected_since = None,
        }
        if let Some(fault) = &life.cause {
            self.last_fault = Some((life.at, fault.clone()));
        }
    }
}
