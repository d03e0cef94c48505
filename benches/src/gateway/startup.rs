//! Measures the time from the start of `bowline serve` to the tool list, with cached lists.

use std::process::Command;
use std::time::Instant;

use anyhow::ensure;
use serde::Serialize;

use super::http_host::HttpHost;
use super::process::{GatewayProcess, Upstream, serve_stdio_command};
use super::stdio_host::StdioHost;
use crate::command::{TempHome, bowline_program};
use crate::report::median;
use crate::runner::{Server, show_progress};
use crate::scenario::{LARGE_LIST, MEDIUM_LIST};

/// Milliseconds, medians of [`STARTS`].
#[derive(Debug, Serialize)]
pub(super) struct StartupResults {
    /// `bowline --version`, which does nothing else.
    pub(super) version: Option<f64>,
    /// Over pipes, with ten tools.
    pub(super) stdio_small: Option<f64>,
    /// Over pipes, with 830 tools.
    pub(super) stdio_large: Option<f64>,
    /// Over HTTP, from the start to the list of a new session.
    pub(super) http_small: Option<f64>,
    pub(super) http_large: Option<f64>,
}

/// Measures all of it, interleaved.
pub(super) async fn measure(server: &Server) -> anyhow::Result<StartupResults> {
    let urls = ["ten", "list"].map(|path| format!("{}/{path}", server.origins[0]));
    let mut homes = Vec::new();
    for (url, tools) in urls.iter().zip([MEDIUM_LIST, LARGE_LIST]) {
        let mut home = TempHome::create()?;
        // Caches the lists.
        start_stdio(&home, url, tools).await?;
        home = start_http(home, url, tools).await?.1;
        homes.push(home);
    }
    let mut times: [Vec<f64>; 5] = Default::default();
    for number in 0..STARTS {
        show_progress(&format!("start {}/{STARTS}", number + 1));
        let begun = Instant::now();
        Command::new(bowline_program()?).arg("--version").output()?;
        times[0].push(begun.elapsed().as_secs_f64());
        for (index, tools) in [MEDIUM_LIST, LARGE_LIST].into_iter().enumerate() {
            times[1 + index].push(start_stdio(&homes[index], &urls[index], tools).await?);
            let home = std::mem::replace(&mut homes[index], TempHome::create()?);
            let (seconds, home) = start_http(home, &urls[index], tools).await?;
            homes[index] = home;
            times[3 + index].push(seconds);
        }
    }
    show_progress("");
    let [version, stdio_small, stdio_large, http_small, http_large] =
        times.map(|seconds| median(seconds.into_iter().map(|seconds| seconds * 1e3)));
    Ok(StartupResults { version, stdio_small, stdio_large, http_small, http_large })
}

async fn start_stdio(home: &TempHome, url: &str, tools: usize) -> anyhow::Result<f64> {
    let command = serve_stdio_command(home, &[Upstream::Url(url.to_owned())])?;
    let begun = Instant::now();
    let mut host = StdioHost::start(command)?;
    host.open_session().await?;
    let listed = host.count_tools().await?;
    let seconds = (host.read_at() - begun).as_secs_f64();
    ensure!(listed == tools, "{listed} tools are listed, expected {tools}");
    host.close().await?;
    Ok(seconds)
}

async fn start_http(home: TempHome, url: &str, tools: usize) -> anyhow::Result<(f64, TempHome)> {
    let begun = Instant::now();
    let (process, endpoint) = GatewayProcess::serve(home, &[Upstream::Url(url.to_owned())])?;
    let host = HttpHost::open(&endpoint.url, endpoint.token.as_deref()).await?;
    let listed = host.connect().await?.count_tools().await?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(listed == tools, "{listed} tools are listed, expected {tools}");
    Ok((seconds, process.stop()?))
}

/// Starts of each kind.
const STARTS: u32 = 11;
