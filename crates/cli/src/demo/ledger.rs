//! Counts what the server ran, by the ticket in the arguments of each call, so that a call that ran
//! twice is noticed however it arrived.

use std::collections::HashMap;

use super::tools::Tool;

/// How often each call ran.
#[derive(Default)]
pub(crate) struct Ledger {
    runs: HashMap<u64, u32>,
    /// The counts so far.
    pub(crate) count: ExecutionCounts,
}

/// Counts of executed calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExecutionCounts {
    /// Calls that must not run twice, and ran.
    pub(crate) once: u64,
    /// How many of those ran twice.
    pub(crate) twice: u64,
    /// Calls that may be repeated, and ran.
    pub(crate) repeatable: u64,
    /// How often one of those ran again.
    pub(crate) repeated: u64,
}

impl Ledger {
    pub(super) fn record_run(&mut self, ticket: u64, tool: Tool) {
        let runs = self.runs.entry(ticket).or_default();
        *runs += 1;
        let count = &mut self.count;
        match (tool.may_repeat(), *runs) {
            (false, 1) => count.once += 1,
            (false, 2) => count.twice += 1,
            (false, _) => {}
            (true, 1) => count.repeatable += 1,
            (true, _) => count.repeated += 1,
        }
    }

    /// Returns how many of these calls were answered without having run.
    pub(crate) fn never_ran(&self, answered: &[u64]) -> u64 {
        let missing = answered.iter().filter(|ticket| !self.runs.contains_key(ticket));
        missing.count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_twice_is_seen() {
        let mut ledger = Ledger::default();
        for (ticket, tool) in
            [(1, Tool::Stow), (2, Tool::Tie), (3, Tool::Strength), (3, Tool::Strength), (4, Tool::Strength)]
        {
            ledger.record_run(ticket, tool);
        }
        assert_eq!(ledger.count, ExecutionCounts { once: 2, twice: 0, repeatable: 2, repeated: 1 });
        for _ in 0..2 {
            ledger.record_run(1, Tool::Stow);
        }
        // Three runs of one call count as one call that ran more than once.
        assert_eq!(ledger.count, ExecutionCounts { once: 2, twice: 1, repeatable: 2, repeated: 1 });
        assert_eq!(ledger.never_ran(&[1, 2, 3, 4]), 0);
        assert_eq!(ledger.never_ran(&[1, 9, 8]), 2);
    }
}
