//! Calls a tool as a task if possible, prints its states, and waits for the result.
//!
//! `cargo run -p bowline --example task -- http://127.0.0.1:3001/mcp simulate-research-query topic=knots`

mod common;

use std::error::Error;
use std::io::{Write, stdout};
use std::sync::Arc;

use bowline::types::Task;
use bowline::{CallOptions, Client, Server, TaskOrResult};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, rest) = common::server_and_rest()?;
    let show = |task: &Task| eprintln!("{:?} {}", task.status, task.status_message().unwrap_or_default());
    run(server, &rest, Arc::new(show), &mut stdout()).await
}

/// Calls the tool that comes first in `rest` with the arguments after it.
pub(crate) async fn run(
    server: Server,
    rest: &[String],
    show: Arc<dyn Fn(&Task) + Send + Sync>,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let (tool, words) = rest.split_first().ok_or("which tool?")?;
    let arguments: serde_json::Map<_, _> = words
        .iter()
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    let client = Client::connect(server).await?;
    let result = match client.call_tool_task(tool, &arguments, &CallOptions::new()).await? {
        TaskOrResult::Result(result) => result,
        // The handle can be stored and used by another process.
        TaskOrResult::Task(handle) => {
            let options = CallOptions::new().on_task(move |task| show(task));
            client.wait_task(&handle, &options).await?
        }
    };
    writeln!(out, "{}", result.text())?;
    client.close().await;
    Ok(())
}
