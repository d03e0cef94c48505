//! Measures the resident memory of `bowline serve` over HTTP.

use std::time::Duration;

use anyhow::ensure;
use http::Response;
use hyper::body::Incoming;
use serde::Serialize;

use super::http_host::{HostConnection, HttpHost};
use super::process::{GatewayProcess, Upstream};
use crate::command::TempHome;
use crate::measure::{pss_of, rss_of};
use crate::runner::{Server, show_progress};
use crate::scenario::{LARGE_LIST, MEDIUM_LIST};

/// What was measured, in bytes. `None` where the system does not tell.
#[derive(Debug, Default, Serialize)]
pub(super) struct MemoryResults {
    /// With [`FEW_UPSTREAMS`] servers of ten tools, and a host that has listed them.
    pub(super) idle: Option<f64>,
    pub(super) idle_pss: Option<f64>,
    /// Growth for each further server of ten tools.
    pub(super) per_upstream: Option<f64>,
    /// Growth for each server whose list has 830 tools instead of ten.
    pub(super) per_large_list: Option<f64>,
    /// Growth for each further session, in front of one server of 2026-07-28, which sessions share.
    pub(super) per_session: Option<f64>,
    /// As above, with an open stream for messages of the server.
    pub(super) per_streaming_session: Option<f64>,
    /// Growth for each further session in front of one legacy server, which sessions do not share.
    pub(super) per_legacy_session: Option<f64>,
}

/// The number of servers at first, and later.
pub(super) const FEW_UPSTREAMS: usize = 10;
pub(super) const MANY_UPSTREAMS: usize = 60;
/// Sessions of hosts.
pub(super) const SESSIONS: usize = 1_000;

/// Measures all of it.
pub(super) async fn measure(server: &Server) -> anyhow::Result<MemoryResults> {
    let mut results = MemoryResults::default();
    show_progress("memory of servers");
    let few = measure_idle(server, "ten", FEW_UPSTREAMS, MEDIUM_LIST).await?;
    let many = measure_idle(server, "ten", MANY_UPSTREAMS, MEDIUM_LIST).await?;
    let large = measure_idle(server, "list", FEW_UPSTREAMS, LARGE_LIST).await?;
    (results.idle, results.idle_pss) = (few.rss, few.pss);
    results.per_upstream = growth(few, many, MANY_UPSTREAMS - FEW_UPSTREAMS);
    results.per_large_list = growth(few, large, FEW_UPSTREAMS);

    show_progress("memory of sessions");
    let shared = SessionGrowth::measure(server, "modern").await?;
    results.per_session = growth(shared.before, shared.open, SESSIONS);
    results.per_streaming_session = growth(shared.before, shared.streaming, SESSIONS);
    let own = SessionGrowth::measure(server, "legacy").await?;
    results.per_legacy_session = growth(own.before, own.open, SESSIONS);
    show_progress("");
    Ok(results)
}

/// The memory of a process.
#[derive(Debug, Clone, Copy)]
struct Memory {
    rss: Option<f64>,
    pss: Option<f64>,
}

/// The memory before and after many sessions.
struct SessionGrowth {
    before: Memory,
    open: Memory,
    streaming: Memory,
}

async fn measure_idle(server: &Server, path: &str, servers: usize, tools: usize) -> anyhow::Result<Memory> {
    let urls = server.origins.iter().take(servers).map(|origin| Upstream::Url(format!("{origin}/{path}")));
    let (process, endpoint) = GatewayProcess::serve(TempHome::create()?, &urls.collect::<Vec<_>>())?;
    let host = HttpHost::open(&endpoint.url, endpoint.token.as_deref()).await?;
    let mut connection = host.connect().await?;
    let listed = connection.count_tools().await?;
    ensure!(listed == servers * tools, "{listed} tools are listed, expected {}", servers * tools);
    Memory::settled(process.pid()).await
}

impl SessionGrowth {
    async fn measure(server: &Server, path: &str) -> anyhow::Result<Self> {
        let upstream = Upstream::Url(format!("{}/{path}", server.origins[0]));
        let (process, endpoint) = GatewayProcess::serve(TempHome::create()?, &[upstream])?;
        let host = HttpHost::without_session(&endpoint.url, endpoint.token.as_deref())?;
        let mut hosts = Vec::new();
        let mut connection = Self::open_sessions(host.connect().await?, 1, &mut hosts).await?;
        let before = Memory::settled(process.pid()).await?;
        hosts.clear();
        connection = Self::open_sessions(connection, SESSIONS, &mut hosts).await?;
        let open = Memory::settled(process.pid()).await?;
        let mut streams: Vec<(HostConnection, Response<Incoming>)> = Vec::new();
        for host in &hosts {
            let mut connection = host.connect().await?;
            let stream = connection.open_stream().await?;
            streams.push((connection, stream));
        }
        let streaming = Memory::settled(process.pid()).await?;
        drop((connection, streams));
        Ok(Self { before, open, streaming })
    }

    /// Opens sessions one after the other on one connection. Each lists its tools.
    async fn open_sessions(
        mut connection: HostConnection,
        count: usize,
        hosts: &mut Vec<HttpHost>,
    ) -> anyhow::Result<HostConnection> {
        for _ in 0..count {
            connection = connection.open_session().await?;
            ensure!(connection.count_tools().await? > 0, "no tools are listed");
            hosts.push(connection.host().clone());
        }
        Ok(connection)
    }
}

impl Memory {
    /// Returns the memory of a process that has had time to finish what it does in the background.
    async fn settled(pid: u32) -> anyhow::Result<Self> {
        tokio::time::sleep(SETTLE_TIME).await;
        #[expect(clippy::cast_precision_loss, reason = "memory stays far below 2^52 bytes")]
        let bytes = |value: Option<u64>| value.map(|bytes| bytes as f64);
        Ok(Self { rss: bytes(rss_of(pid)), pss: bytes(pss_of(pid)) })
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay small")]
fn growth(before: Memory, after: Memory, items: usize) -> Option<f64> {
    Some((after.rss? - before.rss?) / items as f64)
}

const SETTLE_TIME: Duration = Duration::from_millis(1500);
