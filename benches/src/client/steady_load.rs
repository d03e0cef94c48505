//! Calls at a steady rate with a Rust client in its defaults: the host does nothing to keep the
//! connection.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use bowline::{ErrorKind, Execution, Server};
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::StreamableHttpClientTransport;

use crate::job::{CallLog, CallTiming, SteadyLoad};
use crate::peer::Peer;

/// Connects, prints `ready`, makes the calls and returns how each ended.
pub(super) async fn run(peer: Peer, job: SteadyLoad) -> anyhow::Result<CallLog> {
    match peer {
        Peer::Bowline => run_bowline(job).await,
        Peer::Rmcp => run_rmcp(job).await,
        other => bail!("{} makes no steady stream", other.name()),
    }
}

async fn run_bowline(job: SteadyLoad) -> anyhow::Result<CallLog> {
    let server = if job.sse {
        Server::sse("bench", &job.url).build()?
    } else {
        Server::http("bench", &job.url).build()?
    };
    let client = ::bowline::Client::connect(server).await?;
    // Hosts list the tools before they call one.
    client.list_tools().await?;
    let revision = client.peer().await?.revision.to_string();
    let (tool, arguments) = (job.tool.clone(), job.arguments.clone());
    println!("ready");
    let calls = call_at_rate(&job, move || {
        let (client, tool, arguments) = (client.clone(), tool.clone(), arguments.clone());
        async move {
            match client.call_tool(&tool, &arguments).await {
                Ok(result) if result.is_error => Err(result.text()),
                Ok(_) => Ok(()),
                Err(error) => {
                    let execution = match error.execution() {
                        Execution::NotExecuted => "not executed",
                        Execution::Unknown => "outcome unknown",
                    };
                    Err(match error.kind() {
                        ErrorKind::Fault(fault) => format!("{} ({execution})", fault.cause),
                        _ => error.to_string(),
                    })
                }
            }
        }
    });
    Ok(CallLog { revision: Some(revision), calls: calls.await? })
}

async fn run_rmcp(job: SteadyLoad) -> anyhow::Result<CallLog> {
    ensure!(!job.sse, "rmcp has no HTTP+SSE client");
    let service = ().serve(StreamableHttpClientTransport::from_uri(job.url.clone())).await?;
    service.list_all_tools().await?;
    let revision = service.peer_info().map(|info| info.protocol_version.to_string());
    let caller = service.peer().clone();
    let arguments = job.arguments.as_object().context("arguments are an object")?.clone();
    let tool = job.tool.clone();
    println!("ready");
    let calls = call_at_rate(&job, move || {
        let params = CallToolRequestParams::new(tool.clone()).with_arguments(arguments.clone());
        let caller = caller.clone();
        async move {
            match caller.call_tool(params).await {
                Ok(result) if result.is_error == Some(true) => Err("an error as the result".to_owned()),
                Ok(_) => Ok(()),
                Err(error) => Err(strip_type_names(&error.to_string())),
            }
        }
    });
    let calls = calls.await?;
    // Dropped only now: it holds the connection.
    drop(service);
    Ok(CallLog { revision, calls })
}

/// Starts a call at every tick, whatever became of earlier ones, and waits for all of them.
pub(crate) async fn call_at_rate<F>(job: &SteadyLoad, call: impl Fn() -> F) -> anyhow::Result<Vec<CallTiming>>
where
    F: Future<Output = Result<(), String>> + Send + 'static,
{
    let limit = Duration::from_secs_f64(job.limit);
    let begun = Instant::now();
    let mut open = Vec::new();
    for number in 0..job.calls {
        tokio::time::sleep_until((begun + Duration::from_secs_f64(job.every * f64::from(number))).into())
            .await;
        let call = call();
        open.push(tokio::spawn(async move {
            let started = now();
            let outcome = tokio::time::timeout(limit, call).await;
            let failure = match outcome {
                Ok(outcome) => outcome.err(),
                Err(_) => Some(format!("no outcome within {} s", limit.as_secs())),
            };
            CallTiming(started, now(), failure)
        }));
    }
    let mut calls = Vec::new();
    for call in open {
        calls.push(call.await?);
    }
    Ok(calls)
}

/// Removes the type of the transport, which rmcp puts into its errors at length.
fn strip_type_names(text: &str) -> String {
    match (text.find('['), text.rfind(']')) {
        (Some(open), Some(close)) if open < close => [&text[..open], text[close + 1..].trim_start()].concat(),
        _ => text.to_owned(),
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
