//! The phase in which it is settled who we are.

use std::time::{Duration, Instant};

use super::{Action, Announcement, HOPELESS, Phase, Session};
use crate::fault::{Fault, Recovery};

impl Session {
    /// The server wants to know who we are. Whoever can answer is asked, but not for ever.
    pub(super) fn log_in(&mut self, now: Instant, cause: Fault) -> Phase {
        if !self.settings.authorizes || self.logins >= MOST_LOGINS {
            return self.need_login(now, cause);
        }
        self.begin_outage(now);
        if self.was_ready {
            self.announce_outage(&cause);
        }
        self.logins += 1;
        self.actions.push_back(Action::Authorize(self.attempt, cause.clone()));
        Phase::LoggingIn { until: now + LOGIN, cause }
    }

    /// What the server wants could not be had.
    pub(super) fn deny(&mut self, now: Instant, cause: Fault) -> Phase {
        // Late news of it counts no more.
        self.attempt.0 += 1;
        match cause.recovery() {
            Recovery::Login => self.need_login(now, cause),
            Recovery::Retry { .. } | Recovery::GiveUp => {
                // Nothing was shown to the server: that is no login in vain.
                self.logins = self.logins.saturating_sub(1);
                self.settle(now, cause)
            }
        }
    }

    fn need_login(&mut self, now: Instant, cause: Fault) -> Phase {
        self.begin_outage(now);
        self.logins = 0;
        self.announce(Announcement::NeedsLogin(cause.clone()));
        Phase::NeedsLogin { not_before: now + HOPELESS, cause }
    }
}

/// How long a login may take: a person may have to look for their phone.
const LOGIN: Duration = Duration::from_secs(15 * 60);

/// How often in a row a server may want another login before it is taken to want none of ours.
const MOST_LOGINS: u32 = 3;
