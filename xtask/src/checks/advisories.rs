//! Checks dependencies for known vulnerabilities: where the RustSec database comes from, and what
//! follows from it.
//!
//! A machine may be offline, or reach only a package registry. The check is then reported as not
//! made, and passes. The database is therefore fetched first, by itself and for a bounded time, and
//! cargo-deny runs offline after that: a failure in the first step says nothing about a dependency,
//! a failure in the second does.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::deny::{CargoDeny, Manifest, RULES};
use crate::{
    shell::{self, CommandEnd},
    workspace::Workspace,
};

/// Environment variable with a copy of the database: a folder, or a URL that git can clone. Without
/// it, the database is fetched from RustSec into the folder that cargo-deny uses by default.
const DATABASE_VARIABLE: &str = "BOWLINE_ADVISORY_DB";

pub(super) fn check(workspace: &Workspace, deny: &CargoDeny) -> Result<()> {
    let copy = env::var(DATABASE_VARIABLE).ok().filter(|copy| !copy.is_empty());
    let database = Database::locate(workspace, copy)?;
    let fetched = database.fetch(deny)?;
    if let (Err(reason), Some(copy)) = (&fetched, &database.copy) {
        bail!("{DATABASE_VARIABLE} is {copy}, of which no database could be had: {reason}");
    }
    for manifest in Manifest::ALL {
        let mut command = deny.command(manifest, &database.rules);
        command.args(["--offline", "--format", "json", "check", "advisories"]);
        let output = command.output().context("could not start cargo-deny")?;
        match (DenyResult::parse(&String::from_utf8_lossy(&output.stderr)), &fetched) {
            (DenyResult::Clean, _) => {}
            (DenyResult::Vulnerable, _) => {
                // Runs it again for a person to read.
                let mut command = deny.command(manifest, &database.rules);
                shell::run(command.args(["--offline", "check", "advisories"]))?;
                bail!("dependencies have advisories");
            }
            (DenyResult::NotChecked(_), Err(reason)) => {
                eprintln!("advisories: not checked: offline ({reason})");
                return Ok(());
            }
            (DenyResult::NotChecked(why), Ok(())) => bail!("advisories could not be checked: {why}"),
        }
    }
    let age = database.date().map_or_else(String::new, |date| format!(" of {date}"));
    match fetched {
        Ok(()) => eprintln!("advisories: none, by the database{age}"),
        Err(reason) => eprintln!("advisories: none, by an earlier copy of the database{age} ({reason})"),
    }
    Ok(())
}

struct Database {
    /// The copy to use in place of the official database.
    copy: Option<String>,
    /// A file with the rules of `deny.toml` and the folder of the databases.
    rules: PathBuf,
    /// Where cargo-deny keeps its databases, each in a folder of its own.
    folder: PathBuf,
    /// Log file for the output of git.
    log: PathBuf,
}

impl Database {
    fn locate(workspace: &Workspace, copy: Option<String>) -> Result<Self> {
        let work = workspace.root().join("target/deny");
        fs::create_dir_all(&work).with_context(|| format!("creating {}", work.display()))?;
        let log = work.join("fetch.log");
        if copy.is_none() {
            let home = env::var_os("CARGO_HOME").map(PathBuf::from);
            let home = home.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
            let folder = home.context("no home folder is known")?.join("advisory-dbs");
            return Ok(Self { copy, rules: RULES.into(), folder, log });
        }
        // A copy must not replace a newer database in the usual folder.
        let folder = work.join("advisory-dbs");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        let rules = work.join(RULES);
        let text = fs::read_to_string(workspace.root().join(RULES)).context("reading deny.toml")?;
        fs::write(&rules, with_folder(&text, &folder)?)
            .with_context(|| format!("writing {}", rules.display()))?;
        Ok(Self { copy, rules, folder, log })
    }

    /// Updates the database. The inner error is the reason why that failed.
    fn fetch(&self, deny: &CargoDeny) -> Result<Result<(), String>> {
        let log = File::create(&self.log).with_context(|| format!("creating {}", self.log.display()))?;
        let mut command = deny.command(Manifest::Main, &self.rules);
        command.args(["fetch", "db"]).stdout(log.try_clone()?).stderr(log);
        self.configure_git(&mut command);
        Ok(match shell::run_with_timeout(&mut command, FETCH_TIMEOUT)? {
            CommandEnd::Exited(status) if status.success() => Ok(()),
            CommandEnd::Exited(_) => Err(failure_reason(&fs::read_to_string(&self.log).unwrap_or_default())),
            CommandEnd::Killed => Err(format!("no answer within {} s", FETCH_TIMEOUT.as_secs())),
        })
    }

    fn configure_git(&self, command: &mut Command) {
        let mut settings = vec![
            ("http.lowSpeedLimit".to_owned(), "1000"),
            ("http.lowSpeedTime".to_owned(), LOW_SPEED_SECONDS),
        ];
        if let Some(copy) = &self.copy {
            settings.push((format!("url.{copy}.insteadOf"), OFFICIAL_DATABASE));
        }
        command.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (index, (key, value)) in settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{index}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        command.env("GIT_TERMINAL_PROMPT", "0");
        // cargo-deny resets what it takes for its clone: a broken one must not lead git to a
        // repository above it.
        command.env("GIT_CEILING_DIRECTORIES", &self.folder);
    }

