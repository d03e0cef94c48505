//! Reads `conformance/expected-failures.toml`: what need not pass, and why.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::plan::Run;
use crate::glob;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expectations {
    #[serde(default)]
    expected: Vec<ExpectationRow>,
    #[serde(default)]
    vacuous: Vec<ExpectationRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectationRow {
    suite: String,
    spec: String,
    scenario: String,
    reason: String,
}

/// What the file says about one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Expectation<'a> {
    /// Why it may fail.
    pub(super) failure: Option<&'a str>,
    /// Why a pass of it proves nothing.
    pub(super) vacuous: Option<&'a str>,
}

impl Expectations {
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        Self::parse(&text).with_context(|| file.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let parsed: Self = toml::from_str(text)?;
        if let Some(entry) = parsed.entries().find(|entry| entry.reason.trim().is_empty()) {
            bail!("`{}` has no reason", entry.scenario);
        }
        Ok(parsed)
    }

    pub(super) fn lookup(&self, run: &Run) -> Expectation<'_> {
        Expectation { failure: find_reason(&self.expected, run), vacuous: find_reason(&self.vacuous, run) }
    }

    /// Returns the rows that match none of `runs`, for people to read.
    pub(super) fn find_unused(&self, runs: &[Run]) -> Vec<String> {
        let unused = self.entries().filter(|entry| !runs.iter().any(|run| entry.matches(run)));
        unused.map(|entry| format!("{} {} {}", entry.suite, entry.spec, entry.scenario)).collect()
    }

    fn entries(&self) -> impl Iterator<Item = &ExpectationRow> {
        self.expected.iter().chain(&self.vacuous)
    }
}

fn find_reason<'a>(entries: &'a [ExpectationRow], run: &Run) -> Option<&'a str> {
    entries.iter().find(|entry| entry.matches(run)).map(|entry| &*entry.reason)
}

impl ExpectationRow {
    fn matches(&self, run: &Run) -> bool {
        glob::matches(&self.suite, run.suite)
            && glob::matches(&self.spec, &run.spec)
            && glob::matches(&self.scenario, &run.scenario)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [[expected]]
        suite = "*"
        spec = "*"
        scenario = "auth/*"
        reason = "not built"
        [[expected]]
        suite = "0.1.16"
        spec = "default"
        scenario = "auth/dpop"
        reason = "never reached: the first entry counts"
        [[vacuous]]
        suite = "0.1.16"
        spec = "default"
        scenario = "auth/resource-mismatch"
        reason = "passes without a client"
    "#;

    fn run(spec: &str, scenario: &str) -> Run {
        Run { suite: "0.1.16", spec: spec.to_owned(), scenario: scenario.to_owned() }
    }

    #[test]
    fn the_first_entry_that_matches_gives_the_reason() {
        let file = Expectations::parse(FILE).unwrap();
        assert_eq!(file.lookup(&run("default", "auth/dpop")).failure, Some("not built"));
        assert_eq!(file.lookup(&run("default", "initialize")), Expectation::default());
        let both = file.lookup(&run("default", "auth/resource-mismatch"));
        assert_eq!(both.failure, Some("not built"));
        assert_eq!(both.vacuous, Some("passes without a client"));
        assert_eq!(file.lookup(&run("2026-07-28", "auth/resource-mismatch")).vacuous, None);
    }

    #[test]
    fn an_entry_for_nothing_is_reported() {
        let file = Expectations::parse(FILE).unwrap();
        let unused = file.find_unused(&[run("default", "auth/dpop")]);
        assert_eq!(unused, ["0.1.16 default auth/resource-mismatch"]);
    }

    #[test]
    fn an_entry_without_a_reason_is_refused() {
        let entry = "[[expected]]\nsuite='*'\nspec='*'\nscenario='x'\n";
        assert!(Expectations::parse(entry).is_err());
        assert!(Expectations::parse(&format!("{entry}reason=' '")).is_err());
        assert!(Expectations::parse(&format!("{entry}reason='r'\ncolor='red'")).is_err());
        assert!(Expectations::parse(&format!("{entry}reason='r'")).is_ok());
    }
}
