//! [`InvariantChecker`]: checks the invariants of the session by its actions alone.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bowline_proto::fault::Recovery;
use bowline_proto::session::{Action, Announcement, Attempt};

#[derive(Default)]
pub(crate) struct Watch {
    open: Option<Attempt>,
    newest: Attempt,
    /// Times at which links were opened recently.
    opens: VecDeque<Instant>,
    /// The earliest next attempt by the server's `Retry-After`.
    not_before: Option<Instant>,
    /// Number of sessions that the server opened for each link.
    sessions: BTreeMap<Attempt, u32>,
    life: Life,
    /// Whether the open link was negotiated, so that its session can be lost.
    agreed: bool,
    was_ready: bool,
    /// Number of logins in a row without a ready connection.
    logins: u32,
    /// Whether the next action must announce that the connection is ready.
    owes_turn: bool,
}

/// The state of the connection, as it was announced.
#[derive(Default)]
enum Life {
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

impl Watch {
    /// Checks an action before it is performed.
    pub(crate) fn acts(&mut self, now: Instant, action: &Action) {
        let turn =
            matches!(action, Action::Announce(Announcement::Connected | Announcement::Recovered { .. }));
        assert_eq!(std::mem::take(&mut self.owes_turn), turn, "out of turn: {action:?}");
        match action {
            Action::Open(attempt, _) => self.opens(now, *attempt),
            Action::Send(attempt, _) => self.is_of_open_link(*attempt),
            Action::Restore(attempt, _) => {
                self.is_of_open_link(*attempt);
                self.agreed = true;
            }
            Action::Ready(attempt, _) => {
                self.is_of_open_link(*attempt);
                assert!(!matches!(self.life, Life::Up), "ready twice");
                self.logins = 0;
                self.agreed = true;
                self.owes_turn = true;
            }
            Action::Close(attempt, fault) => {
                self.is_of_open_link(*attempt);
                self.open = None;
                self.agreed = false;
                self.goes_down(now);
                if let Recovery::Retry { not_before } = fault.recovery()
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
                assert!(self.logins <= MOST_LOGINS, "{} logins for nothing", self.logins);
            }
            Action::Record(_) => {}
            Action::Announce(announcement) => self.hears(now, announcement),
        }
    }

    /// Takes back the count of a login that was unavailable, and so not in vain.
    pub(crate) fn login_spared(&mut self) {
        self.logins = self.logins.saturating_sub(1);
    }

    fn opens(&mut self, now: Instant, attempt: Attempt) {
        assert_eq!(self.open, None, "two links at once");
        assert!(attempt > self.newest, "an attempt was used twice");
        assert!(
            self.not_before.take().is_none_or(|soonest| now >= soonest),
            "sooner than the server asked for"
        );
        self.open = Some(attempt);
        self.newest = attempt;
        self.opens.push_back(now);
        while self.opens.front().is_some_and(|at| now.duration_since(*at) > WINDOW) {
            self.opens.pop_front();
        }
        assert!(self.opens.len() <= MOST_OPENS, "{} attempts in {WINDOW:?}", self.opens.len());
    }

    /// Checks that an action belongs to the open link.
    fn is_of_open_link(&self, attempt: Attempt) {
        assert_eq!(self.open, Some(attempt), "an act of a link that is not open");
    }

    /// Records that the server opened a session for a link. A second one is allowed only because
    /// the reply to the first handshake may be cut off.
    pub(crate) fn session_opened(&mut self, attempt: Attempt) {
        let sessions = self.sessions.entry(attempt).or_default();
        *sessions += 1;
        assert!(*sessions <= 2, "a link was initialized {sessions} times");
    }

    fn goes_down(&mut self, now: Instant) {
        if let Life::Up = self.life {
            self.life = Life::Down { since: now, said: false, gone: false };
        }
    }

    fn hears(&mut self, now: Instant, announcement: &Announcement) {
        self.goes_down_unless_up(now, announcement);
        match (announcement, &mut self.life) {
            (Announcement::Connected, _) => {
                assert!(!self.was_ready, "connected for the first time, twice");
                self.was_ready = true;
                self.life = Life::Up;
            }
            (Announcement::Recovered { outage }, Life::Down { since, said: true, .. }) => {
                assert!(self.was_ready, "recovered before it was ever there");
                assert_eq!(*outage, now - *since, "an outage of another length");
                self.life = Life::Up;
            }
            (Announcement::Disconnected(_), Life::Down { said, gone, .. }) => {
                assert!(!*gone, "disconnected twice in one outage");
                (*said, *gone) = (true, true);
            }
            // A session can be lost only after it was negotiated.
            (Announcement::SessionLost(_), Life::Down { said, .. }) if self.agreed => *said = true,
            (Announcement::NeedsLogin(_), Life::Down { said, .. }) => {
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
    fn goes_down_unless_up(&mut self, now: Instant, announcement: &Announcement) {
        if matches!(announcement, Announcement::Connected | Announcement::Recovered { .. }) {
            return;
        }
        if let Life::Never | Life::Up = self.life {
            self.life = Life::Down { since: now, said: false, gone: false };
        }
    }
}

/// Maximum number of logins in a row before `NeedsLogin` is announced.
const MOST_LOGINS: u32 = 3;

const WINDOW: Duration = Duration::from_secs(10);

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
const MOST_OPENS: usize = 2 * 80;
