//! The client process: it holds the clients and nothing else, so that its resources are theirs.
//!
//! It keeps no ledger. Each outcome is sent to the parent as one line, so memory that grows with
//! the number of calls is a leak.

mod footprint;
mod load;

use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bowline::{CallOptions, Client, Server};
use serde_json::json;
use tokio::sync::mpsc;

use crate::limits::{CONNECT_TIMEOUT, RECONNECT_WAIT};
use crate::messages::{Endpoint, Footprint, MemorySample, Message, Order, Plan, WorldPlan};
use crate::world::KINDS;

/// Runs the client process until the parent ends it.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut first = String::new();
    std::io::stdin().lock().read_line(&mut first)?;
    let plan: Plan = serde_json::from_str(&first).context("the plan on the first line of stdin")?;
    let (sender, orders) = mpsc::unbounded_channel();
    // A thread, because a task of the runtime would be counted among those of the clients.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(Ok(order)) = line.map(|line| serde_json::from_str(&line)) else { break };
            let _ = sender.send(order);
        }
        // Dropping the sender ends the process: without a parent there is nobody to report to.
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // On a worker: the blocking thread would count as another task.
    let clients = runtime.spawn(follow_orders(plan, orders));
    let ended = runtime.block_on(clients).context("the client process panicked")?;
    runtime.shutdown_timeout(Duration::from_secs(5));
    ended
}

async fn follow_orders(plan: Plan, mut orders: mpsc::UnboundedReceiver<Order>) -> anyhow::Result<()> {
    // What is opened once and kept (a resolver, a watchdog) is no leak: one pass without faults
    // opens all of it.
    for world in connect_all(&plan).await? {
        world.close().await;
    }
    let before = Footprint::wait_until_stable(&Footprint::QUIET).await;

    let mut worlds = connect_all(&plan).await?;
    emit(&Message::Ready);
    while let Some(order) = orders.recv().await {
        match order {
            Order::Load { millis } => {
                run_load(&worlds, Duration::from_millis(millis)).await?;
                emit(&Message::Loaded);
            }
            Order::Close => {
                for world in &worlds {
                    world.check_recovery().await;
                }
                for world in worlds.drain(..) {
                    world.close().await;
                }
                emit(&Message::Closed { before, after: Footprint::wait_until_stable(&before).await });
            }
            Order::Exit => return Ok(()),
        }
    }
    bail!("the parent process ended")
}

async fn run_load(worlds: &[ClientWorld], duration: Duration) -> anyhow::Result<()> {
    let until = Instant::now() + duration;
    let callers: Vec<_> = worlds.iter().flat_map(|world| load::start(world, until)).collect();
    let mut sample = tokio::time::interval(SAMPLE_INTERVAL);
    while Instant::now() < until {
        sample.tick().await;
        emit(&Message::Memory(MemorySample::measure()));
    }
    for caller in callers {
        caller.await.context("a caller panicked")?;
    }
    Ok(())
}

/// The clients of one server.
struct ClientWorld {
    index: usize,
    name: &'static str,
    seed: u64,
    verbose: bool,
    clients: Vec<Client>,
}

async fn connect_all(plan: &Plan) -> anyhow::Result<Vec<ClientWorld>> {
    let mut worlds = Vec::new();
    for (index, world) in plan.worlds.iter().enumerate() {
        let kind = KINDS.get(world.kind).context("a kind of world that this program knows")?;
        let connected = ClientWorld::connect(index, world, plan.verbose).await;
        worlds.push(connected.with_context(|| format!("the world {}", kind.name))?);
    }
    Ok(worlds)
}

impl ClientWorld {
    async fn connect(index: usize, plan: &WorldPlan, verbose: bool) -> anyhow::Result<Self> {
        let kind = &KINDS[plan.kind];
        let mut clients = Vec::new();
        for _ in 0..CLIENTS_PER_WORLD {
            let server = build_server(kind.name, &plan.endpoint)?
                .with_protocol(kind.protocol)
                .with_connect_timeout(CONNECT_TIMEOUT)
                .with_reconnect_wait(RECONNECT_WAIT);
            let client = Client::connect(server).await?;
            // As a host does. The client learns from the list which tools may be retried.
            client.list_tools().await?;
            clients.push(client);
        }
        Ok(Self { index, name: kind.name, seed: plan.seed, verbose, clients })
    }

    /// Reports each client that cannot call although all faults have ended.
    async fn check_recovery(&self) {
        let options = CallOptions::new().idle_timeout(CONNECT_TIMEOUT).timeout(CONNECT_TIMEOUT);
        for (number, client) in self.clients.iter().enumerate() {
            let begun = Instant::now();
            loop {
                match client.call_tool_with("look", &json!({ "n": 0 }), &options).await {
                    Ok(_) => break,
                    Err(_) if begun.elapsed() < RECOVERY_TIMEOUT => {}
                    Err(error) => {
                        self.report(format!(
                            "client {number} does not work {RECOVERY_TIMEOUT:?} after the last fault: {error}"
                        ));
                        break;
                    }
                }
            }
        }
    }

    async fn close(mut self) {
        let (mut recoveries, mut sessions_lost) = (0, 0);
        for client in std::mem::take(&mut self.clients) {
            let health = client.health();
            recoveries += health.recoveries;
            sessions_lost += health.sessions_lost;
            if tokio::time::timeout(CLOSE_TIMEOUT, client.close()).await.is_err() {
                self.report(format!("a client was not closed within {CLOSE_TIMEOUT:?}"));
            }
        }
        emit(&Message::Health { world: self.index, recoveries, sessions_lost });
    }

    fn report(&self, text: String) {
        if self.verbose {
            eprintln!("{}: {text}", self.name);
        }
        emit(&Message::Violation { world: self.index, text });
    }
}

fn build_server(name: &str, endpoint: &Endpoint) -> anyhow::Result<Server> {
    Ok(match endpoint {
        Endpoint::Http { url } => Server::http(name, url.clone()).build()?,
        Endpoint::Sse { url } => Server::sse(name, url.clone()).build()?,
        Endpoint::Stdio { program, args, env } => {
            let server = Server::stdio(name, program).args(args.clone());
            env.iter()
                .fold(server, |server, (name, value)| server.env(name.clone(), value.clone()))
                .build()?
        }
    })
}

/// Writes one line to the parent. The write blocks when the pipe is full; the parent reads all the
/// time.
fn emit(message: &Message) {
    let Ok(mut line) = serde_json::to_vec(message) else { return };
    line.push(b'\n');
    if std::io::stdout().lock().write_all(&line).is_err() {
        // The parent is gone, and with it the reason to run.
        std::process::exit(1);
    }
}

const CLIENTS_PER_WORLD: usize = 2;
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Time to close a client: shutting a server process down takes two grace periods at most.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time after the last fault within which every connection must work.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(20);
