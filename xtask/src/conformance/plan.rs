//! Plans which scenarios run, against which version of the suite, at which revision.
//!
//! The suite itself lists its scenarios, so a new version of it cannot hide one from us.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{
    shell,
    tools::{CONFORMANCE_SUITES, NodePeers},
};

/// One scenario at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) suite: &'static str,
    /// A revision; or [`DEFAULT_SPEC`] or [`EXTENSION_SPEC`], for which the suite chooses the
    /// revision; or [`EXTENSION_MODERN_SPEC`].
    pub(super) spec: String,
    pub(super) scenario: String,
}

impl Run {
    /// Whether other load on the machine could change its verdict.
    pub(super) fn measures_time(&self) -> bool {
        self.scenario == "sse-retry"
    }

    /// Returns the value for `--spec-version`, if there is a choice.
    pub(super) fn revision(&self) -> Option<&str> {
        match self.spec.as_str() {
            DEFAULT_SPEC | EXTENSION_SPEC => None,
            EXTENSION_MODERN_SPEC => Some(MODERN_REVISION),
            revision => Some(revision),
        }
    }

    /// Whether the suite would skip it at this revision, and has to be forced.
    pub(super) fn is_forced(&self) -> bool {
        self.spec == EXTENSION_MODERN_SPEC
    }
}

/// Returns every client scenario of every suite, at every revision it applies to.
pub(super) fn all_runs(node: &NodePeers) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for suite in CONFORMANCE_SUITES {
        let mut list = Command::new(&node.node);
        list.arg(node.conformance(suite)).args(["list", "--client"]);
        let found = parse_list(suite, &shell::read(&mut list)?)
            .with_context(|| format!("the list of suite {suite}"))?;
        runs.extend(found);
    }
    Ok(runs)
}

/// Reads lines like `  - tools_call [2025-06-18,2025-11-25]`.
fn parse_list(suite: &'static str, list: &str) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for line in list.lines() {
        let Some(entry) = line.trim().strip_prefix("- ") else {
            continue;
        };
        let (scenario, rest) = entry.split_once(" [").with_context(|| format!("no revisions in `{line}`"))?;
        let specs = rest.split(']').next().unwrap_or_default();
        let run = |spec: &str| Run { suite, spec: spec.to_owned(), scenario: scenario.to_owned() };
        if suite == SINGLE_REVISION_SUITE {
            runs.push(run(DEFAULT_SPEC));
        } else {
            runs.extend(specs.split(',').map(run));
            // An extension belongs to no revision. By default the suite runs it in the legacy era
            // only.
            runs.extend((specs == EXTENSION_SPEC).then(|| run(EXTENSION_MODERN_SPEC)));
        }
    }
    if runs.is_empty() {
        bail!("it names no scenario");
    }
    Ok(runs)
}

/// The suite whose mock servers speak a single revision, whatever is asked for.
const SINGLE_REVISION_SUITE: &str = "0.1.16";

const DEFAULT_SPEC: &str = "default";

/// How the suite marks scenarios that belong to no revision.
const EXTENSION_SPEC: &str = "extension";

/// The scenarios of extensions in the modern era.
const EXTENSION_MODERN_SPEC: &str = "extension@2026-07-28";

const MODERN_REVISION: &str = "2026-07-28";

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "Client scenarios (test against a client):\n  \
        - tools_call [2025-06-18,2026-07-28]\n  - auth/dpop [extension]\n";

    fn run(suite: &'static str, spec: &str, scenario: &str) -> Run {
        Run { suite, spec: spec.to_owned(), scenario: scenario.to_owned() }
    }

    #[test]
    fn each_revision_of_a_scenario_is_a_run() {
        let suite = "0.2.0-alpha.12";
        let runs = parse_list(suite, LIST).unwrap();
        let want = [
            run(suite, "2025-06-18", "tools_call"),
            run(suite, "2026-07-28", "tools_call"),
            run(suite, "extension", "auth/dpop"),
            run(suite, "extension@2026-07-28", "auth/dpop"),
        ];
        assert_eq!(runs, want);
        assert_eq!(runs[0].revision(), Some("2025-06-18"));
        assert_eq!(runs[2].revision(), None);
        assert_eq!(runs[3].revision(), Some("2026-07-28"));
        assert!(runs[3].is_forced() && !runs[0].is_forced());
    }

    #[test]
    fn the_suite_with_one_wire_runs_each_scenario_once() {
        let runs = parse_list(SINGLE_REVISION_SUITE, LIST).unwrap();
        assert_eq!(
            runs,
            [
                run(SINGLE_REVISION_SUITE, "default", "tools_call"),
                run(SINGLE_REVISION_SUITE, "default", "auth/dpop")
            ]
        );
        assert_eq!(runs[0].revision(), None);
    }

    #[test]
    fn a_list_that_cannot_be_read_is_an_error() {
        parse_list(SINGLE_REVISION_SUITE, "Client scenarios:\n").unwrap_err();
        parse_list(SINGLE_REVISION_SUITE, "  - tools_call\n").unwrap_err();
    }
}
