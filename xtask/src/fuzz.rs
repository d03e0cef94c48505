//! `cargo xtask fuzz`: fuzzes everything that parses untrusted input.
//!
//! The targets are in `fuzz/targets`, one file each. They are built by the stable toolchain with
//! the coverage that libFuzzer needs, and without a sanitizer: the code has no `unsafe` to check,
//! and the fuzzer looks for panics, failed assertions, hangs and unbounded memory.

use std::{
    collections::VecDeque,
    fs,
    io::BufRead as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{shell, workspace::Workspace};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these targets; all of them by default. Their names are those of the files in
    /// `fuzz/targets`.
    targets: Vec<String>,
    /// How long each target runs.
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    minutes: f64,
    /// How many targets run at a time.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    jobs: u8,
}

impl Default for Args {
    /// Short, because everyone who runs all checks waits for it: it mostly replays the saved
    /// inputs.
    fn default() -> Self {
        Self { targets: Vec::new(), minutes: 3.0 / 60.0, jobs: 2 }
    }
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    ensure!(args.minutes > 0.0 && args.minutes.is_finite(), "--minutes is to be a positive number");
    let chosen = choose(all_targets(workspace)?, &args.targets)?;
    let time = Duration::from_secs_f64((args.minutes * 60.0).max(1.0));
    let programs = build(workspace, time)?;
    eprintln!("{} targets, {} s each, {} at a time", chosen.len(), time.as_secs(), args.jobs);

