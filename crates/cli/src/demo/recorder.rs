//! Records what the callers saw: how each call ended, and what happened to the connection
//! meanwhile.

use std::time::{Duration, Instant};

use bowline::{ConnectionEvent, ConnectionEventKind};
use parking_lot::Mutex;

use super::plan::Trouble;
use super::signature::SIGNATURES;
use super::tools::Tool;

/// Records the outcomes of all callers.
pub(crate) struct CallRecorder {
    started: Instant,
    tally: Mutex<Tally>,
}

/// The counts so far.
#[derive(Clone, Debug, Default)]
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
    pub(crate) latencies: Vec<Duration>,
    /// What happened to the connection, by cause.
    pub(crate) by_cause: [CauseStats; LossCause::COUNT],
    /// What the server did last.
    pub(super) last_trouble: Option<LossCause>,
    pub(super) outage_cause: Option<LossCause>,
}

/// Why the connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossCause {
    /// The server forgot the session, and reported that with this signature.
    Signature(usize),
    Restart,
    /// A connection was cut.
    Cut,
    /// A stream was cut.
    Stream,
    /// None of the planned failures.
    Other,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CauseStats {
    /// How often the server did it.
    pub(crate) times: u64,
    /// How often the client lost its session or connection by it.
    pub(crate) lost: u64,
    /// How often the client recovered.
    pub(crate) recovered: u64,
    pub(crate) longest_outage: Duration,
}

/// How many failures are recorded with their errors; all are counted.
const MAX_FAILURES: usize = 5;

impl CallRecorder {
    pub(crate) fn new(started: Instant) -> Self {
        Self { started, tally: Mutex::new(Tally::default()) }
    }

    /// Records the start of a call, and returns its ticket.
    pub(super) fn begin_call(&self) -> u64 {
        let mut tally = self.tally.lock();
        tally.calls += 1;
        tally.calls
    }

    pub(super) fn end_call(&self, ticket: u64, tool: Tool, time: Duration, outcome: Result<(), String>) {
        let mut tally = self.tally.lock();
        tally.latencies.push(time);
        match outcome {
            Ok(()) => {
                tally.answered.push(ticket);
                tally.answered_once += u64::from(!tool.may_repeat());
            }
            Err(why) => {
                tally.failed += 1;
                if tally.failures.len() < MAX_FAILURES {
                    let why = format!("{}: {why}", tool.name());
                    tally.failures.push((self.started.elapsed(), why));
                }
            }
        }
    }

    /// Records a failure that the server causes.
    pub(crate) fn record_trouble(&self, trouble: Trouble) {
        let mut tally = self.tally.lock();
        let cause = LossCause::from_trouble(trouble);
        tally.last_trouble = Some(cause);
        tally.by_cause[cause.index()].times += 1;
    }

    /// Records a connection event of the client. `signature` is the one in use.
    pub(crate) fn record_connection_event(&self, life: &ConnectionEvent, signature: usize) {
        self.tally.lock().apply_connection_event(life.kind, life.outage, signature);
    }

    /// Returns the counts so far.
    pub(crate) fn tally(&self) -> Tally {
        self.tally.lock().clone()
    }
}

impl Tally {
    fn apply_connection_event(
        &mut self,
        turn: ConnectionEventKind,
        outage: Option<Duration>,
        signature: usize,
    ) {
        match turn {
            ConnectionEventKind::SessionLost => self.record_loss(LossCause::Signature(signature)),
            ConnectionEventKind::Disconnected => self.record_loss(match self.last_trouble {
                Some(cause @ (LossCause::Restart | LossCause::Cut | LossCause::Stream)) => cause,
                _ => LossCause::Other,
            }),
            ConnectionEventKind::NeedsLogin | ConnectionEventKind::Failed => {
                self.record_loss(LossCause::Other);
            }
            ConnectionEventKind::Recovered => {
                let bout = &mut self.by_cause[self.outage_cause.take().unwrap_or(LossCause::Other).index()];
                bout.recovered += 1;
                bout.longest_outage = bout.longest_outage.max(outage.unwrap_or_default());
            }
            _ => {}
        }
    }

    fn record_loss(&mut self, cause: LossCause) {
        // One outage may be announced twice: the session is lost, and then the server is
        // unreachable too.
        if self.outage_cause.is_none() {
            self.outage_cause = Some(cause);
            self.by_cause[cause.index()].lost += 1;
        }
    }

    /// Returns the sum over all causes.
    pub(crate) fn total(&self) -> CauseStats {
        self.by_cause.iter().fold(CauseStats::default(), |total, bout| CauseStats {
            times: total.times + bout.times,
            lost: total.lost + bout.lost,
            recovered: total.recovered + bout.recovered,
            longest_outage: total.longest_outage.max(bout.longest_outage),
        })
    }
}

impl LossCause {
    /// How many causes there are.
    pub(crate) const COUNT: usize = SIGNATURES.len() + 4;

    /// Returns the cause that a planned failure has.
    fn from_trouble(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Expire(signature) => Self::Signature(signature),
            Trouble::Restart(_) => Self::Restart,
            Trouble::Cut(_) => Self::Cut,
            Trouble::CutStreams(_) => Self::Stream,
        }
    }

    /// Returns the index in a list of all causes.
    pub(crate) fn index(self) -> usize {
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
    fn outage_counts_for_its_first_cause() {
        let board = CallRecorder::new(Instant::now());
        let turn = |turn, outage| board.tally.lock().apply_connection_event(turn, outage, 2);
        board.record_trouble(Trouble::Expire(2));
        turn(ConnectionEventKind::SessionLost, None);
        // The new session could not be opened at once.
        turn(ConnectionEventKind::Disconnected, None);
        turn(ConnectionEventKind::Recovered, Some(Duration::from_millis(5)));
        board.record_trouble(Trouble::Restart(Duration::ZERO));
        turn(ConnectionEventKind::Disconnected, None);
        let tally = board.tally();
        let expired =
            CauseStats { times: 1, lost: 1, recovered: 1, longest_outage: Duration::from_millis(5) };
        assert_eq!(tally.by_cause[2], expired);
        assert_eq!(
            tally.by_cause[LossCause::Restart.index()],
            CauseStats { times: 1, lost: 1, ..CauseStats::default() }
        );
        assert_eq!(tally.total(), CauseStats { times: 2, lost: 2, ..expired });
    }

    #[test]
    fn a_loss_that_was_not_planned_is_told_apart() {
        let board = CallRecorder::new(Instant::now());
        board.record_trouble(Trouble::Expire(0));
        board.tally.lock().apply_connection_event(ConnectionEventKind::Disconnected, None, 0);
        assert_eq!(board.tally().by_cause[LossCause::Other.index()].lost, 1);
    }
}
