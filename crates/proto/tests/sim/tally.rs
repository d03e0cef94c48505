//! [`Tally`]: counts what happened, so that the simulation cannot become vacuous.

use std::collections::BTreeMap;

/// The count of each kind of event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub(crate) fn note(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub(crate) fn count(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (what, often) in &other.0 {
            *self.0.entry(what).or_default() += often;
        }
    }

    /// Checks that each fault and each recovery happened often enough for this number of runs. In
    /// fewer runs than a test makes by itself, rare events may not happen at all.
    pub(crate) fn assert_all_happened_often(&self, lives: u64) {
        for (what, least) in MIN_COUNTS {
            let often = self.count(what);
            let least = least * lives / (4 * MIN_COUNTS_RUNS);
            let rare = lives < crate::RUNS_PER_TEST && least < 50;
            assert!(rare || often >= least, "only {often} times, not {least}: {what}\n{self:#?}");
        }
    }
}

/// The number of runs that the counts of `MIN_COUNTS` are for.
const MIN_COUNTS_RUNS: u64 = 10_000;
/// About a third of the counts seen in twice as many runs; a quarter of it is required.
const MIN_COUNTS: &[(&str, u64)] = &[
    ("probe: of a suspected session", 6_000),
    ("probe: known already", 300),
    ("call: its link was left", 5_000),
    ("login: good, in a call", 300),
    ("login: without a person, in a call", 60),
    ("server: an error about what was requested", 1_900),
    ("server: initialized already", 1_000),
    ("server: the headers disagreed", 3_500),
    ("server: a decoy after the work", 3_000),
    ("server: too many requests", 3_000),
    ("the clock stepped", 1_000),
    ("asked whether the old session is there", 10_000),
    ("annotations: fetched again", 3_000),
    ("call: a later page", 7_000),
    ("call: an error of the server handed on", 7_000),
    ("call: answered", 100_000),
    ("call: failed, not run", 20_000),
    ("call: failed, perhaps run", 30_000),
    ("call: hopeless", 1_000),
    ("call: its caller left", 4_000),
    ("call: no answer in time", 4_000),
    ("call: no link in time", 10_000),
    ("call: saved by sending it again", 10_000),
    ("fault: 50x while down", 20_000),
    ("fault: 50x, not run", 3_000),
    ("fault: 50x, run", 3_000),
    ("fault: cut after the request was run", 2_000),
    ("fault: cut before the request was run", 2_000),
    ("fault: cut before the request was written", 3_000),
    ("fault: cut in the middle of the reply", 2_000),
    ("fault: died before the request was written", 900),
    ("fault: died of the probe", 300),
    ("fault: died, not run", 3_000),
    ("fault: died, run", 3_000),
    ("fault: refused", 30_000),
    ("fault: silence, not run", 1_000),
    ("fault: silence, run", 1_000),
    ("fault: the process did not start", 10_000),
    ("fault: the server crashed", 10_000),
    ("forgotten before the first call", 1_000),
    ("keepalive: alive", 50_000),
    ("keepalive: asked", 60_000),
    ("keepalive: dead", 5_000),
    ("keepalive: not while calls are open", 700),
    ("ready: event stream", 4_000),
    ("ready: http", 10_000),
    ("ready: legacy", 20_000),
    ("ready: modern", 5_000),
    ("ready: pipe", 7_000),
    ("ready: the old session was still there", 1_000),
    ("renewal: not at once", 60),
    ("renewal: pointless", 1_000),
    ("said: connected", 6_000),
    ("said: disconnected", 10_000),
    ("said: failed", 170),
    ("said: needs login", 200),
    ("said: recovered", 20_000),
    ("said: session lost", 10_000),
    ("sent again", 20_000),
    ("server: a decoy", 4_000),
    ("server: a ping on a session that was not known", 300),
    ("fault: no older transport either", 300),
    ("fault: not found where it was", 3_000),
    ("server: a session was not known", 50_000),
    ("told: by a dead link", 100_000),
    ("told: forgotten, by one more", 40_000),
    ("told: forgotten, proven", 7_000),
    ("told: forgotten, unproven", 3_000),
    ("told: lost", 30_000),
];
