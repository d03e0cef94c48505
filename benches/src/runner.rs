//! The run: which leg runs when, and what bounds it.
//!
//! Rounds are interleaved: within a round every client runs every scenario once, client after
//! client for one scenario, so that a client and its floor see the machine in the same state. A
//! ratio is taken within a round; the reported figure is the median over rounds.

use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::job::{Endpoint, Job, Limits, Sample};
use crate::peer::{LaunchCommand, Peer};
use crate::report::{Report, Round};
use crate::scenario::{LARGE_LIST, LISTS_HELD, MEDIUM_LIST, PORTS, SMALL_LIST, Scenario, Wire};
use crate::{goals, table};

/// A leg that takes longer is taken to hang, and is stopped.
const LEG_TIMEOUT: Duration = Duration::from_secs(30);
/// No leg makes more calls than this in one round.
const MAX_CALLS: u64 = 200_000;

/// A quick run, for people who wait for it.
const QUICK: RunProfile = RunProfile {
    limits: Limits { warmup: 0.08, seconds: 0.25, max_calls: MAX_CALLS },
    rounds: 3,
    budget: Duration::from_secs(150),
};
/// A full run, for published figures.
const FULL: RunProfile = RunProfile {
    limits: Limits { warmup: 0.15, seconds: 0.6, max_calls: MAX_CALLS },
    rounds: 5,
    budget: Duration::from_secs(13 * 60),
};

/// How much is measured.
#[derive(Clone, Copy)]
struct RunProfile {
    limits: Limits,
    rounds: u32,
    /// A round is skipped if, going by earlier ones, it would not end within this time.
    budget: Duration,
}

/// The options of the command line.
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) only: Option<String>,
    /// Empty means all.
    pub(crate) peers: Vec<Peer>,
    pub(crate) rounds: Option<u32>,
    pub(crate) out: Option<PathBuf>,
}

/// Runs the benchmark, prints the tables and writes the JSON.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let scenarios: Vec<Scenario> = Scenario::all(options.quick)
        .into_iter()
        .filter(|s| options.only.as_ref().is_none_or(|only| s.to_string().contains(only)))
        .collect();
    ensure!(!scenarios.is_empty(), "no scenario has that in its name");
    let pace = if options.quick { QUICK } else { FULL };
    let rounds = options.rounds.unwrap_or(pace.rounds);

    if cfg!(debug_assertions) {
        eprintln!("warning: not an optimized build; the ratios mean nothing (use --profile dist)");
    }
    let (legs, absent) = available_legs(&options.peers);
    let server = Server::start(PORTS)?;
    let started = Instant::now();
    let mut report = Report::new(options.quick, absent, &scenarios);
    let mut done = 0;
    for round in 0..rounds {
        let elapsed = started.elapsed();
        if options.rounds.is_none() && round > 0 && elapsed + elapsed / round > pace.budget {
            break;
        }
        for (index, &scenario) in scenarios.iter().enumerate() {
            show_progress(&format!("round {}/{rounds}  {scenario}", round + 1));
            let job = serde_json::to_string(&build_job(scenario, &server, pace.limits)?)?;
            // Each round starts with another client, so that none always follows the heaviest.
            let mut taking_part: Vec<_> =
                legs.iter().filter(|(peer, _)| peer.takes_part_in(scenario)).collect();
            let turn = (round as usize).checked_rem(taking_part.len()).unwrap_or_default();
            taking_part.rotate_left(turn);
            let mut results = Round::default();
            for (peer, launch) in taking_part {
                if round == 0 && *peer == Peer::Bowline && matches!(scenario, Scenario::OpenLegacy { .. }) {
                    // Plays the earlier process, which leaves its records. Its cost is another
                    // scenario.
                    let _ = run_leg(launch, &job);
                }
                results.insert(*peer, run_leg(launch, &job));
            }
            report.add(index, results);
        }
        done += 1;
    }
    show_progress("");
    drop(server);

    print!("{}", table::render(&report));
    print!("{}", goals::render(&report));
    println!("{done} rounds in {:.0} s", started.elapsed().as_secs_f64());
    if let Some(out) = &options.out {
        let json = serde_json::to_vec_pretty(&report.to_json())?;
        std::fs::write(out, json).with_context(|| format!("write {}", out.display()))?;
        println!("written to {}", out.display());
    }
    Ok(())
}

/// Returns the clients that can run here, and the reasons of those that cannot. The floor is always
/// included: every ratio needs it.
#[expect(clippy::type_complexity, reason = "two lists, read once")]
fn available_legs(wanted: &[Peer]) -> (Vec<(Peer, LaunchCommand)>, Vec<(Peer, String)>) {
    let mut legs = Vec::new();
    let mut absent = Vec::new();
    for peer in Peer::ALL {
        if peer != Peer::Floor && !wanted.is_empty() && !wanted.contains(&peer) {
            absent.push((peer, "not asked for".to_owned()));
            continue;
        }
        match peer.launch(|name| std::env::var(name).ok()) {
            Ok(launch) => legs.push((peer, launch)),
            Err(reason) => absent.push((peer, reason)),
        }
    }
    (legs, absent)
}

