//! Calls a tool as a task if possible, prints its states, and waits for the result.
//!
//! `cargo run -p bowline --example task -- http://127.0.0.1:3001/mcp simulate-research-query topic=knots`

mod common;

use bowline::{CallOptions, Client, TaskOrResult};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, rest) = common::server_and_rest()?;
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
            let options = CallOptions::new().on_task(|task| {
                eprintln!("{:?} {}", task.status, task.status_message().unwrap_or_default());
            });
            client.wait_task(&handle, &options).await?
        }
    };
    println!("{}", result.text());
    client.close().await;
    Ok(())
}
