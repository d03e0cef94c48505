//! Runs one scenario with the suite, and reads the results it leaves.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::plan::Run;
use crate::{
    shell::{self, CommandEnd},
    tools::NodePeers,
};

/// How the suite is started.
pub(super) struct Harness<'a> {
    pub(super) node: &'a NodePeers,
    /// The command of the client under test, without the server's URL.
    pub(super) client: &'a str,
    pub(super) root: &'a Path,
    /// The folder for results, with a subfolder for each run.
    pub(super) output: &'a Path,
}

/// The result of a run, before it is compared with the expectation.
#[derive(Debug, Serialize)]
pub(super) struct RunResult {
    /// The suite's own exit code; `None` if it was killed.
    pub(super) exit: Option<i32>,
    pub(super) out_of_time: bool,
    /// `None` if the suite wrote no checks.
    pub(super) checks: Option<Checks>,
    pub(super) seconds: f32,
}

/// Checks by status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Checks {
    pub(super) success: u32,
    pub(super) failure: u32,
    pub(super) warning: u32,
    pub(super) skipped: u32,
    pub(super) info: u32,
    /// Names of the checks that failed or warned, each once.
    pub(super) not_ok: Vec<String>,
}

impl Harness<'_> {
    pub(super) fn run(&self, run: &Run) -> Result<RunResult> {
        let folder = self.output.join(run.suite).join(&run.spec).join(run.scenario.replace('/', "-"));
        // Results of an earlier run must not be mistaken for ours.
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("clearing {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let log = File::create(folder.join("suite.log"))?;

        let mut command = Command::new(&self.node.node);
        command
            .arg(self.node.conformance(run.suite))
            .args(["client", "--command", self.client, "--scenario", &run.scenario])
            .args(["--timeout", &CLIENT_TIMEOUT.as_millis().to_string(), "--output-dir"])
            .arg(&folder)
            .stdout(log.try_clone()?)
            .stderr(log)
            .current_dir(self.root);
        if let Some(revision) = run.revision() {
            command.args(["--spec-version", revision]);
        }
        if run.is_forced() {
            command.arg("--force");
        }
        let started = Instant::now();
        let ended = shell::run_with_timeout(&mut command, SUITE_TIMEOUT)?;
        let seconds = started.elapsed().as_secs_f32();
        let (exit, out_of_time) = match ended {
            CommandEnd::Exited(status) => (status.code(), false),
            CommandEnd::Killed => (None, true),
        };
        let checks = match find_checks(&folder)? {
            Some(file) => {
                Some(count(&fs::read_to_string(&file)?).with_context(|| file.display().to_string())?)
            }
            None => None,
        };
        Ok(RunResult { exit, out_of_time, checks, seconds })
    }
}

/// Finds `checks.json`, which the suite puts into a folder named after the scenario and the time.
fn find_checks(folder: &Path) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if let Some(found) = find_checks(&path)? {
                return Ok(Some(found));
            }
        } else if path.ends_with("checks.json") {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn count(checks: &str) -> Result<Checks> {
    let checks: Vec<Check> = serde_json::from_str(checks)?;
    let mut counts = Checks::default();
    for check in checks {
        let bad = matches!(check.status, Status::Failure | Status::Warning);
        if bad && !counts.not_ok.contains(&check.id) {
            counts.not_ok.push(check.id);
        }
        let field = match check.status {
            Status::Success => &mut counts.success,
            Status::Failure => &mut counts.failure,
            Status::Warning => &mut counts.warning,
            Status::Skipped => &mut counts.skipped,
            Status::Info => &mut counts.info,
        };
        *field += 1;
    }
    Ok(counts)
}

#[derive(Deserialize)]
struct Check {
    #[serde(default)]
    id: String,
    status: Status,
}

/// The status of a check. An unknown one is an error: it must not pass for a success.
#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Status {
    Success,
    Failure,
    Warning,
    Skipped,
    Info,
}

/// Time limit that the suite gives the client. It kills only the client itself, then waits for its
/// pipes.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(50);

/// Time limit of the suite with everything it started.
const SUITE_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_counted_by_status_and_the_bad_ones_named() {
        let text = r#"[{"id":"a","status":"SUCCESS"},{"status":"SUCCESS"},{"id":"b","status":"WARNING"},
            {"status":"SKIPPED"},{"status":"INFO"},{"id":"c","status":"FAILURE"},{"id":"c","status":"FAILURE"}]"#;
        let not_ok = vec!["b".to_owned(), "c".to_owned()];
        let want = Checks { success: 2, failure: 2, warning: 1, skipped: 1, info: 1, not_ok };
        assert_eq!(count(text).unwrap(), want);
        assert!(count(r#"[{"status":"GREAT"}]"#).is_err());
    }

    #[test]
    fn checks_are_found_however_deep_the_scenario_name_puts_them() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(find_checks(dir.path()).unwrap(), None);
        let deep = dir.path().join("auth/dpop-2026");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("checks.json"), "[]").unwrap();
        assert_eq!(find_checks(dir.path()).unwrap(), Some(deep.join("checks.json")));
    }
}
