//! Calls in sequence with faults between them, and how many of them were right.

use std::time::Duration;

use crate::lab::{Lab, LabCall, LabFault, ServerName};

/// A client or host that makes one call after the other.
pub(crate) trait Caller {
    /// Calls a tool. The error is what the client said, in words.
    async fn call(&mut self, call: &LabCall) -> Result<String, String>;
}

/// The calls to make.
pub(crate) struct CallPlan {
    pub(crate) calls: usize,
    /// The servers that calls go to, in turn.
    pub(crate) servers: &'static [ServerName],
    /// The faults, each with the number of the call that it strikes before.
    pub(crate) faults: Vec<(usize, LabFault)>,
    /// The time between a fault and the next call.
    pub(crate) pause: Duration,
}

/// How many calls were right of those that were made.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) right: usize,
    pub(crate) made: usize,
    /// What came of the others.
    pub(crate) failures: Vec<String>,
}

impl CallPlan {
    pub(crate) fn new(calls: usize, servers: &'static [ServerName], faults: Vec<(usize, LabFault)>) -> Self {
        Self { calls, servers, faults, pause: Duration::ZERO }
    }

    /// Returns twenty calls to both servers, with each fault once.
    pub(crate) fn all_faults() -> Self {
        let faults =
            vec![(5, LabFault::ForgetSessions), (10, LabFault::KillServer), (15, LabFault::KillGateway)];
        Self::new(20, &[ServerName::Everything, ServerName::Knots], faults)
    }

    /// Makes the calls, up to the first that has no outcome in time.
    pub(crate) async fn run(&self, lab: &mut Lab, caller: &mut impl Caller) -> Tally {
        let mut tally = Tally::default();
        for number in 0..self.calls {
            for (_, fault) in self.faults.iter().filter(|(before, _)| *before == number) {
                lab.strike(*fault).await;
                tokio::time::sleep(self.pause).await;
            }
            tally.made += 1;
            let call = LabCall::new(self.servers[number % self.servers.len()], number);
            let Ok(outcome) = tokio::time::timeout(CALL_TIMEOUT, caller.call(&call)).await else {
                tally.failures.push(format!(
                    "call {number}: no outcome within {CALL_TIMEOUT:?}; the rest was not made"
                ));
                break;
            };
            match outcome {
                Ok(text) if text == call.answer => tally.right += 1,
                other => tally.failures.push(format!("call {number}: {other:?}, expected {:?}", call.answer)),
            }
        }
        tally
    }
}

impl Tally {
    /// Checks that every call was right.
    pub(crate) fn assert_all_right(&self) {
        assert_eq!(self.right, self.made, "\n{}", self.failures.join("\n"));
    }
}

/// Longer than a host takes to start on a loaded machine, shorter than the time that the test runner allows.
const CALL_TIMEOUT: Duration = Duration::from_secs(90);
