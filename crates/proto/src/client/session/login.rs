//! The login phases of [`Session`]: `LoggingIn` while a login is being obtained, then `NeedsLogin`.

use std::time::{Duration, Instant};

use super::{Action, Announcement, FAILED_RETRY_INTERVAL, Phase, Session};
use crate::fault::{Fault, Recovery};

impl Session {
    /// Asks the driver for a login, up to `MAX_LOGINS` times in a row.
    pub(super) fn log_in(&mut self, now: Instant, cause: Fault) -> Phase {
        if !self.settings.can_authorize || self.logins >= MAX_LOGINS {
            return self.require_login(now, cause);
        }
        self.begin_outage(now);
        if self.was_ready {
            self.announce_outage(&cause);
        }
        self.logins += 1;
        self.actions.push_back(Action::Authorize(self.attempt, cause.clone()));
        Phase::LoggingIn { until: now + LOGIN_TIMEOUT, cause }
    }

    /// Handles a login that failed or timed out.
    pub(super) fn handle_denied_login(&mut self, now: Instant, cause: Fault) -> Phase {
        // Retires the attempt, so a late result of this login is dropped.
        self.attempt.0 += 1;
        match cause.recovery() {
            Recovery::Login => self.require_login(now, cause),
            Recovery::Retry { .. } | Recovery::GiveUp => {
                // The server saw no credentials, so this does not count as a login in vain.
                self.logins = self.logins.saturating_sub(1);
                self.schedule_recovery(now, cause)
            }
        }
    }

    fn require_login(&mut self, now: Instant, cause: Fault) -> Phase {
        self.begin_outage(now);
        self.logins = 0;
        self.announce(Announcement::NeedsLogin(cause.clone()));
        Phase::NeedsLogin { not_before: now + FAILED_RETRY_INTERVAL, cause }
    }
}

/// Maximum duration of a login: a person may have to look for their phone.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Logins in a row after which a server that still refuses us needs a person.
const MAX_LOGINS: u32 = 3;
