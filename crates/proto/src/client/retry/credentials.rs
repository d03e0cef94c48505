//! What follows a refusal for missing or old credentials.

use super::{FinalFailure, LinkFacts, Report, Retry, State, Step};
use crate::fault::{Execution, Fault};

impl Retry {
    /// Requests credentials after a refusal. Some servers answer 401 to a session that they lost:
    /// with credentials that were good a moment ago, one new session is tried before a person is
    /// asked.
    pub(super) fn request_login(&mut self, refused: Fault) -> Step {
        let LinkFacts { session, credentials, proven, challenged, can_authorize: authorizes, .. } = self.link;
        let for_session = session && credentials && proven && !challenged && !self.reconnected_for_login;
        let failed = FinalFailure::Fault(refused.clone());
        if authorizes && self.logins < MAX_LOGINS {
            self.logins += 1;
            self.state = State::ExpectLogin { failed, for_session };
            return Step::LogIn { refused, quietly: for_session || self.request.quiet };
        }
        if for_session {
            return self.reconnect_for_login(failed);
        }
        self.report = Some(Report::NeedsLogin(refused));
        self.finish(failed)
    }

    pub(super) fn reconnect_for_login(&mut self, failed: FinalFailure) -> Step {
        self.reconnected_for_login = true;
        self.lose_session(failed, Execution::NotExecuted)
    }
}

/// Maximum number of logins that one call requests (SC-04).
const MAX_LOGINS: u32 = 3;
