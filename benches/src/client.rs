//! Runs the Rust legs. Each runs one job in a process of its own and prints one sample.

mod bowline;
pub(crate) mod floor_http;
mod floor_stdio;
pub(crate) mod lanes;
mod relay;
mod rmcp;
pub(crate) mod steady_load;

use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use crate::client::lanes::Lane;
use crate::job::{Endpoint, Job, Sample};
use crate::measure::{Stopwatch, peak_rss, rss};
use crate::peer::Peer;

/// A client that can run any job over HTTP.
trait Leg: Clone + Send + Sync + 'static {
    /// One connection to one server.
    type Connection: Connection;

    /// Opens a connection, handshake included.
    fn connect(&self, endpoint: Endpoint) -> impl Future<Output = anyhow::Result<Self::Connection>> + Send;
}

/// A connection of a client under measurement.
trait Connection: Clone + Send + Sync + 'static {
    /// A complete tool list as the client returns it.
    type List: Send + 'static;

    /// Calls `payload` and returns the length of the text received.
    fn call(&mut self, bytes: usize) -> impl Future<Output = anyhow::Result<usize>> + Send;

    /// Fetches the complete tool list.
    fn list(&mut self) -> impl Future<Output = anyhow::Result<Self::List>> + Send;

    /// Returns the number of tools in a list.
    fn count(list: &Self::List) -> usize;

    /// Returns the negotiated revision, if the client exposes it.
    fn revision(&self) -> Option<String>;
}

/// Runs the job with the peer and prints the sample.
pub(crate) fn run(peer: Peer, job: &str) -> anyhow::Result<()> {
    let job: Job = serde_json::from_str(job).context("the job")?;
    // The reqwest legs build TLS settings although nothing here is encrypted. This is the only
    // installation in the process, so it cannot fail.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // On a worker and not on the blocking thread: otherwise every wake-up would cross threads.
    let task = runtime.spawn(async move {
        if let Job::Steady(job) = job {
            return Ok(serde_json::to_string(&steady_load::run(peer, job).await?)?);
        }
        let sample = match peer {
            Peer::Floor => run_floor(job).await,
            Peer::Bowline => match job {
                Job::Relay { url, tools } => relay::measure(&url, tools).await,
                job => run_job(bowline::BowlineLeg::new(&job), job).await,
            },
            Peer::Rmcp => run_job(rmcp::RmcpLeg::Default, job).await,
            Peer::RmcpPooled => run_job(rmcp::RmcpLeg::pooled(), job).await,
            Peer::Typescript | Peer::Python => bail!("{} is not a Rust client", peer.name()),
        }?;
        Ok(serde_json::to_string(&sample)?)
    });
    println!("{}", runtime.block_on(task)??);
    // Shutdown is not measured, and a client that does it badly must not delay the run.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

async fn run_floor(job: Job) -> anyhow::Result<Sample> {
    match job {
        Job::Calls { endpoint: Endpoint::Stdio(command), bytes, lanes, limits } => {
            floor_stdio::measure_calls(&command, bytes, lanes, limits).await
        }
        // A raw connection carries one exchange at a time, so every lane has its own.
        Job::Calls { endpoint: Endpoint::Http(url), bytes, lanes, limits } => {
            let mut callers = Vec::new();
            for _ in 0..lanes {
                let connection = floor_http::RawConnection::open(&url).await?;
                callers.push(floor_http::RawCaller::new(connection, bytes));
            }
            lanes::drive(callers, limits).await
        }
        Job::Lists { url, limits, .. } => {
            let lister = floor_http::RawLister::new(floor_http::RawConnection::open(&url).await?);
            lanes::drive(vec![lister], limits).await
        }
        Job::Startup { urls, tools } => {
            let watch = Stopwatch::start();
            let tasks: Vec<_> = urls
                .into_iter()
                .map(|url| {
                    tokio::spawn(async move {
                        let mut raw = floor_http::RawConnection::open(&url).await?;
                        let list = raw.fetch_tools().await?;
                        ensure!(list.len() == tools, "a list of {} tools, expected {tools}", list.len());
                        anyhow::Ok((raw, list))
                    })
                })
                .collect();
            let held = join(tasks).await?;
            Ok(single_sample(&watch, held.len()))
        }
        Job::Memory { urls, .. } => {
            let mut open = Vec::new();
            for url in &urls {
                open.push(floor_http::RawConnection::open(url).await?);
            }
            let watch = Stopwatch::start();
            let before = rss();
            let mut held = Vec::new();
            for raw in &mut open {
                held.push(raw.fetch_list().await?);
            }
            Ok(Sample {
                bytes_per_list: growth_per_item(before, held.len()),
                ..single_sample(&watch, held.len())
            })
        }
        Job::Idle { urls, tools } => {
            let open = async |url: &str| {
                let mut raw = floor_http::RawConnection::open(url).await?;
                let list = raw.fetch_tools().await?;
                ensure!(list.len() == tools, "a list of {} tools, expected {tools}", list.len());
                anyhow::Ok((raw, list))
            };
            let _warm = open(urls.first().context("a server")?).await?;
            let watch = Stopwatch::start();
            let before = rss();
            let mut held = Vec::new();
            for url in &urls {
                held.push(open(url).await?);
            }
            Ok(Sample {
                bytes_per_server: growth_per_item(before, held.len()),
                ..single_sample(&watch, held.len())
            })
        }
        Job::Open { urls, .. } => {
            let watch = Stopwatch::start();
            let tasks = urls
                .into_iter()
                .map(|url| tokio::spawn(async move { floor_http::RawConnection::open(&url).await }));
            let held = join(tasks.collect()).await?;
            Ok(single_sample(&watch, held.len()))
        }
        Job::Relay { .. } => bail!("the floor has no relay"),
        Job::Steady(_) => bail!("the floor recovers from nothing"),
    }
}

async fn run_job<L: Leg>(leg: L, job: Job) -> anyhow::Result<Sample> {
    match job {
        Job::Calls { endpoint, bytes, lanes, limits } => {
            let connection = leg.connect(endpoint).await?;
            let callers = (0..lanes).map(|_| CallLane { connection: connection.clone(), bytes });
            let sample = lanes::drive(callers.collect(), limits).await?;
            Ok(Sample { revision: connection.revision(), ..sample })
        }
        Job::Lists { url, tools, limits } => {
            let connection = leg.connect(Endpoint::Http(url)).await?;
            let lister = ListLane { connection: connection.clone(), tools };
            let sample = lanes::drive(vec![lister], limits).await?;
            Ok(Sample { revision: connection.revision(), ..sample })
        }
        Job::Startup { urls, tools } => {
            let watch = Stopwatch::start();
            let tasks: Vec<_> = urls
                .into_iter()
                .map(|url| {
                    let leg = leg.clone();
                    tokio::spawn(async move {
                        let mut connection = leg.connect(Endpoint::Http(url)).await?;
                        let list = connection.list().await?;
                        check_tool_count::<L::Connection>(&list, tools)?;
                        anyhow::Ok((connection, list))
                    })
                })
                .collect();
            let held = join(tasks).await?;
            let revision = held.first().and_then(|(connection, _)| connection.revision());
            Ok(Sample { revision, ..single_sample(&watch, held.len()) })
        }
        Job::Memory { urls, tools } => {
            let mut open = Vec::new();
            for url in urls {
                open.push(leg.connect(Endpoint::Http(url)).await?);
            }
            let watch = Stopwatch::start();
            let before = rss();
            let mut held = Vec::new();
            for connection in &mut open {
                let list = connection.list().await?;
                check_tool_count::<L::Connection>(&list, tools)?;
                held.push(list);
            }
            let revision = open.first().and_then(Connection::revision);
            let bytes_per_list = growth_per_item(before, held.len());
            Ok(Sample { bytes_per_list, revision, ..single_sample(&watch, held.len()) })
        }
        Job::Idle { urls, tools } => {
            let open = async |url: &str| {
                let mut connection = leg.connect(Endpoint::Http(url.to_owned())).await?;
                let list = connection.list().await?;
                check_tool_count::<L::Connection>(&list, tools)?;
                anyhow::Ok((connection, list))
            };
            // Warms up first: what a client builds once, such as its pool and TLS settings, is not
            // the cost of one more server.
            let warm = open(urls.first().context("a server")?).await?;
            let watch = Stopwatch::start();
            let before = rss();
            let mut held = Vec::new();
            for url in &urls {
                held.push(open(url).await?);
            }
            let bytes_per_server = growth_per_item(before, held.len());
            Ok(Sample { bytes_per_server, revision: warm.0.revision(), ..single_sample(&watch, held.len()) })
        }
        Job::Open { urls, .. } => {
            let watch = Stopwatch::start();
            let tasks = urls.into_iter().map(|url| {
                let leg = leg.clone();
                tokio::spawn(async move { leg.connect(Endpoint::Http(url)).await })
            });
            let held = join(tasks.collect()).await?;
            let revision = held.first().and_then(Connection::revision);
            Ok(Sample { revision, ..single_sample(&watch, held.len()) })
        }
        Job::Relay { .. } => bail!("only this library has a relay"),
        Job::Steady(_) => bail!("a steady stream has no sample"),
    }
}

async fn join<T: 'static>(tasks: Vec<tokio::task::JoinHandle<anyhow::Result<T>>>) -> anyhow::Result<Vec<T>> {
    let mut done = Vec::with_capacity(tasks.len());
    for task in tasks {
        done.push(task.await??);
    }
    Ok(done)
}

