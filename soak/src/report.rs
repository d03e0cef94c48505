//! What is told at the end, and the verdict.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::book::Tally;
use crate::leaks::Footprint;
use crate::world::Ended;

/// Everything that came of a soak.
pub(crate) struct Report {
    seed: u64,
    lasted: Duration,
    worlds: Vec<Ended>,
    lines: Vec<String>,
    violations: Vec<String>,
}

impl Report {
    pub(crate) fn new(seed: u64, lasted: Duration) -> Self {
        Self { seed, lasted, worlds: Vec::new(), lines: Vec::new(), violations: Vec::new() }
    }

    pub(crate) fn heard(&mut self, violations: Vec<String>) {
        self.violations.extend(violations);
    }

    pub(crate) fn ended(&mut self, mut world: Ended) {
        self.violations.append(&mut world.violations);
        let Tally { harmless, harmless_failed, .. } = world.tally;
        if harmless == 0 {
            self.violations.push(format!("{}: no call was made", world.name));
        }
        // Two faults can strike one call, and a server that never answers ends one at its deadline. More than
        // this is more than the faults explain.
        if harmless_failed * 100 > harmless * HARMLESS_FAILURES_PERCENT {
            self.violations.push(format!(
                "{}: {harmless_failed} of {harmless} calls that may be repeated failed, more than {HARMLESS_FAILURES_PERCENT} %",
                world.name
            ));
        }
        self.worlds.push(world);
    }

    /// Memory after half the time, and at the end of the load.
    pub(crate) fn memory(&mut self, half: Option<u64>, full: Option<u64>) {
        let (Some(half), Some(full)) = (half, full) else {
            self.lines.push("memory       not measured on this system".to_owned());
            return;
        };
        let bound = half + half / 4 + MEMORY_SLACK;
        let [half_mb, full_mb, bound_mb] = [half, full, bound].map(|bytes| bytes / 1_000_000);
        self.lines.push(format!(
            "memory       {half_mb} MB after half, {full_mb} MB at the end, bound {bound_mb} MB"
        ));
        if full > bound {
            self.violations.push(format!("memory grew from {half_mb} to {full_mb} MB in the second half"));
        }
    }

    pub(crate) fn left_behind(&mut self, before: Footprint, after: Footprint) {
        let mut compare = |what: &str, before: Option<usize>, after: Option<usize>, slack: usize| {
            let (Some(before), Some(after)) = (before, after) else {
                self.lines.push(format!("{what:<12} not measured on this system"));
                return;
            };
            self.lines.push(format!("{what:<12} {before} before, {after} after"));
            if after > before + slack {
                self.violations
                    .push(format!("{what}: {before} before, {after} after, at most {slack} more allowed"));
            }
        };
        compare("files", before.files, after.files, FILES_SLACK);
        compare("processes", before.children, after.children, 0);
        compare("tasks", Some(before.tasks), Some(after.tasks), 0);
    }

    pub(crate) fn passed(&self) -> bool {
        self.violations.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut total = Tally::default();
        let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
        writeln!(
            f,
            "{:<16}{:>8}{:>9}{:>8}{:>10}{:>11}{:>10}",
            "world", "calls", "failed", "faults", "sessions", "recovered", "slowest"
        )?;
        for world in &self.worlds {
            let Tally { calls, succeeded, slowest, .. } = world.tally;
            let injected: u64 = world.faults.values().sum();
            writeln!(
                f,
                "{:<16}{calls:>8}{:>9}{injected:>8}{:>10}{:>11}{:>8.1} s",
                world.name,
                calls - succeeded,
                world.sessions_lost,
                world.recoveries,
                slowest.as_secs_f64()
            )?;
            total.add(&world.tally);
            for (kind, count) in &world.faults {
                *faults.entry(kind).or_default() += count;
            }
        }
        let seconds = self.lasted.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate to read")]
        let rate = total.calls as f64 / seconds;
        let recovered: u64 = self.worlds.iter().map(|world| world.recoveries).sum();
        writeln!(
            f,
            "\ncalls        {} in {seconds:.0} s ({rate:.0} per second), {} more left by their callers",
            total.calls, total.left
        )?;
        writeln!(f, "succeeded    {}", total.succeeded)?;
        writeln!(f, "faults       {}", faults.values().sum::<u64>())?;
        for (kind, count) in &faults {
            writeln!(f, "  {kind:<34}{count:>7}")?;
        }
        writeln!(f, "recovered    {recovered} times")?;
        writeln!(
            f,
            "failed       {}, of them {} that may be repeated",
            total.calls - total.succeeded,
            total.harmless_failed
        )?;
        for ((cause, execution), failed) in &total.failed {
            let cause: String = cause.chars().take(34).collect();
            write!(f, "  {cause:<34}{:>7}  {execution}", failed.all)?;
            match failed.harmless {
                0 => writeln!(f)?,
                some => writeln!(f, ", {some} that may be repeated")?,
            }
        }
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        for violation in self.violations.iter().take(SHOWN) {
            writeln!(f, "VIOLATION    {violation}")?;
        }
        if self.violations.len() > SHOWN {
            writeln!(f, "             and {} more", self.violations.len() - SHOWN)?;
        }
        let verdict = if self.passed() { "passed" } else { "FAILED" };
        writeln!(f, "\n{verdict}, seed {}", self.seed)
    }
}

/// Growth that says nothing: buffers at their largest, and a byte or two of books per call.
const MEMORY_SLACK: u64 = 48_000_000;
/// A descriptor the system opened for itself in between.
const FILES_SLACK: usize = 4;
const HARMLESS_FAILURES_PERCENT: u64 = 5;
const SHOWN: usize = 40;