    /// Returns the date of the last change to the database.
    fn date(&self) -> Option<String> {
        let entries = fs::read_dir(&self.folder).ok()?;
        let clone = entries.flatten().find(|entry| entry.path().join(".git").is_dir())?;
        let mut git = Command::new("git");
        git.arg("-C").arg(clone.path()).args(["log", "-1", "--format=%cs"]);
        Some(shell::read(&mut git).ok()?.trim().to_owned())
    }
}

/// The result of a run of cargo-deny.
#[derive(Debug, PartialEq, Eq)]
enum DenyResult {
    Clean,
    Vulnerable,
    /// The check could not be made, for this reason.
    NotChecked(String),
}

impl DenyResult {
    /// Parses the lines of JSON that cargo-deny writes. It ends a completed check with a summary;
    /// its exit code is equal for an advisory and for a database that cannot be read.
    fn parse(output: &str) -> Self {
        let lines = || output.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let Some(summary) = lines().find(|line| line["type"] == "summary") else {
            let message =
                lines().filter_map(|line| line["fields"]["message"].as_str().map(failure_reason)).next_back();
            return Self::NotChecked(message.unwrap_or_else(|| failure_reason(output)));
        };
        match summary["fields"]["advisories"]["errors"].as_u64() {
            Some(0) => Self::Clean,
            Some(_) => Self::Vulnerable,
            None => Self::NotChecked("the summary of cargo-deny does not count advisories".to_owned()),
        }
    }
}

/// Returns `deny.toml` with another folder for databases.
fn with_folder(rules: &str, folder: &Path) -> Result<String> {
    let mut rules: toml::Table = rules.parse().context("deny.toml")?;
    let advisories = rules.entry("advisories").or_insert_with(|| toml::Table::new().into());
    let advisories = advisories.as_table_mut().context("deny.toml: advisories is a table")?;
    advisories.insert("db-path".to_owned(), folder.to_string_lossy().into_owned().into());
    Ok(rules.to_string())
}

/// Returns git's error in the output of a program, or else the last line.
fn failure_reason(said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let fatal = lines().filter_map(|line| line.strip_prefix("fatal: ")).next_back();
    fatal
        .or_else(|| lines().next_back())
        .unwrap_or("no reason given")
        .chars()
        .take(MAX_REASON_CHARS)
        .collect()
}

const OFFICIAL_DATABASE: &str = "https://github.com/RustSec/advisory-db";

/// Time limit of a fetch; the clone is a few megabytes.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// Ends a stalled transfer while git can still clean up after itself.
const LOW_SPEED_SECONDS: &str = "20";

const MAX_REASON_CHARS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str =
        r#"{"fields":{"advisories":{"errors":0,"helps":0,"notes":0,"warnings":1}},"type":"summary"}"#;
    const FOUND: &str = r#"{"fields":{"code":"vulnerability","message":"Invalid pointer","severity":"error"},"type":"diagnostic"}
{"fields":{"advisories":{"errors":1,"helps":0,"notes":0,"warnings":0}},"type":"summary"}
"#;
    const NO_DATABASE: &str = r#"{"fields":{"level":"ERROR","message":"failed to get HEAD timestamp: [\"-C\"]\nfatal: cannot change to '/dbs': No such file or directory\n"},"type":"log"}"#;

    #[test]
    fn an_advisory_is_told_from_a_check_that_was_not_made() {
        assert_eq!(DenyResult::parse(CLEAN), DenyResult::Clean);
        assert_eq!(DenyResult::parse(FOUND), DenyResult::Vulnerable);
        let not_made = "cannot change to '/dbs': No such file or directory".to_owned();
        assert_eq!(DenyResult::parse(NO_DATABASE), DenyResult::NotChecked(not_made));
        assert_eq!(DenyResult::parse("panicked"), DenyResult::NotChecked("panicked".to_owned()));
        assert_eq!(DenyResult::parse(""), DenyResult::NotChecked("no reason given".to_owned()));
    }

    #[test]
    fn a_summary_without_advisories_is_no_clean_result() {
        let other = CLEAN.replace("advisories", "bans");
        assert!(matches!(DenyResult::parse(&other), DenyResult::NotChecked(_)));
    }

    #[test]
    fn the_reason_is_the_error_of_git() {
        let said = "2026 [ERROR] failed to clone: [\"clone\"]\nCloning into '/dbs'...\n\
                    fatal: unable to access 'https://host.test/': Could not resolve host: host.test\n\n";
        let expected = "unable to access 'https://host.test/': Could not resolve host: host.test";
        assert_eq!(failure_reason(said), expected);
        let advice = "fatal: Could not read from remote repository.\n\nPlease make sure that it exists.\n";
        assert_eq!(failure_reason(advice), "Could not read from remote repository.");
        assert_eq!(failure_reason(&"x".repeat(1000)).len(), MAX_REASON_CHARS);
    }

    #[test]
    fn a_copy_changes_the_folder_and_no_rule() {
        let rules = "[advisories]\nyanked = \"deny\"\n[bans]\nwildcards = \"deny\"\n";
        let changed: toml::Table = with_folder(rules, Path::new("/dbs")).unwrap().parse().unwrap();
        let mut expected: toml::Table = rules.parse().unwrap();
        expected["advisories"].as_table_mut().unwrap().insert("db-path".to_owned(), "/dbs".into());
        assert_eq!(changed, expected);
    }
}
