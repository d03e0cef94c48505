//! How a connection has fared so far. Whatever shows it to a person shows this.

use std::time::SystemTime;

use bowline_proto::fault::Fault;

use crate::events::{Life, Turn};

/// How a connection has fared so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// Since when calls can go; `None` while they cannot.
    pub since: Option<SystemTime>,
    /// How often calls could go again after they could not, new sessions included.
    pub recoveries: u64,
    /// How often the server forgot the session.
    pub sessions_lost: u64,
    /// Attempts to connect since the connection was last good.
    pub attempt: u32,
    /// What went wrong last, and when. Kept after the recovery.
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
