//! Project tasks, run as `cargo xtask <task>`: everything that a contributor and CI run on the
//! tree.

mod api;
mod bench;
mod build_time;
mod checks;
mod checksum;
mod conformance;
mod coverage;
mod dist;
mod fuzz;
mod glob;
mod minimal_client;
mod mutants;
mod release;
mod sbom;
mod semver;
mod shell;
mod soak;
mod steps;
mod tools;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "Project tasks", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every check: the whole test command, from a fresh checkout.
    Test(steps::TestArgs),
    /// Install the pinned packages and programs that tests talk to or check with.
    Tools,
    /// Run the official conformance suite against our client, one scenario at a time.
    Conformance(conformance::Args),
    /// Compare our client with its peers; further arguments go to the benchmark.
    ///
    /// `bench recovery` kills and restarts servers during calls instead of measuring speed.
    Bench(bench::Args),
    /// Strike our client with random faults under load, and compare what both sides recorded;
    /// further arguments go to the soak test. `soak gateway` does so with many hosts and a gateway.
    Soak(soak::Args),
    /// Change the code of the core, one expression at a time, and see whether its tests notice.
    /// Takes hours.
    Mutants(mutants::Args),
    /// Fuzz everything that parses untrusted input.
    Fuzz(fuzz::Args),
    /// Build the command as it is released, with a list of its dependencies inside, and its SBOM
    /// and checksums beside it.
    Release(release::Args),
    /// Make the packages that carry the program, for this platform: npm, PyPI, Debian and a tarball;
    /// and a Homebrew formula, a container file and checksums for all platforms whose files are there.
    Dist(dist::Args),
    /// Write the public interface of the library into the files that the test command compares it
    /// with.
    Api,
    /// Compare the public interface of the library with that of an earlier commit, and show what breaks
    /// programs that use it.
    Semver(semver::Args),
    /// Write the SBOM of the command, in CycloneDX JSON.
    Sbom(sbom::Args),
    /// Show which requirements of the protocol checklist the tests name.
    Coverage(coverage::Args),
}

fn main() -> ExitCode {
    if let Some(code) = api::run_as_rustdoc() {
        return code;
    }
    let cli = Cli::parse();
    match run(cli.task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    let workspace = Workspace::find()?;
    match task {
        Task::Test(args) => steps::run(&workspace, &args),
        Task::Tools => tools::install_test_tools(&workspace),
        Task::Conformance(args) => conformance::run(&workspace, &args),
        Task::Bench(args) => bench::run(&workspace, &args),
        Task::Soak(args) => soak::run(&workspace, &args),
        Task::Mutants(args) => mutants::run(&workspace, &args),
        Task::Fuzz(args) => fuzz::run(&workspace, &args),
        Task::Release(args) => release::run(&workspace, &args),
        Task::Dist(args) => dist::run(&workspace, &args),
        Task::Api => api::write(&workspace),
        Task::Semver(args) => semver::run(&workspace, &args),
        Task::Sbom(args) => sbom::run(&workspace, &args),
        Task::Coverage(args) => coverage::run(&workspace, &args),
    }
}
