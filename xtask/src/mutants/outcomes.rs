//! Reads what cargo-mutants writes about each mutant.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::survivors::Mutant;

/// All outcomes of one run.
#[derive(Debug, Deserialize)]
pub(super) struct Outcomes {
    outcomes: Vec<Outcome>,
}

#[derive(Debug, Deserialize)]
struct Outcome {
    scenario: Scenario,
    summary: Summary,
    #[serde(default)]
    phase_results: Vec<Phase>,
}

#[derive(Debug, Deserialize)]
enum Scenario {
    Baseline,
    Mutant(MutantEntry),
}

#[derive(Debug, Deserialize)]
struct MutantEntry {
    /// `file:line:column: description`.
    name: String,
    file: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Summary {
    Success,
    CaughtMutant,
    MissedMutant,
    Unviable,
    Timeout,
    Failure,
}

#[derive(Debug, Deserialize)]
struct Phase {
    /// In seconds.
    duration: f64,
}

impl Outcomes {
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("in {}", file.display()))
    }

    /// Merges the outcomes of two runs, where `next` had the mutants that this one did not catch.
    pub(super) fn with_rerun(mut self, next: Self) -> Self {
        self.outcomes.retain(|outcome| !matches!(outcome.summary, Summary::MissedMutant | Summary::Timeout));
        self.outcomes.extend(next.outcomes);
        self
    }

    /// Returns the mutants that no test noticed, and how often each description occurs.
    pub(super) fn survivors(&self) -> BTreeMap<Mutant, usize> {
        let mut survivors = BTreeMap::new();
        for outcome in &self.outcomes {
            if let (Scenario::Mutant(entry), Summary::MissedMutant) = (&outcome.scenario, outcome.summary) {
                *survivors.entry(entry.mutant()).or_default() += 1;
            }
        }
        survivors
    }

    fn count(&self, summary: Summary) -> usize {
        let mutants = self.outcomes.iter().filter(|it| matches!(it.scenario, Scenario::Mutant(_)));
        mutants.filter(|outcome| outcome.summary == summary).count()
    }
}

impl MutantEntry {
    /// Returns the mutant without its position, which moves with every edit of the file.
    fn mutant(&self) -> Mutant {
        let at = self.name.strip_prefix(&self.file).unwrap_or(&self.name);
        let description = at.split_once(": ").map_or(at, |(_, description)| description);
        Mutant { file: self.file.clone(), mutant: description.to_owned() }
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mutants = self.outcomes.iter().filter(|it| matches!(it.scenario, Scenario::Mutant(_)));
        let seconds: f64 =
            mutants.clone().flat_map(|outcome| &outcome.phase_results).map(|phase| phase.duration).sum();
        write!(
            f,
            "{} mutants in {:.0} minutes: {} noticed by a test, {} by the time limit, {} survived, {} did not compile",
            mutants.count(),
            seconds / 60.0,
            self.count(Summary::CaughtMutant),
            self.count(Summary::Timeout),
            self.count(Summary::MissedMutant),
            self.count(Summary::Unviable),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTCOMES_JSON: &str = r#"{
        "outcomes": [
            { "scenario": "Baseline", "summary": "Success", "phase_results": [{ "phase": "Build", "duration": 96.9 }] },
            { "scenario": { "Mutant": {
                "name": "crates/proto/src/a.rs:39:24: replace ^ with | in A::roll", "package": "bowline-proto",
                "file": "crates/proto/src/a.rs", "replacement": "|", "genre": "BinaryOperator" } },
              "summary": "MissedMutant", "phase_results": [{ "phase": "Build", "duration": 60.0 }] },
            { "scenario": { "Mutant": {
                "name": "crates/proto/src/a.rs:41:24: replace ^ with | in A::roll",
                "file": "crates/proto/src/a.rs" } },
              "summary": "MissedMutant", "phase_results": [{ "phase": "Test", "duration": 60.0 }] },
            { "scenario": { "Mutant": {
                "name": "crates/proto/src/b.rs:1:1: replace b -> bool with true", "file": "crates/proto/src/b.rs" } },
              "summary": "CaughtMutant", "phase_results": [] }
        ],
        "total_mutants": 3
    }"#;

    #[test]
    fn survivors_are_named_without_their_position() {
        let outcomes: Outcomes = serde_json::from_str(OUTCOMES_JSON).unwrap();
        let survivor = Mutant {
            file: "crates/proto/src/a.rs".to_owned(),
            mutant: "replace ^ with | in A::roll".to_owned(),
        };
        assert_eq!(outcomes.survivors(), BTreeMap::from([(survivor, 2)]));
        let summary =
            "3 mutants in 2 minutes: 1 noticed by a test, 0 by the time limit, 2 survived, 0 did not compile";
        assert_eq!(outcomes.to_string(), summary);
    }
    #[test]
    fn second_run_replaces_what_the_first_did_not_catch() {
        let first: Outcomes = serde_json::from_str(OUTCOMES_JSON).unwrap();
        let next = r#"{ "outcomes": [
            { "scenario": "Baseline", "summary": "Success", "phase_results": [] },
            { "scenario": { "Mutant": {
                "name": "crates/proto/src/a.rs:39:24: replace ^ with | in A::roll",
                "file": "crates/proto/src/a.rs" } },
              "summary": "CaughtMutant", "phase_results": [{ "phase": "Test", "duration": 60.0 }] },
            { "scenario": { "Mutant": {
                "name": "crates/proto/src/a.rs:41:24: replace ^ with | in A::roll",
                "file": "crates/proto/src/a.rs" } },
              "summary": "Timeout", "phase_results": [{ "phase": "Test", "duration": 300.0 }] }
        ] }"#;
        let both = first.with_rerun(serde_json::from_str(next).unwrap());
        assert_eq!(both.survivors(), BTreeMap::new());
        let summary =
            "3 mutants in 6 minutes: 2 noticed by a test, 1 by the time limit, 0 survived, 0 did not compile";
        assert_eq!(both.to_string(), summary);
    }
}
