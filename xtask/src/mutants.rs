//! `cargo xtask mutants`: checks whether the tests of the core notice when its code is changed.
//!
//! cargo-mutants changes one expression at a time in a copy of the tree and runs the tests of
//! `proto`. The unit tests come first, as they notice most mutants in a second; what they miss is
//! run again with all tests, including the simulation. A change that no test notices is a survivor,
//! and must be in the list of survivors with a reason.

mod outcomes;
mod survivors;

use std::{collections::BTreeSet, path::Path, process::Command};

use anyhow::{Context, Result, bail, ensure};

use crate::{glob, shell, tools, workspace::Workspace};
use outcomes::Outcomes;
use survivors::Survivors;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the files whose path below `crates/proto/src` contains one of these, such as `loss`.
    names: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let listed = Survivors::read(workspace)?;
    let all = files_in_scope(workspace)?;
    listed.check_files(&all)?;
    let chosen = choose(&all, &args.names)?;
    let program = tools::CARGO_MUTANTS.ensure(workspace)?;
    for file in &chosen {
        println!("{file}");
    }

    let mut outcomes = run_mutants(workspace, &program, &chosen, TestScope::Unit)?;
    println!("unit tests: {outcomes}");
    if !outcomes.survivors().is_empty() {
        outcomes = outcomes.with_rerun(run_mutants(workspace, &program, &chosen, TestScope::All)?);
    }
    println!("all tests: {outcomes}");
    let differences = listed.compare(&outcomes.survivors(), &chosen);
    for difference in &differences {
        println!("{difference}");
    }
    ensure!(
        differences.is_empty(),
        "{} of the survivors and of the entries in {} do not match",
        differences.len(),
        survivors::FILE
    );
    println!("every survivor is explained in {}", survivors::FILE);
    Ok(())
}

/// The tests that a run of cargo-mutants uses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TestScope {
    Unit,
    /// For the mutants that the first run did not catch.
    All,
}

/// Lists the files of the core that mutants are made of, relative to the checkout.
fn files_in_scope(workspace: &Workspace) -> Result<BTreeSet<String>> {
    let sources: Vec<_> = workspace.files(SOURCES)?.iter().map(|file| workspace.show(file)).collect();
    match_patterns(&sources, SCOPE_PATTERNS)
}

fn match_patterns(sources: &[String], patterns: &[&str]) -> Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    for pattern in patterns {
        let pattern = format!("{SOURCES}/{pattern}");
        let found: Vec<_> =
            sources.iter().filter(|file| glob::matches(&pattern, file) && !is_test(file)).collect();
        // A moved file must not leave the scope unnoticed.
        ensure!(!found.is_empty(), "no file matches {pattern}");
        files.extend(found.into_iter().cloned());
    }
    Ok(files)
}

fn is_test(file: &str) -> bool {
    file.ends_with("/tests.rs") || file.contains("/tests/")
}

fn choose(all: &BTreeSet<String>, names: &[String]) -> Result<BTreeSet<String>> {
    let below = |file: &str| file.strip_prefix(SOURCES).unwrap_or(file).to_owned();
    for name in names {
        if !all.iter().any(|file| below(file).contains(name.as_str())) {
            let all: Vec<_> = all.iter().map(String::as_str).collect();
            bail!("no file has `{name}` in its path; there are\n{}", all.join("\n"));
        }
    }
    let wanted =
        |file: &&String| names.is_empty() || names.iter().any(|name| below(file).contains(name.as_str()));
    Ok(all.iter().filter(wanted).cloned().collect())
}

