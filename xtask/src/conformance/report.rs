//! Reports the results for people and for machines.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::json;

use super::{plan::Run, scenario::RunResult, verdict::Verdict};

pub(super) struct Row {
    pub(super) run: Run,
    pub(super) verdict: Verdict,
    /// `None` if it was not run.
    pub(super) result: Option<RunResult>,
}

/// Prints the table, and how many of each verdict there are. Scenarios that were not run share a
/// line per reason.
pub(super) fn print(rows: &[Row]) {
    println!();
    println!(
        "suite           revision              scenario                                   verdict   ok/not    time"
    );
    for row in rows.iter().filter(|row| row.result.is_some()) {
        println!("{}", format_row(row));
    }
    let mut left_out: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for row in rows {
        if let Verdict::NotRun(why) = &row.verdict {
            *left_out.entry((row.run.suite, why)).or_default() += 1;
        }
    }
    for ((suite, why), count) in left_out {
        println!("{suite:<14}  {:<20}  {:<41}  not run   {why}", "", format!("{count} runs"));
    }
    println!();
    for word in ["passed", "FAILED", "STALE", "expected", "vacuous", "not run"] {
        let count = rows.iter().filter(|row| describe(&row.verdict).0 == word).count();
        if count > 0 {
            println!("{count:>4} {word}");
        }
    }
}

fn format_row(row: &Row) -> String {
    let Run { suite, spec, scenario } = &row.run;
    let (word, why) = describe(&row.verdict);
    let figures = row.result.as_ref().map(describe_counts).unwrap_or_default();
    let line = format!("{suite:<14}  {spec:<20}  {scenario:<41}  {word:<8}  {figures}  {why}");
    line.trim_end().to_owned()
}

/// Writes `report.json`; returns its path.
pub(super) fn write(rows: &[Row], folder: &Path) -> Result<PathBuf> {
    let rows: Vec<_> = rows
        .iter()
        .map(|Row { run, verdict, result }| {
            let (word, why) = describe(verdict);
            json!({
                "suite": run.suite,
                "spec": run.spec,
                "scenario": run.scenario,
                "verdict": word.to_lowercase(),
                "reason": why,
                "as_expected": !verdict.is_error(),
                "result": result,
            })
        })
        .collect();
    fs::create_dir_all(folder)?;
    let file = folder.join("report.json");
    fs::write(&file, serde_json::to_string_pretty(&rows)?)
        .with_context(|| format!("writing {}", file.display()))?;
    Ok(file)
}

/// Returns a word for the table, and the reason or error.
fn describe(verdict: &Verdict) -> (&'static str, &str) {
    match verdict {
        Verdict::Passed => ("passed", ""),
        Verdict::Failed(why) => ("FAILED", why),
        Verdict::ExpectedFailure(why) => ("expected", why),
        Verdict::NotRun(why) => ("not run", why),
        Verdict::Vacuous(why) => ("vacuous", why),
        Verdict::Stale(why) => ("STALE", why),
    }
}

fn describe_counts(result: &RunResult) -> String {
    let (ok, not_ok) = match &result.checks {
        Some(checks) => (checks.success, checks.failure + checks.warning),
        None => (0, 0),
    };
    format!("{ok:>2}/{not_ok:<2}  {:>5.1} s", result.seconds)
}
