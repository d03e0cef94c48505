//! Hosts that say `initialize` and are never heard of again: when their sessions have been idle for long
//! enough, nothing of them is left.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::books::Books;
use super::process::{GatewayProcess, StateFolder};
use super::servers::Servers;

/// Servers that keep sessions, of which each host has its own.
const SERVERS: u32 = 2;
/// How long a session may be idle.
const SESSION_IDLE: Duration = Duration::from_millis(500);
/// How many hosts come at once.
const CONCURRENT_HOSTS: u32 = 32;
/// How long it may take until a server has no session any more.
const END_LIMIT: Duration = Duration::from_secs(60);
/// How much more memory the gateway may have after the second batch than after the first, in kilobytes.
const MEMORY_ALLOWANCE: u64 = 16 * 1024;

/// Lets two batches of `count` hosts vanish. Returns what is wrong afterward.
pub(super) async fn run(count: u32) -> anyhow::Result<Vec<String>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let servers = Servers::start(SERVERS, &Arc::new(Books::default())).await;
    let folder = StateFolder::create()?;
    let gateway = GatewayProcess::start_with_idle(&servers.plan(), &folder, SESSION_IDLE).await?;
    let begun = Instant::now();
    let mut memory = Vec::new();
    for _ in 0..2 {
        let mut hosts = JoinSet::new();
        for number in 0..CONCURRENT_HOSTS {
            let url = gateway.url();
            let share = count / CONCURRENT_HOSTS + u32::from(number < count % CONCURRENT_HOSTS);
            hosts.spawn(async move {
                for _ in 0..share {
                    initialize(&url).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(host) = hosts.join_next().await {
            host??;
        }
        let end = Instant::now() + END_LIMIT;
        while !servers.leftovers().is_empty() && Instant::now() < end {
            sleep(SESSION_IDLE / 4).await;
        }
        memory.extend(gateway.resident_memory());
    }
    let mut violations = servers.leftovers();
    if let [first, second] = memory[..]
        && second > first + MEMORY_ALLOWANCE
    {
        violations.push(format!("hosts that vanished grew the memory from {first} to {second} kB"));
    }
    violations.extend(folder.session_files()?.into_iter().map(|name| format!("the file {name} is left")));
    ensure!(gateway.stop().await?, "the gateway did not end in good order");
    println!(
        "2 x {count} hosts vanished in {:.1} s; memory of the gateway: {memory:?} kB",
        begun.elapsed().as_secs_f64()
    );
    Ok(violations)
}

/// Begins a session, and drops the connection.
async fn initialize(url: &str) -> anyhow::Result<()> {
    let address = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).context("a URL")?;
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "vanishing", "version": "1"},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, \
         text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    let mut status = String::new();
    timeout(END_LIMIT, BufReader::new(stream).read_line(&mut status)).await??;
    ensure!(status.starts_with("HTTP/1.1 200"), "a host is refused: {status}");
    Ok(())
}