fn run_mutants(
    workspace: &Workspace,
    program: &Path,
    files: &BTreeSet<String>,
    tests: TestScope,
) -> Result<Outcomes> {
    let output = workspace.root().join("target/mutants");
    std::fs::create_dir_all(&output).with_context(|| format!("creating {}", output.display()))?;
    let mut command = Command::new(program);
    command.args(["mutants", "--no-config", "--package", PACKAGE, "--jobs", "1", "--cap-lints", "true"]);
    command.args(["--timeout", TEST_TIMEOUT_SECONDS, "--output"]).arg(&output);
    for file in files {
        command.args(["--file", file]);
    }
    // All runs share the built dependencies. Without debug information a mutant links faster.
    command.env("CARGO_TARGET_DIR", output.join("build")).env("CARGO_PROFILE_DEV_DEBUG", "0");
    // Equal cases for each run, so that the list of survivors does not depend on luck.
    command.env("SIM_LIVES", SIMULATED_LIVES).env("PROPTEST_RNG_SEED", "1");
    match tests {
        TestScope::Unit => {
            command.arg("--cargo-arg=--lib");
        }
        TestScope::All => {
            command.arg("--iterate");
        }
    }
    if shell::is_installed("cargo-nextest") {
        // The run ends with the first test that notices the mutant.
        command.args(["--test-tool", "nextest", "--", "--max-fail", "1:immediate"]);
    }
    command.current_dir(workspace.root());
    eprintln!("$ {}", shell::describe(&command));
    let status = command.status().context("cargo-mutants could not be started")?;
    match status.code() {
        Some(ALL_CAUGHT | SOME_MISSED | SOME_TIMED_OUT) => {
            Outcomes::read(&output.join("mutants.out/outcomes.json"))
        }
        _ => bail!("cargo-mutants failed ({status}); its logs are in {}", workspace.show(&output)),
    }
}

const PACKAGE: &str = "bowline-proto";
const SOURCES: &str = "crates/proto/src";
/// Files in which a wrong decision loses a call or runs it twice. `*` spans folders too.
const SCOPE_PATTERNS: &[&str] = &[
    "client/calls.rs",
    "client/keepalive.rs",
    "client/loss.rs",
    "client/loss/*.rs",
    "client/retry.rs",
    "client/retry/*.rs",
    "client/session.rs",
    "client/session/*.rs",
    "fault.rs",
    "frame.rs",
    "frame/*.rs",
];
/// nextest kills a single test after two minutes; a mutant that makes all tests that slow is
/// noticed.
const TEST_TIMEOUT_SECONDS: &str = "300";

/// Number of simulated sessions per mutant, instead of the 10,000 of the tests: a wrong decision
/// shows within hundreds, and a mutant then costs seconds.
const SIMULATED_LIVES: &str = "500";

// Exit codes of cargo-mutants.
const ALL_CAUGHT: i32 = 0;
const SOME_MISSED: i32 = 2;
const SOME_TIMED_OUT: i32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| format!("{SOURCES}/{name}")).collect()
    }

    #[test]
    fn names_choose_files_by_a_part_of_their_path() {
        let all = files(&["calls.rs", "loss.rs", "loss/words.rs"]);
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(choose(&all, &[]).unwrap(), all);
        assert_eq!(choose(&all, &names(&["loss"])).unwrap(), files(&["loss.rs", "loss/words.rs"]));
        assert_eq!(choose(&all, &names(&["words", "calls"])).unwrap(), files(&["calls.rs", "loss/words.rs"]));
        // The folder that contains all files does not select any.
        choose(&all, &names(&["proto"])).unwrap_err();
        choose(&all, &names(&["loss", "none"])).unwrap_err();
    }

    #[test]
    fn pattern_without_a_file_is_refused() {
        let sources: Vec<_> = files(&["calls.rs", "loss/words.rs", "loss/tests.rs"]).into_iter().collect();
        let found = match_patterns(&sources, &["calls.rs", "loss/*.rs"]).unwrap();
        assert_eq!(found, files(&["calls.rs", "loss/words.rs"]));
        match_patterns(&sources, &["calls.rs", "retry.rs"]).unwrap_err();
        // A file that has only tests does not count.
        match_patterns(&sources, &["loss/tests.rs"]).unwrap_err();
    }

    #[test]
    fn scope_has_the_core_and_no_tests() {
        let all = files_in_scope(&Workspace::find().unwrap()).unwrap();
        for name in
            ["client/calls.rs", "client/session.rs", "client/session/pacer.rs", "client/loss.rs", "fault.rs"]
        {
            assert!(all.contains(&format!("{SOURCES}/{name}")), "{name}: {all:?}");
        }
        assert!(all.iter().all(|file| !is_test(file)), "{all:?}");
    }
}