fn build_job(scenario: Scenario, server: &Server, limits: Limits) -> anyhow::Result<Job> {
    let origins = &server.origins;
    let legacy = |count: usize| origins.iter().take(count).map(|origin| format!("{origin}/legacy")).collect();
    let urls = |count: usize, tools: usize| {
        let path = match tools {
            LARGE_LIST => "list",
            MEDIUM_LIST => "ten",
            _ => "json",
        };
        origins.iter().take(count).map(|origin| format!("{origin}/{path}")).collect::<Vec<_>>()
    };
    let origin = origins.first().context("a server")?;
    Ok(match scenario {
        Scenario::Calls { wire, size, lanes } => {
            let endpoint = match wire {
                Wire::HttpJson => Endpoint::Http(format!("{origin}/json")),
                Wire::HttpSse => Endpoint::Http(format!("{origin}/sse")),
                Wire::Stdio => {
                    let program = std::env::current_exe()?.display().to_string();
                    Endpoint::Stdio(vec![program, "serve-stdio".into()])
                }
            };
            Job::Calls { endpoint, bytes: size.bytes(), lanes, limits }
        }
        Scenario::List => Job::Lists { url: format!("{origin}/list"), tools: LARGE_LIST, limits },
        Scenario::Startup { servers, tools } => Job::Startup { urls: urls(servers, tools), tools },
        Scenario::Memory => Job::Memory { urls: urls(LISTS_HELD, LARGE_LIST), tools: LARGE_LIST },
        Scenario::Idle => Job::Idle { urls: urls(PORTS, MEDIUM_LIST), tools: MEDIUM_LIST },
        Scenario::OpenLegacy { servers } => {
            Job::Open { urls: legacy(servers), negotiations: Some(server.negotiations.clone()) }
        }
        Scenario::OpenUnknown { servers } => Job::Open { urls: legacy(servers), negotiations: None },
        Scenario::Relay => Job::Relay { url: format!("{origin}/ten"), tools: MEDIUM_LIST },
    })
}

/// Runs one leg to its end. If it fails, the error takes its place in the table.
fn run_leg(launch: &LaunchCommand, job: &str) -> Result<Sample, String> {
    let mut child = launch.start(job).map_err(|error| format!("{}: {error}", launch.program.display()))?;
    // Both pipes are read on their own threads, so that neither a flood nor silence blocks the time
    // limit.
    let stdout = drain(child.stdout.take().ok_or("no stdout")?);
    let stderr = drain(child.stderr.take().ok_or("no stderr")?);
    // Stdout ends with the leg; children of the leg hold stderr at most.
    let Ok(text) = stdout.recv_timeout(LEG_TIMEOUT) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("stopped after {} s", LEG_TIMEOUT.as_secs()));
    };
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        let complaint = stderr.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        return Err(format!("{status}: {}", last_sentence(&complaint)));
    }
    serde_json::from_str(text.trim()).map_err(|error| format!("not a sample: {error}"))
}

/// Returns the last line that contains a word; the trees that Python draws around its errors have
/// others.
pub(crate) fn last_sentence(complaint: &str) -> &str {
    let words = |line: &&str| line.contains(|c: char| c.is_ascii_alphabetic());
    complaint.lines().rev().find(words).unwrap_or_default().trim_matches([' ', '|', '+', '-'])
}

/// Reads a pipe to its end on a thread of its own and sends the text.
fn drain(pipe: impl std::io::Read + Send + 'static) -> std::sync::mpsc::Receiver<String> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let text = std::io::read_to_string(BufReader::new(pipe)).unwrap_or_default();
        // The receiver is gone if the leg was stopped.
        let _ = sender.send(text);
    });
    receiver
}

/// Prints a progress line that is overwritten, on a terminal only.
pub(crate) fn show_progress(text: &str) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r\x1b[K{text}");
        let _ = stderr.flush();
    }
}

/// The HTTP server, in a process of its own. It ends when its stdin closes.
pub(crate) struct Server {
    pub(crate) origins: Vec<String>,
    /// Folder in which processes leave their negotiation records.
    negotiations: PathBuf,
    stdin: Option<ChildStdin>,
    child: Child,
}

impl Server {
    /// Starts the server on this many ports.
    pub(crate) fn start(ports: usize) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve-http", "--ports", &ports.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the server")?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("the server's stdout")?;
        let origins: Vec<String> = BufReader::new(stdout).lines().take(ports).collect::<Result<_, _>>()?;
        ensure!(origins.len() == ports, "the server did not start");
        let negotiations = std::env::temp_dir().join(format!("bowline-bench-{}", std::process::id()));
        Ok(Self { origins, negotiations, stdin, child })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stdin.take();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.negotiations);
    }
}

// Every scenario has a port for each of its servers, and the lists can be told apart.
const _: () = assert!(SMALL_LIST < MEDIUM_LIST && MEDIUM_LIST < LARGE_LIST && LISTS_HELD <= PORTS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gist_of_a_drawn_traceback_is_its_last_sentence() {
        let drawn = "  + Exception Group Traceback\n    | ValueError: too large\n    +--------\n";
        assert_eq!(last_sentence(drawn), "ValueError: too large");
        assert_eq!(last_sentence("\n"), "");
    }
}
