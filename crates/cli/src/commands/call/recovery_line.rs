//! Says in one line what was done to bring a call through.

use bowline::{CallReport, Client, Health};

use crate::print::units;

/// The state of a connection before a call.
pub(super) struct RecoveryWatch {
    before: Health,
}

impl RecoveryWatch {
    /// Looks at the connection before the call is made.
    pub(super) fn start(client: &Client) -> Self {
        Self { before: client.health() }
    }

    /// Describes the recoveries of a call that went through: `session lost; reconnected and retried after 40 ms`.
    /// `None` if there were none.
    pub(super) fn describe(&self, client: &Client, report: &CallReport) -> Option<String> {
        if report.recoveries == 0 {
            return None;
        }
        let is_session = client.health().sessions_lost > self.before.sessions_lost;
        let lost = if is_session { "session lost" } else { "connection lost" };
        let done = if report.attempts > 1 { "reconnected and retried" } else { "reconnected and resumed" };
        let times =
            if report.recoveries > 1 { format!(", {} times", report.recoveries) } else { String::new() };
        let after = match report.waited {
            waited if waited.is_zero() => String::new(),
            waited => format!(" after {}", units::time(waited)),
        };
        Some(format!("{lost}{times}; {done}{after}"))
    }
}
