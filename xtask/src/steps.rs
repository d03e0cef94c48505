//! `cargo xtask test`: the steps, their order, and how their results are printed.
//!
//! Cheap steps that fail often come early; the first failure ends the run.

use std::{fmt, process::Command, time::Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;

use crate::{api, checks, conformance, coverage, fuzz, shell, soak, tools, workspace::Workspace};

#[derive(clap::Args)]
pub(crate) struct TestArgs {
    /// Run these steps alone.
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    only: Vec<Step>,
    /// Leave these steps out.
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    skip: Vec<Step>,
}

/// The steps, in the order they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Install pinned packages and programs.
    Tools,
    /// Formatting.
    Fmt,
    /// American spelling of code, comments and prose.
    Spelling,
    /// `proto` and `config` do no I/O; no file is too long.
    Purity,
    /// Every path that the guides name exists.
    Paths,
    /// Requirements of the protocol have the tests that they need.
    Coverage,
    /// Licenses, banned crates, sources and known vulnerabilities of dependencies.
    Deny,
    /// Packages for the registry are complete, and hold nothing else.
    Package,
    /// Lints.
    Clippy,
    /// The library compiles with each of its features alone, and so do the crates that use it.
    Features,
    /// Unit, integration and documentation tests.
    Tests,
    /// Models of concurrent code, in every interleaving.
    Loom,
    /// Documentation builds without warnings.
    Docs,
    /// The public interface is the one that is listed in the tree.
    Api,
    /// The official suite against our client.
    Conformance,
    /// Tests against third-party servers.
    Interop,
    /// Packages that carry the program install into empty folders, and run.
    Packages,
    /// Random faults under load, for a minute.
    Soak,
    /// Inputs that once broke something, and new ones for a few seconds each.
    Fuzz,
}

pub(crate) fn run(workspace: &Workspace, args: &TestArgs) -> Result<()> {
    let steps = args.select();
    let mut done = Vec::new();
    let started = Instant::now();
    let mut failure = None;
    for &step in &steps {
        eprintln!("\n━━ {step} ━━");
        let begun = Instant::now();
        let result = step.run(workspace);
        let seconds = begun.elapsed().as_secs_f32();
        eprintln!("━━ {step}: {} in {seconds:.1} s ━━", if result.is_ok() { "ok" } else { "FAILED" });
        done.push((step, seconds, result.is_ok()));
        if let Err(error) = result {
            failure = Some(anyhow!(
                "{error:#}\n\nstep `{step}` failed; run it alone with `cargo xtask test --only {step}`"
            ));
            break;
        }
    }

    eprintln!();
    for &step in &steps {
        match done.iter().find(|(name, ..)| *name == step) {
            Some((_, seconds, true)) => eprintln!("{step:<12} ok       {seconds:>7.1} s"),
            Some((_, seconds, false)) => eprintln!("{step:<12} FAILED   {seconds:>7.1} s"),
            None => eprintln!("{step:<12} not run"),
        }
    }
    eprintln!("{:<12}          {:>7.1} s", "total", started.elapsed().as_secs_f32());
    failure.map_or(Ok(()), Err)
}

impl TestArgs {
    fn select(&self) -> Vec<Step> {
        let wanted =
            |step: &Step| (self.only.is_empty() || self.only.contains(step)) && !self.skip.contains(step);
        Step::value_variants().iter().copied().filter(wanted).collect()
    }
}

