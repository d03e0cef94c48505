//! Calls a tool and shows its progress. Ctrl-C cancels the call on the server.
//!
//! `cargo run -p bowline --example call -- http://127.0.0.1:3001/mcp get-sum a=40 b=2`
//! `cargo run -p bowline --example call -- "npx -y @modelcontextprotocol/server-everything" trigger-long-running-operation duration=5 steps=10`

mod common;

use std::time::Duration;

use bowline::{Client, ErrorKind};
use serde_json::{Map, Value};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, rest) = common::server_and_rest()?;
    let [tool, arguments @ ..] = &*rest else { return Err("which tool?".into()) };
    // A value that is not JSON is a string: `count=3` is a number, `city=Oslo` is not.
    let arguments: Map<String, Value> = arguments
        .iter()
        .filter_map(|argument| argument.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.parse().unwrap_or_else(|_| value.into())))
        .collect();

    let client = Client::connect(server).await?;
    let mut call = client.call(tool).arguments(&arguments).timeout(Duration::from_secs(60)).start();
    let mut progress = call.progress();
    let shown = tokio::spawn(async move {
        // Ends with the call.
        while let Some(step) = progress.next().await {
            eprintln!("{} of {:?}: {}", step.progress, step.total, step.message.unwrap_or_default());
        }
    });
    let result = tokio::select! {
        result = &mut call => result,
        _ = tokio::signal::ctrl_c() => {
            call.cancel();
            call.await
        }
    };
    shown.await?;
    match result {
        Ok(result) => {
            let failed = if result.is_error { "failed: " } else { "" };
            println!("{failed}{} ({} attempts)", result.text(), result.report.attempts);
        }
        Err(error) if matches!(error.kind(), ErrorKind::Cancelled) => eprintln!("canceled"),
        Err(error) => return Err(error.into()),
    }
    client.close().await;
    Ok(())
}