fn check_tool_count<C: Connection>(list: &C::List, tools: usize) -> anyhow::Result<()> {
    let found = C::count(list);
    ensure!(found == tools, "a list of {found} tools, expected {tools}");
    Ok(())
}

/// Builds the sample of work that is done once.
fn single_sample(watch: &Stopwatch, done: usize) -> Sample {
    let lap = watch.stop();
    Sample {
        calls: done as u64,
        seconds: lap.seconds,
        cpu_seconds: lap.cpu_seconds,
        peak_rss: peak_rss(),
        ..Sample::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "memory stays far below 2^52 bytes")]
fn growth_per_item(before: Option<u64>, held: usize) -> Option<f64> {
    let grown = rss()?.saturating_sub(before?);
    Some(grown as f64 / held as f64)
}

/// A lane that calls a tool over a shared connection.
struct CallLane<C> {
    connection: C,
    bytes: usize,
}

impl<C: Connection> Lane for CallLane<C> {
    async fn call(&mut self) -> anyhow::Result<()> {
        let received = self.connection.call(self.bytes).await?;
        ensure!(received == self.bytes, "a text of {received} bytes, expected {}", self.bytes);
        Ok(())
    }
}

struct ListLane<C> {
    connection: C,
    tools: usize,
}

impl<C: Connection> Lane for ListLane<C> {
    async fn call(&mut self) -> anyhow::Result<()> {
        let list = self.connection.list().await?;
        check_tool_count::<C>(&list, self.tools)
    }
}
