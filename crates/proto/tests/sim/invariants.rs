//! [`InvariantChecker`]: checks the invariants of the session by its actions alone.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bowline_proto::client::session::{Action, Announcement, Attempt};
use bowline_proto::fault::Recovery;

#[derive(Default)]
pub(crate) struct InvariantChecker {
    open: Option<Attempt>,
    newest: Attempt,
    /// Times at which links were opened recently.
    recent_opens: VecDeque<Instant>,
    /// The earliest next attempt by the server's `Retry-After`.
    not_before: Option<Instant>,
    /// Number of sessions that the server opened for each link.
    sessions: BTreeMap<Attempt, u32>,
    announced: AnnouncedState,
    /// Whether the open link was negotiated, so that its session can be lost.
    agreed: bool,
    was_ready: bool,
    /// Number of logins in a row without a ready connection.
    logins: u32,
    /// Whether the next action must announce that the connection is ready.
    expects_ready_announcement: bool,
}

/// The state of the connection, as it was announced.
#[derive(Default)]
enum AnnouncedState {
    #[default]
    Never,
    Up,
    Down {
        since: Instant,
        /// Whether the outage was announced in any way.
        said: bool,
        /// Whether `Disconnected` was announced.
        gone: bool,
    },
}

impl InvariantChecker {
    /// Checks an action before it is performed.
    pub(crate) fn check_action(&mut self, now: Instant, action: &Action) {
        let turn =
            matches!(action, Action::Announce(Announcement::Connected | Announcement::Recovered { .. }));
        assert_eq!(std::mem::take(&mut self.expects_ready_announcement), turn, "out of turn: {action:?}");
        match action {
            Action::Open(attempt, _) => self.check_open(now, *attempt),
            Action::Send(attempt, _) => self.assert_open_link(*attempt),
            Action::Restore(attempt, _) => {
                self.assert_open_link(*attempt);
                self.agreed = true;
            }
            Action::Ready(attempt, _) => {
                self.assert_open_link(*attempt);
                assert!(!matches!(self.announced, AnnouncedState::Up), "ready twice");
                self.logins = 0;
                self.agreed = true;
                self.expects_ready_announcement = true;
            }
            Action::Close(attempt, fault) => {
                self.assert_open_link(*attempt);
                self.open = None;
                self.agreed = false;
                self.mark_down(now);
                if let Recovery::Retry { not_before, .. } = fault.recovery()
                    && !not_before.is_zero()
                {
                    self.not_before = Some(now + not_before);
                }
            }
            Action::Authorize(attempt, _) => {
                assert_eq!(self.open, None, "a login with a link open");
                assert!(*attempt > self.newest, "a login under the name of a link");
                self.newest = *attempt;
                self.logins += 1;
                assert!(self.logins <= MAX_LOGINS, "{} logins for nothing", self.logins);
            }
            Action::Record(_) => {}
            Action::Announce(announcement) => self.check_announcement(now, announcement),
        }
    }

    /// Takes back the count of a login that was unavailable, and so not in vain.
    pub(crate) fn forgive_login(&mut self) {
        self.logins = self.logins.saturating_sub(1);
    }

    fn check_open(&mut self, now: Instant, attempt: Attempt) {
        assert_eq!(self.open, None, "two links at once");
        assert!(attempt > self.newest, "an attempt was used twice");
        assert!(
            self.not_before.take().is_none_or(|soonest| now >= soonest),
            "sooner than the server asked for"
        );
        self.open = Some(attempt);
        self.newest = attempt;
        self.recent_opens.push_back(now);
        while self.recent_opens.front().is_some_and(|at| now.duration_since(*at) > OPENS_WINDOW) {
            self.recent_opens.pop_front();
        }
        assert!(
            self.recent_opens.len() <= MAX_OPENS,
            "{} attempts in {OPENS_WINDOW:?}",
            self.recent_opens.len()
        );
    }

    /// Checks that an action belongs to the open link.
    fn assert_open_link(&self, attempt: Attempt) {
        assert_eq!(self.open, Some(attempt), "an act of a link that is not open");
    }

    /// Records that the server opened a session for a link. A second one is allowed only because
    /// the reply to the first handshake may be cut off.
    pub(crate) fn record_session(&mut self, attempt: Attempt) {
        let sessions = self.sessions.entry(attempt).or_default();
        *sessions += 1;
        assert!(*sessions <= 2, "a link was initialized {sessions} times");
    }

    fn mark_down(&mut self, now: Instant) {
        if let AnnouncedState::Up = self.announced {
            self.announced = AnnouncedState::Down { since: now, said: false, gone: false };
        }
    }

    fn check_announcement(&mut self, now: Instant, announcement: &Announcement) {
        self.mark_down_on_announcement(now, announcement);
        match (announcement, &mut self.announced) {
            (Announcement::Connected, _) => {
                assert!(!self.was_ready, "connected for the first time, twice");
                self.was_ready = true;
                self.announced = AnnouncedState::Up;
            }
            (Announcement::Recovered { outage }, AnnouncedState::Down { since, said: true, .. }) => {
                assert!(self.was_ready, "recovered before it was ever there");
                assert_eq!(*outage, now - *since, "an outage of another length");
                self.announced = AnnouncedState::Up;
            }
            (Announcement::Disconnected(_), AnnouncedState::Down { said, gone, .. }) => {
                assert!(!*gone, "disconnected twice in one outage");
                (*said, *gone) = (true, true);
            }
            // A session can be lost only after it was negotiated.
            (Announcement::SessionLost(_), AnnouncedState::Down { said, .. }) if self.agreed => *said = true,
            (Announcement::NeedsLogin(_), AnnouncedState::Down { said, .. }) => {
                self.logins = 0;
                *said = true;
            }
            (Announcement::Failed(_), _) => {
                assert!(!self.was_ready, "gave up on a server that was there once");
            }
            (other, _) => panic!("out of turn: {other:?}"),
        }
    }

    /// Starts an outage with its first announcement, unless it has begun already.
    fn mark_down_on_announcement(&mut self, now: Instant, announcement: &Announcement) {
        if matches!(announcement, Announcement::Connected | Announcement::Recovered { .. }) {
            return;
        }
        if let AnnouncedState::Never | AnnouncedState::Up = self.announced {
            self.announced = AnnouncedState::Down { since: now, said: false, gone: false };
        }
    }
}

/// Maximum number of logins in a row before `NeedsLogin` is announced.
const MAX_LOGINS: u32 = 3;

const OPENS_WINDOW: Duration = Duration::from_secs(10);

/// Maximum number of attempts in any ten seconds, whatever the server does and however many callers
/// wait.
///
/// - Replacements of lost sessions: 30 at once, then one each 500 ms, and one for rounding. 51 in
///   all.
/// - After failures while a caller waits: the first at once; then one each 50 ms for the first
///   second (20); then each after a twentieth of the time since the first failure, which so grows
///   by a factor of 1.05, so ten seconds hold at most ln(10) / ln(1.05) = 48. One more after a
///   failure that only a person can fix. 70 in all. (Over HTTP each outage begins anew, so a server
///   that is up only for moments could see one each 50 ms; no run here has such short ones.)
/// - Each failed attempt may open two links (a process that exited on the probe; Streamable HTTP,
///   then HTTP+SSE), but not where lost sessions are replaced. So 70 more, or the 51 of above.
/// - Harmless requests are sent repeatedly, and each may find one more link lost: ten more, twice.
const MAX_OPENS: usize = 2 * 80;