impl Step {
    fn run(self, workspace: &Workspace) -> Result<()> {
        match self {
            Self::Tools => tools::install_test_tools(workspace),
            Self::Fmt => check_formatting(workspace),
            Self::Spelling => {
                let mut typos = Command::new(tools::ensure_typos(workspace)?);
                shell::run(typos.current_dir(workspace.root()))
            }
            Self::Purity => checks::purity::run(workspace),
            Self::Paths => checks::doc_paths::run(workspace),
            Self::Coverage => coverage::check(workspace),
            Self::Deny => checks::deny::run(workspace),
            Self::Package => checks::package::run(workspace),
            Self::Clippy => {
                run_cargo(workspace, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
            }
            Self::Features => checks::features::run(workspace),
            Self::Tests => tests(workspace),
            Self::Loom => run_loom(workspace),
            Self::Docs => build_docs(workspace),
            Self::Api => api::check(workspace),
            Self::Conformance => conformance::run(workspace, &conformance::Args::default()),
            Self::Interop => run_interop(workspace),
            Self::Packages => checks::packages::run(workspace),
            Self::Soak => soak::run_all(workspace),
            Self::Fuzz => fuzz::run(workspace, &fuzz::Args::default()),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().map(|value| value.get_name().to_owned());
        f.pad(&value.unwrap_or_default())
    }
}

fn run_cargo(workspace: &Workspace, args: &[&str]) -> Result<()> {
    shell::run(shell::cargo(workspace).args(args))
}

/// Checks the formatting, also of the packages that are workspaces of their own.
fn check_formatting(workspace: &Workspace) -> Result<()> {
    run_cargo(workspace, &["fmt", "--all", "--check"])?;
    run_cargo(workspace, &["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"])?;
    run_cargo(workspace, &["fmt", "--manifest-path", "loom/Cargo.toml", "--check"])
}

fn tests(workspace: &Workspace) -> Result<()> {
    let targets = list_test_targets(workspace)?;
    let (interop, plain): (Vec<_>, Vec<_>) = targets.iter().partition(|name| needs_peers(name));
    let mut command = shell::cargo(workspace);
    if shell::is_installed("cargo-nextest") {
        command.args(["nextest", "run", "--workspace", "--test-threads", &count_test_threads()]);
        // nextest refuses a filter that matches no binary.
        if !interop.is_empty() {
            command.args(["-E", &format!("not binary(/^({})/)", PEER_PREFIXES.join("|"))]);
        }
    } else {
        eprintln!("cargo-nextest is not installed: using cargo test, without a time limit per test");
        command.args(["test", "--workspace", "--lib", "--bins"]);
        for name in plain {
            command.args(["--test", name]);
        }
    }
    if tools::shells::ensure() {
        // Then their tests are not left out.
        command.env("BOWLINE_REQUIRE_SHELLS", "1");
    }
    shell::run(&mut command)?;
    run_cargo(workspace, &["test", "--workspace", "--doc"])
}

/// Twice the number of processors: most of the slow tests wait for deadlines and other processes.
fn count_test_threads() -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors * 2).to_string()
}

/// Lints the models, which are a workspace of their own for the reason in their manifest, and runs
/// them.
fn run_loom(workspace: &Workspace) -> Result<()> {
    let options = ["--locked", "--manifest-path", "loom/Cargo.toml", "--target-dir", "target/loom"];
    let mut clippy = shell::cargo(workspace);
    shell::run(clippy.arg("clippy").args(options).args(["--all-targets", "--", "-D", "warnings"]))?;
    shell::run(shell::cargo(workspace).arg("test").args(options))
}

fn build_docs(workspace: &Workspace) -> Result<()> {
    let mut command = shell::cargo(workspace);
    command.args(["doc", "--workspace", "--no-deps", "--document-private-items"]);
    command.args(["--features", shell::DOC_FEATURES]);
    shell::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs the interop tests, which find their peers through these variables and fail without them.
fn run_interop(workspace: &Workspace) -> Result<()> {
    let peers = tools::ensure_interop_peers(workspace)?;
    let mut targets = list_test_targets(workspace)?;
    targets.retain(|name| needs_peers(name));
    if targets.is_empty() {
        bail!("no test target begins with {PEER_PREFIXES:?}: this step would test nothing");
    }
    let mut command = shell::cargo(workspace);
    if shell::is_installed("cargo-nextest") {
        command.args(["nextest", "run", "--workspace"]);
    } else {
        command.args(["test", "--workspace"]);
    }
    for name in &targets {
        command.args(["--test", name]);
    }
    shell::run(command.envs(peers))
}

/// Returns the names of the test targets of the workspace.
fn list_test_targets(workspace: &Workspace) -> Result<Vec<String>> {
    let metadata = shell::cargo_metadata(workspace)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists packages")?;
    let targets = packages.iter().filter_map(|package| package["targets"].as_array()).flatten();
    let is_test = |target: &&serde_json::Value| {
        target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "test"))
    };
    let name = |target: &serde_json::Value| target["name"].as_str().map(str::to_owned);
    Ok(targets.filter(is_test).filter_map(name).collect())
}

/// Whether the tests of a target talk to third-party servers.
fn needs_peers(target: &str) -> bool {
    PEER_PREFIXES.iter().any(|prefix| target.starts_with(prefix))
}

const PEER_PREFIXES: [&str; 2] = ["interop_", "recovery_"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_and_skip_narrow_the_run_and_keep_its_order() {
        let args = TestArgs { only: vec![Step::Clippy, Step::Fmt], skip: vec![] };
        assert_eq!(args.select(), [Step::Fmt, Step::Clippy]);
        let skip = vec![Step::Fuzz, Step::Soak, Step::Packages, Step::Interop, Step::Conformance];
        let args = TestArgs { only: vec![], skip };
        let steps = args.select();
        assert_eq!(steps.first(), Some(&Step::Tools));
        assert_eq!(steps.last(), Some(&Step::Api));
    }

    #[test]
    fn a_step_is_shown_as_it_is_typed() {
        for step in Step::value_variants() {
            assert_eq!(Step::from_str(&step.to_string(), false).unwrap(), *step);
        }
    }
}
