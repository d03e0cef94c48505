//! Owns the count of what the server ran: each call by the ticket in its arguments, so that a call that ran
//! twice is seen whatever way it came.

use std::collections::HashMap;

use super::knots::Tool;

/// What ran, and how often.
#[derive(Default)]
pub(crate) struct Ledger {
    runs: HashMap<u64, u32>,
    count: Executions,
}

/// The count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Executions {
    /// Calls that must not run twice, and ran.
    pub(crate) once: u64,
    /// Those of them that ran twice all the same.
    pub(crate) twice: u64,
    /// Calls that may run again, by the server's leave, and ran.
    pub(crate) repeatable: u64,
    /// How often one of those ran again.
    pub(crate) repeated: u64,
}

impl Ledger {
    /// A call runs now.
    pub(super) fn run(&mut self, ticket: u64, tool: Tool) {
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

    /// So far.
    pub(crate) fn count(&self) -> Executions {
        self.count
    }

    /// How many of these calls never ran, though they were answered.
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
            ledger.run(ticket, tool);
        }
        assert_eq!(ledger.count(), Executions { once: 2, twice: 0, repeatable: 2, repeated: 1 });
        for _ in 0..2 {
            ledger.run(1, Tool::Stow);
        }
        // Three runs of one call are one call that ran more than once.
        assert_eq!(ledger.count(), Executions { once: 2, twice: 1, repeatable: 2, repeated: 1 });
        assert_eq!(ledger.never_ran(&[1, 2, 3, 4]), 0);
        assert_eq!(ledger.never_ran(&[1, 9, 8]), 2);
    }
}