    let waiting = Mutex::new(VecDeque::from(chosen));
    let failed = Mutex::new(Vec::new());
    let next = || waiting.lock().ok()?.pop_front();
    thread::scope(|scope| {
        for _ in 0..args.jobs {
            scope.spawn(|| {
                while let Some(name) = next() {
                    if let Err(error) = fuzz(workspace, &programs, &name, time) {
                        eprintln!("{name:<18} FAILED: {error:#}");
                        failed.lock().expect("no thread panics").push(name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_default();
    if !failed.is_empty() {
        bail!(
            "an input breaks {}; it stays in {REGRESSIONS_FOLDER} and is tried again by every run",
            failed.join(", ")
        );
    }
    Ok(())
}

fn all_targets(workspace: &Workspace) -> Result<Vec<String>> {
    let files = workspace.files("fuzz/targets")?;
    let names = files.iter().filter_map(|file| file.file_stem()?.to_str().map(str::to_owned));
    let names: Vec<_> = names.collect();
    ensure!(!names.is_empty(), "there is no target in fuzz/targets");
    Ok(names)
}

fn choose(all: Vec<String>, wanted: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = wanted.iter().find(|name| !all.contains(name)) {
        bail!("there is no target `{unknown}`; there are {}", all.join(", "));
    }
    Ok(all.into_iter().filter(|name| wanted.is_empty() || wanted.contains(name)).collect())
}

/// Builds all targets; returns the folder that they are in.
fn build(workspace: &Workspace, time: Duration) -> Result<PathBuf> {
    let host = shell::host_triple(workspace)?;
    let folder = workspace.root().join("target/fuzz");
    let mut cargo = shell::cargo(workspace);
    cargo.args(["build", "--release", "--bins", "--manifest-path", "fuzz/Cargo.toml", "--locked"]);
    // With an explicit target, the flags do not apply to build scripts and macros.
    cargo.args(["--target", &host, "--target-dir"]).arg(&folder);
    cargo.env("RUSTFLAGS", RUSTFLAGS.join(" "));
    // Programs that run for seconds are not worth minutes of optimization.
    if time < MIN_OPTIMIZED_TIME {
        cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
    }
    shell::run(&mut cargo).context("libFuzzer is built from source, which takes a C++ compiler")?;
    Ok(folder.join(host).join("release"))
}

/// How long each target has to run at least to be optimized.
const MIN_OPTIMIZED_TIME: Duration = Duration::from_secs(30);

/// Runs one target: first with the saved inputs, then with new ones.
fn fuzz(workspace: &Workspace, programs: &Path, name: &str, time: Duration) -> Result<()> {
    let root = workspace.root();
    let found = root.join("target/fuzz/corpus").join(name);
    let kept = root.join(REGRESSIONS_FOLDER).join(name);
    let seeds = root.join("fuzz/seeds").join(name);
    for folder in [&found, &kept] {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    ensure!(seeds.is_dir(), "there are no seeds in {}", workspace.show(&seeds));
    let mut command = Command::new(programs.join(format!("{name}{}", std::env::consts::EXE_SUFFIX)));
    command
        .args(["-print_final_stats=1", "-timeout=60", "-rss_limit_mb=4096", "-report_slow_units=1000"])
        .arg(format!("-max_total_time={}", time.as_secs()))
        // With the trailing separator, because libFuzzer only concatenates the two.
        .arg(format!("-artifact_prefix={}/", kept.display()))
        .args([&found, &seeds, &kept])
        .stdin(Stdio::null());
    let dictionary = root.join("fuzz/dictionaries").join(format!("{name}.dict"));
    if dictionary.is_file() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    let log = root.join("target/fuzz").join(format!("{name}.log"));
    let file = fs::File::create(&log).with_context(|| format!("creating {}", log.display()))?;
    command.stdout(file.try_clone()?).stderr(file);

    let begun = Instant::now();
    // Longer than `time`, because libFuzzer checks the time between two inputs.
    let limit = time + Duration::from_secs(600);
    let ended = shell::run_with_timeout(&mut command, limit)?;
    // Removes the folder if it is empty.
    let _ = fs::remove_dir(&kept);
    match ended {
        shell::CommandEnd::Exited(status) if status.success() => {
            let told = Stats::read(&log)?;
            eprintln!(
                "{name:<18} {:>12} executions, {:>6} new inputs, {:>5} s",
                told.executed,
                told.added,
                begun.elapsed().as_secs()
            );
            Ok(())
        }
        shell::CommandEnd::Exited(status) => bail!("{status}\n{}", read_tail(&log)?),
        shell::CommandEnd::Killed => {
            bail!("it did not end within {} s\n{}", limit.as_secs(), read_tail(&log)?)
        }
    }
}

/// The statistics that libFuzzer prints at its end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Stats {
    executed: u64,
    added: u64,
}

impl Stats {
    fn read(log: &Path) -> Result<Self> {
        let bytes = fs::read(log).with_context(|| format!("reading {}", log.display()))?;
        Self::parse(&String::from_utf8_lossy(&bytes))
            .with_context(|| format!("{} ends without statistics", log.display()))
    }

    fn parse(log: &str) -> Option<Self> {
        let number = |name: &str| {
            let line = log.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
            line?.trim_start_matches(':').trim().parse().ok()
        };
        Some(Self { executed: number("number_of_executed_units")?, added: number("new_units_added")? })
    }
}

/// Returns the last lines of a log.
fn read_tail(log: &Path) -> Result<String> {
    let file = std::io::BufReader::new(fs::File::open(log)?);
    let mut last = VecDeque::new();
    for line in file.split(b'\n') {
        last.push_back(String::from_utf8_lossy(&line?).into_owned());
        if last.len() > MAX_LOG_LINES {
            last.pop_front();
        }
    }
    Ok(Vec::from(last).join("\n"))
}

/// Number of lines of a log to show: a panic with its location, and the input.
const MAX_LOG_LINES: usize = 40;

/// Folder of inputs that once broke a target.
const REGRESSIONS_FOLDER: &str = "fuzz/regressions";

/// The coverage that libFuzzer is guided by, and the configuration that lets targets reach private
/// code.
const RUSTFLAGS: &[&str] = &[
    "--cfg fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_found_in_a_log() {
        let log = "#12 DONE cov: 3\nstat::number_of_executed_units: 1234\nstat::average_exec_per_sec:     41\n\
                   stat::new_units_added:          17\n";
        assert_eq!(Stats::parse(log), Some(Stats { executed: 1234, added: 17 }));
        assert_eq!(Stats::parse("==1== ERROR: libFuzzer: deadly signal"), None);
    }

    #[test]
    fn every_target_is_a_program_with_seeds_and_its_inputs_are_kept_by_name() {
        let workspace = Workspace::find().unwrap();
        let manifest = fs::read_to_string(workspace.root().join("fuzz/Cargo.toml")).unwrap();
        let targets = all_targets(&workspace).unwrap();
        for name in &targets {
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is in no manifest");
            let seeds = workspace.files(&format!("fuzz/seeds/{name}")).unwrap();
            assert!(!seeds.is_empty(), "{name} has no seeds");
        }
        for folder in ["fuzz/seeds", REGRESSIONS_FOLDER] {
            for file in workspace.files(folder).unwrap() {
                let of = file.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap();
                assert!(targets.iter().any(|name| name == of), "{} is of no target", workspace.show(&file));
            }
        }
        assert_eq!(manifest.matches("[[bin]]").count(), targets.len());
    }

    #[test]
    fn targets_are_chosen_by_name() {
        let all = || vec!["lines".to_owned(), "sse".to_owned()];
        assert_eq!(choose(all(), &[]).unwrap(), all());
        assert_eq!(choose(all(), &["sse".to_owned()]).unwrap(), ["sse"]);
        let error = choose(all(), &["see".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "there is no target `see`; there are lines, sse");
    }
}
