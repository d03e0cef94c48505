//! Measures the verbs that a person waits for: `tools` and `search` of cached lists, `import` of the files of
//! hosts, and `connect` from its start to the first tool list, as a program and from its npm package, beside
//! mcp-remote.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::command::{TempHome, bowline_program, node_command, npm_command};
use crate::gateway::{StdioHost, Way, connect_command};
use crate::report::median;
use crate::runner::{Server, show_progress};
use crate::scenario::{HUNDRED_LIST, SMALL_LIST};

/// A figure, and the most that it may be.
struct Bar {
    what: &'static str,
    value: Option<f64>,
    at_most: f64,
    unit: &'static str,
}

/// Measures all of it, interleaved, and prints what passes.
pub(crate) fn run() -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("warning: not an optimized build; the figures mean nothing (use --profile dist)");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let task = runtime.spawn(async {
        let server = Server::start(1)?;
        measure(&server.origins[0]).await
    });
    let mut missed = 0;
    for bar in runtime.block_on(task)?? {
        let Bar { what, value, at_most, unit } = bar;
        let (verdict, value) = match value {
            Some(value) => {
                missed += usize::from(value > at_most);
                (if value <= at_most { "pass" } else { "FAIL" }, format!("{value:.2}{unit}"))
            }
            None => ("-", "not measured".to_owned()),
        };
        println!("  {verdict:<6}{what:<58}{value:>14}, at most {at_most}{unit}");
    }
    ensure!(missed == 0, "{missed} figures are above what they may be");
    Ok(())
}

async fn measure(origin: &str) -> anyhow::Result<Vec<Bar>> {
    let home = TempHome::create()?;
    let one = write_config(&home, "one.toml", origin, 1)?;
    let hundred = write_config(&home, "hundred.toml", origin, SERVERS)?;
    let files = write_host_files(&home)?;
    for config in [&one, &hundred] {
        run_verb(&home, config, &["tools", "--refresh"], HUNDRED_LIST)?;
    }
    let mut times: [Vec<f64>; 8] = Default::default();
    for number in 0..RUNS {
        show_progress(&format!("run {}/{RUNS}", number + 1));
        times[0].push(run_verb(&home, &one, &["--version"], 1)?);
        times[1].push(run_verb(&home, &one, &["tools"], HUNDRED_LIST)?);
        times[2].push(run_verb(&home, &hundred, &["search", "search", "records"], 1)?);
        let mut import = vec!["import", "--dry-run"];
        import.extend(files.iter().filter_map(|file| file.to_str()));
        times[3].push(run_verb(&home, &home.path().join("none.toml"), &import, FILES)?);
        let url = format!("{origin}/legacy");
        times[4].push(list_over_pipes(connect_command(&home, &url)?).await?);
        let mut remote = Way::McpRemote.peer_command(&url, 0)?;
        remote.envs(home.variables());
        times[5].push(list_over_pipes(remote).await?);
        let mut npm = npm_command()?;
        npm.args(["connect", &url]).envs(home.variables());
        times[6].push(list_over_pipes(npm).await?);
        times[7].push(start_node()?);
    }
    show_progress("");
    let [_, _, _, _, connect, remote, npm, node] = &times;
    let share = median(connect.iter().zip(remote).map(|(ours, theirs)| ours / theirs));
    // Node is started for mcp-remote as well. `npx` links the program itself, and starts no Node for it.
    let npm_share =
        median(npm.iter().zip(node).zip(remote).map(|((npm, node), remote)| (npm - node) / remote));
    let launch = npm.iter().zip(node).zip(connect).map(|((npm, node), connect)| npm - node - connect);
    let launch = median(launch);
    let [version, tools, search, import, connect, remote, npm, node] =
        times.map(|times| median(times.into_iter()));
    let shown = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), |value| format!("{value:.1}"));
    println!(
        "bowline --version {} ms, node -e 0 {} ms; to the first list: bowline connect {} ms, from npm {} ms, \
         mcp-remote {} ms",
        shown(version),
        shown(node),
        shown(connect),
        shown(npm),
        shown(remote)
    );
    Ok(vec![
        Bar { what: "bowline tools, a cached list of 100 tools", value: tools, at_most: 15.0, unit: " ms" },
        Bar { what: "bowline search, 100 servers of 100 tools", value: search, at_most: 30.0, unit: " ms" },
        Bar { what: "bowline import, ten files", value: import, at_most: 100.0, unit: " ms" },
        Bar { what: "bowline connect to the first list", value: share, at_most: 0.05, unit: " x mcp-remote" },
        Bar {
            what: "the same from npm through Node, less the start of Node",
            value: npm_share,
            at_most: 0.05,
            unit: " x mcp-remote",
        },
        Bar { what: "what the script of npm adds to Node's start", value: launch, at_most: 3.0, unit: " ms" },
    ])
}

/// Runs a verb, and returns the milliseconds that it took. It has to print at least this many lines.
fn run_verb(home: &TempHome, config: &Path, args: &[&str], lines: usize) -> anyhow::Result<f64> {
    let mut command = Command::new(bowline_program()?);
    command.arg("--config").arg(config).args(args).envs(home.variables()).current_dir(home.path());
    let begun = Instant::now();
    let output = command.output()?;
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
    let printed = output.stdout.split(|byte| *byte == b'\n').count() - 1;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && printed >= lines, "{args:?} printed {printed} lines: {stderr}");
    Ok(milliseconds)
}

/// Runs Node with a script that does nothing, and returns the milliseconds that it took.
fn start_node() -> anyhow::Result<f64> {
    let mut command = node_command()?;
    command.args(["-e", "0"]);
    let begun = Instant::now();
    let status = command.status()?;
    ensure!(status.success(), "node -e 0 ended with {status}");
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

/// Starts a relay, and returns the milliseconds until the tools of the server behind it were listed.
async fn list_over_pipes(command: Command) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let mut host = StdioHost::start(command)?;
    host.open_session().await?;
    let listed = host.count_tools().await?;
    let milliseconds = (host.read_at() - begun).as_secs_f64() * 1e3;
    ensure!(listed == SMALL_LIST, "{listed} tools are listed, expected {SMALL_LIST}");
    host.close().await?;
    Ok(milliseconds)
}

/// Writes a configuration with this many servers of a hundred tools.
fn write_config(home: &TempHome, name: &str, origin: &str, servers: usize) -> anyhow::Result<PathBuf> {
    let mut text = String::new();
    for number in 0..servers {
        writeln!(text, "[servers.bench{number}]\nurl = '{origin}/hundred?server={number}'")?;
    }
    let path = home.path().join(name);
    std::fs::write(&path, text).context("write a configuration")?;
    Ok(path)
}

/// Writes files as hosts have them, with ten servers each.
fn write_host_files(home: &TempHome) -> anyhow::Result<Vec<PathBuf>> {
    (0..FILES)
        .map(|file| {
            let server = |number: usize| {
                let entry = json!({ "command": "npx", "args": ["-y", format!("server-{file}-{number}")] });
                (format!("server-{file}-{number}"), entry)
            };
            let servers: serde_json::Map<String, Value> = (0..10).map(server).collect();
            let path = home.path().join(format!("mcp{file}.json"));
            std::fs::write(&path, json!({ "mcpServers": servers }).to_string())?;
            Ok(path)
        })
        .collect()
}

const RUNS: u32 = 15;
const SERVERS: usize = 100;
const FILES: usize = 10;
