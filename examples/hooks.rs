//! Runs a command for the events of a server until Ctrl-C. The command gets them as JSON
//! on stdin and in `BOWLINE_…` variables.
//!
//! `cargo run -p bowline --example hooks -- http://127.0.0.1:3001/mcp sh -c 'tee -a events.log'`

mod common;

use bowline::config::{Hook, HookEvent};
use bowline::{Client, hooks};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, rest) = common::server_and_rest()?;
    let (command, args) = rest.split_first().ok_or("which command?")?;
    let client = Client::builder(server).open()?;
    let all = Hook::command(command, args);
    let urgent = Hook::command("logger", ["-p", "user.warning", "an MCP server failed"])
        .on([HookEvent::Failed, HookEvent::NeedsLogin]);
    let hooks = hooks::spawn(&client, [all, urgent]);
    tokio::signal::ctrl_c().await?;
    client.close().await;
    hooks.finished().await;
    Ok(())
}
