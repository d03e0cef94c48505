//! Records what the callers saw: how each call ended, and what happened to the connection
//! meanwhile.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bowline::{ConnectionEvent, ConnectionEventKind};

use super::knots::Tool;
use super::plan::Trouble;
use super::signature::SIGNATURES;

/// Records the outcomes of all callers.
pub(crate) struct Board {
    started: Instant,
    tally: Mutex<Tally>,
}

/// The counts so far.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Calls that were begun.
    pub(crate) calls: u64,
    /// Tickets of the calls that were answered.
    pub(crate) answered: Vec<u64>,
    /// How many of those must not run twice.
    pub(crate) answered_once: u64,
    /// How many calls failed.
    pub(crate) failed: u64,
    /// Time and error of the first failures.
    pub(crate) failures: Vec<(Duration, String)>,
    /// How long each call took.
    pub(crate) took: Vec<Duration>,
    /// What happened to the connection, by cause.
    pub(crate) bouts: [Bout; Cause::COUNT],
    /// What the server did last.
    pub(super) now: Option<Cause>,
    /// Cause of the current outage.
    pub(super) outage: Option<Cause>,
}

/// Why the connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The server forgot the session, and reported that with this signature.
    Signature(usize),
    /// The server restarted.
    Restart,
    /// A connection was cut.
    Cut,
    /// A stream was cut.
    Stream,
    /// None of the planned failures.
    Other,
}

/// Counts for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bout {
    /// How often the server did it.
    pub(crate) times: u64,
    /// How often the client lost its session or connection by it.
    pub(crate) lost: u64,
    /// How often the client recovered.
    pub(crate) recovered: u64,
    /// Longest outage.
    pub(crate) longest: Duration,
}

/// How many failures are recorded with their errors; all are counted.
const FAILURES_KEPT: usize = 5;

impl Board {
    /// Creates a recorder without calls.
    pub(crate) fn new(started: Instant) -> Self {
        Self { started, tally: Mutex::new(Tally::default()) }
    }

    /// Records the start of a call, and returns its ticket.
    pub(super) fn begin(&self) -> u64 {
        let mut tally = self.lock();
        tally.calls += 1;
        tally.calls
    }

    /// Records the end of a call.
    pub(super) fn end(&self, ticket: u64, tool: Tool, time: Duration, outcome: Result<(), String>) {
        let mut tally = self.lock();
        tally.took.push(time);
        match outcome {
            Ok(()) => {
                tally.answered.push(ticket);
                tally.answered_once += u64::from(!tool.may_repeat());
            }
            Err(why) => {
                tally.failed += 1;
                if tally.failures.len() < FAILURES_KEPT {
                    let why = format!("{}: {why}", tool.name());
                    tally.failures.push((self.started.elapsed(), why));
                }
            }
        }
    }

    /// Records a failure that the server causes.
    pub(crate) fn trouble(&self, trouble: Trouble) {
        let mut tally = self.lock();
        let cause = Cause::of(trouble);
        tally.now = Some(cause);
        tally.bouts[cause.at()].times += 1;
    }

    /// Records a connection event of the client. `signature` is the one in use.
    pub(crate) fn life(&self, life: &ConnectionEvent, signature: usize) {
        self.lock().turn(life.kind, life.outage, signature);
    }

    /// Returns the counts so far.
    pub(crate) fn tally(&self) -> Tally {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    fn turn(&mut self, turn: ConnectionEventKind, outage: Option<Duration>, signature: usize) {
        match turn {
            ConnectionEventKind::SessionLost => self.lose(Cause::Signature(signature)),
            ConnectionEventKind::Disconnected => self.lose(match self.now {
                Some(cause @ (Cause::Restart | Cause::Cut | Cause::Stream)) => cause,
                _ => Cause::Other,
            }),
            ConnectionEventKind::NeedsLogin | ConnectionEventKind::Failed => self.lose(Cause::Other),
            ConnectionEventKind::Recovered => {
                let bout = &mut self.bouts[self.outage.take().unwrap_or(Cause::Other).at()];
                bout.recovered += 1;
                bout.longest = bout.longest.max(outage.unwrap_or_default());
            }
            _ => {}
        }
    }

    fn lose(&mut self, cause: Cause) {
        // One outage may be announced twice: the session is lost, and then the server is
        // unreachable too.
        if self.outage.is_none() {
            self.outage = Some(cause);
            self.bouts[cause.at()].lost += 1;
        }
    }

    /// Returns the sum over all causes.
    pub(crate) fn total(&self) -> Bout {
        self.bouts.iter().fold(Bout::default(), |total, bout| Bout {
            times: total.times + bout.times,
            lost: total.lost + bout.lost,
            recovered: total.recovered + bout.recovered,
            longest: total.longest.max(bout.longest),
        })
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            calls: 0,
            answered: Vec::new(),
            answered_once: 0,
            failed: 0,
            failures: Vec::new(),
            took: Vec::new(),
            bouts: [Bout::default(); Cause::COUNT],
            now: None,
            outage: None,
        }
    }
}

impl Cause {
    /// How many causes there are.
    pub(crate) const COUNT: usize = SIGNATURES.len() + 4;

    /// Returns the cause that a planned failure has.
    fn of(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Expire(signature) => Self::Signature(signature),
            Trouble::Restart(_) => Self::Restart,
            Trouble::Cut(_) => Self::Cut,
            Trouble::CutStreams(_) => Self::Stream,
        }
    }

    /// Returns the index in a list of all causes.
    pub(crate) fn at(self) -> usize {
        match self {
            Self::Signature(signature) => signature,
            Self::Restart => SIGNATURES.len(),
            Self::Cut => SIGNATURES.len() + 1,
            Self::Stream => SIGNATURES.len() + 2,
            Self::Other => SIGNATURES.len() + 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_of_what_began_it() {
        let board = Board::new(Instant::now());
        let turn = |turn, outage| board.lock().turn(turn, outage, 2);
        board.trouble(Trouble::Expire(2));
        turn(ConnectionEventKind::SessionLost, None);
        // The new session could not be opened at once.
        turn(ConnectionEventKind::Disconnected, None);
        turn(ConnectionEventKind::Recovered, Some(Duration::from_millis(5)));
        board.trouble(Trouble::Restart(Duration::ZERO));
        turn(ConnectionEventKind::Disconnected, None);
        let tally = board.tally();
        let expired = Bout { times: 1, lost: 1, recovered: 1, longest: Duration::from_millis(5) };
        assert_eq!(tally.bouts[2], expired);
        assert_eq!(tally.bouts[Cause::Restart.at()], Bout { times: 1, lost: 1, ..Bout::default() });
        assert_eq!(tally.total(), Bout { times: 2, lost: 2, ..expired });
    }

    #[test]
    fn a_loss_that_was_not_planned_is_told_apart() {
        let board = Board::new(Instant::now());
        board.trouble(Trouble::Expire(0));
        board.lock().turn(ConnectionEventKind::Disconnected, None, 0);
        assert_eq!(board.tally().bouts[Cause::Other.at()].lost, 1);
    }
}
