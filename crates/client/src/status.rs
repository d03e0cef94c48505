//! [`Health`]: the statistics of a connection.

use std::time::SystemTime;

use bowline_proto::fault::Fault;

use crate::events::{Life, Turn};

/// The statistics of a connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// Since when the server is ready; `None` while it is not.
    pub since: Option<SystemTime>,
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
    pub(crate) fn record(&mut self, life: &Life) {
        self.attempt = life.attempt;
        match life.turn {
            Turn::Connected => self.since = Some(life.at),
            Turn::Recovered => {
                self.since = Some(life.at);
                self.recoveries += 1;
            }
            Turn::SessionLost => {
                self.since = None;
                self.sessions_lost += 1;
            }
            Turn::Disconnected | Turn::NeedsLogin | Turn::Failed => self.since = None,
        }
        if let Some(fault) = &life.cause {
            self.last_fault = Some((life.at, fault.clone()));
        }
    }
}
