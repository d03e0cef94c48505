//! Calls a tool and shows its progress. Ctrl-C cancels the call on the server.
//!
//! `cargo run -p bowline --example call -- http://127.0.0.1:3001/mcp get-sum a=40 b=2`
//! `cargo run -p bowline --example call -- "npx -y @modelcontextprotocol/server-everything" trigger-long-running-operation duration=5 steps=10`

mod common;

use std::error::Error;
use std::io::{Write, stdout};
use std::time::Duration;

use bowline::{Client, ErrorKind, Server};
use serde_json::{Map, Value};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, rest) = common::server_and_rest()?;
    let ctrl_c = async { drop(tokio::signal::ctrl_c().await) };
    run(server, &rest, ctrl_c, &mut stdout()).await
}

/// Calls the tool that comes first in `rest` with the arguments after it, until `stop` ends.
pub(crate) async fn run(
    server: Server,
    rest: &[String],
    stop: impl Future<Output = ()>,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let [tool, arguments @ ..] = rest else { return Err("which tool?".into()) };
    // A value that is not JSON is a string: `count=3` is a number, `city=Oslo` is not.
    let arguments: Map<String, Value> = arguments
        .iter()
        .filter_map(|argument| argument.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.parse().unwrap_or_else(|_| value.into())))
        .collect();

    let client = Client::connect(server).await?;
    let mut call = client.call(tool).arguments(&arguments).timeout(Duration::from_secs(60)).start();
    let mut progress = call.progress();
    let mut stop = std::pin::pin!(stop);
    let result = loop {
        tokio::select! {
            biased;
            Some(report) = progress.next() => {
                writeln!(out, "{} of {:?}: {}", report.progress, report.total, report.message.unwrap_or_default())?;
            }
            result = &mut call => break result,
            () = &mut stop => {
                call.cancel();
                break call.await;
            }
        }
    };
    match result {
        Ok(result) => {
            let failed = if result.is_error { "failed: " } else { "" };
            writeln!(out, "{failed}{} ({} attempts)", result.text(), result.report.attempts)?;
        }
        Err(error) if matches!(error.kind(), ErrorKind::Cancelled) => writeln!(out, "canceled")?,
        Err(error) => return Err(error.into()),
    }
    client.close().await;
    Ok(())
}
