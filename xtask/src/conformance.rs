//! `cargo xtask conformance`: runs our client against the official suite, judged strictly.
//!
//! Every scenario runs by itself, because only then does the suite count the client's exit code and
//! time limit. The suite decides what passes; this module decides what is expected, and that a pass
//! has proved something.

mod expected;
mod plan;
mod report;
mod scenario;
mod verdict;

use std::{sync::Mutex, thread};

use anyhow::{Result, bail};

use self::{expected::Expectations, plan::Run, report::Row, scenario::Harness, verdict::Verdict};
use crate::{glob, shell, tools::NodePeers, workspace::Workspace};

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Run only scenarios of this name; `*` matches anything. Runs them also where a failure is
    /// expected.
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Run scenarios that are expected to fail too, and complain if one passes.
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let expectations = Expectations::read(&workspace.root().join("conformance/expected-failures.toml"))?;
    let node = NodePeers::ensure(workspace)?;
    let whole_plan = plan::all_runs(&node)?;
    let unused = expectations.find_unused(&whole_plan);
    if !unused.is_empty() {
        bail!("entries of expected-failures.toml that match no scenario:\n{}", unused.join("\n"));
    }
    let pattern = args.scenario.as_deref().unwrap_or("*");
    let runs: Vec<Run> = whole_plan.into_iter().filter(|run| glob::matches(pattern, &run.scenario)).collect();
    if runs.is_empty() {
        bail!("no scenario of the suite matches");
    }

    let client = build_client(workspace)?;
    let output = workspace.root().join("target/conformance");
    let harness = Harness { node: &node, client: &client, root: workspace.root(), output: &output };
    let run_expected = args.all || args.scenario.is_some();
    let rows = run_all(&harness, &expectations, runs, run_expected)?;
    report::print(&rows);
    let file = report::write(&rows, &output)?;
    eprintln!("written to {}; the output of each run is in a folder beside it", workspace.show(&file));
    let bad = rows.iter().filter(|row| row.verdict.is_error()).count();
    if bad > 0 {
        bail!("{bad} of {} conformance runs are not as expected", rows.len());
    }
    Ok(())
}

/// Builds the client under test; returns the command that starts it.
fn build_client(workspace: &Workspace) -> Result<String> {
    let binary = shell::build_program(workspace, "conformance-client")?;
    // The suite splits the command at spaces, so a path below the root is given relative to it.
    let command = workspace.show(&binary);
    if command.contains(' ') {
        bail!("the suite cannot start `{command}`: its path holds a space");
    }
    Ok(command)
}

/// Runs the scenarios two at a time, then those that measure time one by one; rows are returned in
/// the order of the plan.
fn run_all(
    harness: &Harness<'_>,
    expectations: &Expectations,
    runs: Vec<Run>,
    run_expected: bool,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut shared = Vec::new();
    let mut alone = Vec::new();
    for (index, run) in runs.into_iter().enumerate() {
        let expectation = expectations.lookup(&run);
        if let Some(reason) = expectation.failure.filter(|_| !run_expected) {
            let verdict = Verdict::NotRun(reason.to_owned());
            rows.push((index, Row { run, verdict, result: None }));
        } else if run.measures_time() {
            alone.push((index, run));
        } else {
            shared.push((index, run));
        }
    }
    for (queue, workers) in [(shared, WORKERS), (alone, 1)] {
        let queue = Mutex::new(queue.into_iter());
        let next = || queue.lock().ok().and_then(|mut queue| queue.next());
        let work = || -> Result<Vec<(usize, Row)>> {
            let mut done = Vec::new();
            while let Some((index, run)) = next() {
                let result = harness.run(&run)?;
                let verdict = verdict::judge(&result, expectations.lookup(&run));
                let row = Row { run, verdict, result: Some(result) };
                eprintln!("  {} at {} ({})", row.run.scenario, row.run.spec, row.run.suite);
                done.push((index, row));
            }
            Ok(done)
        };
        let done = thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .map(|worker| worker.join().expect("a worker does not panic"))
                .collect::<Result<Vec<_>>>()
        })?;
        rows.extend(done.into_iter().flatten());
    }
    rows.sort_by_key(|(index, _)| *index);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// Number of concurrent scenarios. More would disturb each other on a small machine.
const WORKERS: usize = 2;
