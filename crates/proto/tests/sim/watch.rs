//! What must be true at every step, seen from outside: by the actions of the session alone.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bowline_proto::fault::Recovery;
use bowline_proto::session::{Action, Announcement, Attempt};

#[derive(Default)]
pub(crate) struct Watch {
    open: Option<Attempt>,
    newest: Attempt,
    /// When links were opened, of late.
    opens: VecDeque<Instant>,
    /// What the server asked for.
    not_before: Option<Instant>,
    /// How many sessions the server opened for each link.
    sessions: BTreeMap<Attempt, u32>,
    life: Life,
    /// Whether the open link was negotiated, so that its session can be forgotten.
    agreed: bool,
    was_ready: bool,
    /// Logins in a row after which calls still could not go.
    logins: u32,
    /// What the next action must be.
    owes_turn: bool,
}

/// Where calls can go, as it was announced.
#[derive(Default)]
enum Life {
    #[default]
    Never,
    Up,
    Down {
        since: Instant,
        /// Something was said of it.
        said: bool,
        /// It was said that the server is gone.
        gone: bool,
    },
}

impl Watch {
    /// Sees each action before it is performed.
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

    /// A login could not be had at the moment: it was not in vain.
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

    /// No act of a dead attempt.
    fn is_of_open_link(&self, attempt: Attempt) {
        assert_eq!(self.open, Some(attempt), "an act of a link that is not open");
    }

    /// The server opened a session for a link: one is enough, and a second is opened only if the reply to the first
    /// handshake was cut off.
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
            // Nothing can be lost before it was there.
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

    /// Before the first connection an outage begins with the first word of it.
    fn goes_down_unless_up(&mut self, now: Instant, announcement: &Announcement) {
        if matches!(announcement, Announcement::Connected | Announcement::Recovered { .. }) {
            return;
        }
        if let Life::Never | Life::Up = self.life {
            self.life = Life::Down { since: now, said: false, gone: false };
        }
    }
}

/// How many logins a server can have of us, before somebody is told that it wants none of them.
const MOST_LOGINS: u32 = 3;

const WINDOW: Duration = Duration::from_secs(10);

/// How many attempts a server can see in any ten seconds, whatever it does and however many wait for it.
///
/// - New sessions for forgotten ones: 30 at once, then one each 500 ms, and the one the bucket rounds up to.
///   51 in all.
/// - After failures, with somebody waiting: the first at once; then one each 50 ms for the first second of trouble
///   (20); then each a twentieth of the trouble later, so that it grows by a factor of 1.05, and ten seconds of it hold
///   ln(10) / ln(1.05) = 48 at most. A look at what seemed hopeless, one more. 70 in all. (Over HTTP each outage
///   begins anew, so that a server which is up for moments only could see one each 50 ms; no life here is that
///   short.)
/// - Each failed attempt may be two links (a process that died of the probe; Streamable HTTP, then HTTP+SSE), but
///   not where sessions are forgotten and renewed. So 70 more, or the 51 of above.
/// - Harmless requests are sent again and again, and each may find one more link lost: ten more, twice.
const MOST_OPENS: usize = 2 * 80;
