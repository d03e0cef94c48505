//! Counts the calls of a host that fail while the server behind a gateway is killed and restarted,
//! or loses its sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use parking_lot::Mutex;
use tokio::runtime::Runtime;

use super::http_host::{HostConnection, HttpHost};
use super::process::{GatewayProcess, HostEndpoint, Upstream};
use super::way::Way;
use crate::client::steady_load::call_at_rate;
use crate::command::TempHome;
use crate::job::{CallLog, SteadyLoad};
use crate::recovery::figures::{Figures, Outage};
use crate::recovery::test_server::{ServerKind, TestServer, non_ephemeral_port, sleep};
use crate::recovery::{CALL_COUNT, CALL_INTERVAL_SECS, CALL_TIMEOUT, LegResult};
use crate::runner::show_progress;

/// Runs every server, with `bowline serve` and, if `peers`, another gateway over HTTP.
pub(super) fn measure(runtime: &Runtime, peers: bool) -> Vec<LegResult> {
    let mut results = Vec::new();
    for kind in [ServerKind::Rmcp, ServerKind::Lost404, ServerKind::Lost400Text, ServerKind::Lost400Json] {
        for (name, way) in [("serve", Way::ServeLegacy), ("fastmcp", Way::FastMcp)] {
            if way == Way::FastMcp && !peers {
                continue;
            }
            show_progress(&format!("{} with {name}", kind.name()));
            let figures = run(runtime, kind, way).map_err(|error| format!("{error:#}"));
            results.push(LegResult { kind, name, figures });
        }
    }
    show_progress("");
    results
}

fn run(runtime: &Runtime, kind: ServerKind, way: Way) -> anyhow::Result<Figures> {
    let mut server = TestServer::start(kind)?;
    let (_process, endpoint) = if way == Way::FastMcp {
        let port = non_ephemeral_port()?;
        let command = way.peer_command(&server.url(), port)?;
        runtime.block_on(GatewayProcess::other(command, format!("http://127.0.0.1:{port}/mcp")))?
    } else {
        GatewayProcess::serve(TempHome::create()?, &[Upstream::Url(server.url())])?
    };
    let host = runtime.block_on(open_host(&endpoint))?;
    let load = SteadyLoad {
        url: endpoint.url,
        sse: false,
        tool: kind.tool().to_owned(),
        arguments: kind.arguments(),
        every: CALL_INTERVAL_SECS,
        calls: CALL_COUNT,
        limit: CALL_TIMEOUT.as_secs_f64(),
    };
    let calls = runtime.spawn(make_calls(host, load));
    let mut outages: Vec<Outage> = Vec::new();
    for pause in kind.pauses() {
        sleep(*pause);
        outages.extend(server.inject_fault()?);
    }
    let calls = runtime.block_on(calls).context("the calls")??;
    let log = CallLog { revision: None, calls };
    Ok(Figures::from_log(&log, outages, server.handshakes()))
}

async fn open_host(endpoint: &HostEndpoint) -> anyhow::Result<HttpHost> {
    let host = HttpHost::open(&endpoint.url, endpoint.token.as_deref()).await?;
    host.connect().await?.count_tools().await?;
    Ok(host)
}

async fn make_calls(host: HttpHost, load: SteadyLoad) -> anyhow::Result<Vec<crate::job::CallTiming>> {
    let idle: Arc<Mutex<Vec<HostConnection>>> = Arc::default();
    let next_id = Arc::new(AtomicU64::new(FIRST_CALL_ID));
    let tool: Arc<str> = load.tool.as_str().into();
    let call = || {
        let (host, idle, tool) = (host.clone(), Arc::clone(&idle), Arc::clone(&tool));
        let id = next_id.fetch_add(1, Ordering::Relaxed);
        async move {
            let kept = {
                let mut idle = idle.lock();
                idle.retain(|connection| !connection.is_closed());
                idle.pop()
            };
            let outcome = async {
                let mut connection = match kept {
                    Some(connection) => connection,
                    None => host.connect().await?,
                };
                connection.call(&tool, id).await?;
                anyhow::Ok(connection)
            };
            let connection = outcome.await.map_err(|error| format!("{error:#}"))?;
            idle.lock().push(connection);
            Ok(())
        }
    };
    call_at_rate(&load, call).await
}

/// Ids of calls begin above those of the other requests.
const FIRST_CALL_ID: u64 = 1_000;
