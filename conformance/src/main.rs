//! The client under test for the official conformance suite.
//!
//! The suite appends the server's URL as the last argument and names the scenario in
//! `MCP_CONFORMANCE_SCENARIO`. A scenario decides which calls are made, and which login settings
//! are known beforehand, as a configuration would give them; everything else is up to the library.

mod auth;
mod calls;
mod host;
mod skills;

use std::process::ExitCode;
use std::time::Duration;

use bowline::config::Protocol;
use bowline::{Client, Server};

/// Time limit of a run. The suite's own limit leaves child processes behind; ours does not.
const RUN_TIMEOUT: Duration = Duration::from_secs(40);

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .init();
    let Some(url) = std::env::args().next_back().filter(|url| url.starts_with("http")) else {
        eprintln!("usage: conformance-client URL");
        return ExitCode::from(2);
    };
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    match tokio::time::timeout(RUN_TIMEOUT, Box::pin(run(&url, &scenario))).await {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("{scenario}: {error}");
            ExitCode::FAILURE
        }
        Err(_) => {
            eprintln!("{scenario}: not done after {RUN_TIMEOUT:?}");
            ExitCode::FAILURE
        }
    }
}

async fn run(url: &str, scenario: &str) -> Result<(), Box<dyn std::error::Error>> {
    let server = auth::configure_server(Server::http("conformance", url), scenario)?;
    let client = Client::builder(server.build()?.with_protocol(Protocol::Auto))
        .client_info("bowline-conformance", env!("CARGO_PKG_VERSION"))
        .handler(host::build_host()?)
        .auth(auth::host_auth()?)
        .connect()
        .await?;
    let outcome = calls::run_scenario(&client, scenario).await;
    client.close().await;
    outcome
}
