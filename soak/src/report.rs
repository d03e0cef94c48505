//! The final report, and whether the soak has passed.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::fault_log::FaultKind;
use crate::ledger::{Outcomes, Rule, Tally, Violations};
use crate::memory::MemoryCheck;
use crate::messages::{Footprint, MemorySample};
use crate::world::WorldResult;

/// The results of a soak.
pub(crate) struct Report {
    seed: u64,
    run: Duration,
    worlds: Vec<WorldRow>,
    total: Tally,
    faults: BTreeMap<FaultKind, u64>,
    memory: Vec<MemoryCheck>,
    footprints: Vec<String>,
    violations: Violations,
}

/// Reads one number from the outcomes.
type Count = fn(&Outcomes) -> u64;

/// Recovery counts from the health of a world's clients.
#[derive(Clone, Copy, Default)]
pub(crate) struct Recoveries {
    pub(crate) recoveries: u64,
    pub(crate) sessions_lost: u64,
}

struct WorldRow {
    name: &'static str,
    tally: Tally,
    faults: u64,
    recoveries: Recoveries,
}

impl Report {
    pub(crate) fn new(seed: u64, run: Duration) -> Self {
        Self {
            seed,
            run,
            worlds: Vec::new(),
            total: Tally::default(),
            faults: BTreeMap::new(),
            memory: Vec::new(),
            footprints: Vec::new(),
            violations: Violations::default(),
        }
    }

    pub(crate) fn add_world(&mut self, world: WorldResult, recoveries: Recoveries) {
        let WorldResult { name, tally, faults, violations } = world;
        self.total.add(&tally);
        let counts = faults.counts();
        self.worlds.push(WorldRow { name, tally, faults: counts.values().sum(), recoveries });
        for (kind, count) in counts {
            *self.faults.entry(kind).or_default() += count;
        }
        self.violations.append(name, violations);
    }

    pub(crate) fn check_memory(&mut self, samples: &[MemorySample]) {
        self.memory = MemoryCheck::check_all(samples, self.run, &mut self.violations);
    }

    pub(crate) fn check_footprint(&mut self, before: Footprint, after: Footprint) {
        let mut compare = |what: &str, before: Option<usize>, after: Option<usize>, slack: usize| {
            let (Some(before), Some(after)) = (before, after) else {
                self.footprints.push(format!("{what:<12} not measured on this system"));
                return;
            };
            let line = format!("{what:<12} {before} before, {after} after");
            if after > before + slack {
                self.violations.add(Rule::NoLeak, format!("{line}, at most {slack} more allowed"));
            }
            self.footprints.push(line);
        };
        compare("files", before.files, after.files, FILES_SLACK);
        compare("processes", before.children, after.children, 0);
        compare("tasks", Some(before.tasks), Some(after.tasks), 0);
    }

    pub(crate) fn passed(&self) -> bool {
        self.violations.is_empty()
    }

    fn write_worlds(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<16}{:>8}{:>9}{:>8}{:>10}{:>11}{:>10}",
            "world", "calls", "failed", "faults", "sessions", "recovered", "slowest"
        )?;
        for WorldRow { name, tally, faults, recoveries } in &self.worlds {
            writeln!(
                f,
                "{name:<16}{:>8}{:>9}{faults:>8}{:>10}{:>11}{:>8.1} s",
                tally.calls(),
                tally.failures(),
                recoveries.sessions_lost,
                recoveries.recoveries,
                tally.slowest.as_secs_f64()
            )?;
        }
        Ok(())
    }

    fn write_outcomes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.run.as_secs_f64();
        let calls = self.total.calls();
        #[expect(clippy::cast_precision_loss, reason = "a rate to read")]
        let rate = calls as f64 / seconds;
        writeln!(f, "\ncalls        {calls} in {seconds:.0} s ({rate:.0} per second)")?;
        writeln!(f, "  {:<20}{:>12}{:>12}", "", "effects", "harmless")?;
        let rows: [(&str, Count); 6] = [
            ("succeeded", |outcomes| outcomes.succeeded),
            ("own limit", |outcomes| outcomes.own_limit),
            ("not_executed", |outcomes| outcomes.not_executed),
            ("unknown", |outcomes| outcomes.unknown),
            ("left by the caller", |outcomes| outcomes.left),
            ("hung or mixed up", |outcomes| outcomes.broken),
        ];
        for (name, count) in rows {
            let (effects, harmless) = (count(&self.total.effects), count(&self.total.harmless));
            writeln!(f, "  {name:<20}{effects:>12}{harmless:>12}")?;
        }
        writeln!(f, "failed       {}", self.total.failures())?;
        for ((kind, label), failures) in &self.total.failed {
            let kind: String = kind.chars().take(34).collect();
            let label = label.name();
            writeln!(f, "  {kind:<34}{:>7}  {label}, {} harmless", failures.all, failures.harmless)?;
        }
        Ok(())
    }

    fn write_violations(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (rule, count, examples) in self.violations.iter() {
            writeln!(f, "VIOLATION    {}: {count}", rule.name())?;
            for example in examples {
                writeln!(f, "  {example}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_worlds(f)?;
        self.write_outcomes(f)?;
        writeln!(f, "faults       {}", self.faults.values().sum::<u64>())?;
        for (kind, count) in &self.faults {
            writeln!(f, "  {:<34}{count:>7}", kind.name())?;
        }
        for check in &self.memory {
            writeln!(f, "{check}")?;
        }
        for line in &self.footprints {
            writeln!(f, "{line}")?;
        }
        self.write_violations(f)?;
        let verdict = if self.passed() { "passed" } else { "FAILED" };
        writeln!(f, "\n{verdict}, seed {}", self.seed)
    }
}

/// File descriptors that the system may open for itself in between.
const FILES_SLACK: usize = 4;
