//! Calls a tool and shows its progress. Ctrl-C cancels the call on the server.
//!
//! `cargo run -p bowline --example call -- http://127.0.0.1:3001/mcp get-sum a=40 b=2`
//! `cargo run -p bowline --example call -- "npx -y @modelcontextprotocol/server-everything" echo message=hello`

mod common;

use std::time::Duration;

use bowline::{CallOptions, Client};
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
    let options = CallOptions::new()
        .idle_timeout(Duration::from_secs(30))
        .on_progress(|progress| eprintln!("progress: {} of {:?}", progress.progress, progress.total));
    tokio::select! {
        result = client.call_tool_with(tool, &arguments, &options) => {
            let result = result?;
            println!("{}{}", if result.is_error { "failed: " } else { "" }, result.text());
        }
        // Dropping the call cancels it.
        _ = tokio::signal::ctrl_c() => eprintln!("cancelled"),
    }
    client.close().await;
    Ok(())
}
