//! Runs a command for the events of a server until Ctrl-C, and shows its status. The command gets
//! the events as JSON on stdin and in `BOWLINE_…` variables.
//!
//! `cargo run -p bowline --example hooks -- http://127.0.0.1:3001/mcp sh -c 'tee -a events.log'`

mod common;

use std::error::Error;
use std::io::{Write, stdout};

use bowline::config::{Hook, HookEvent};
use bowline::{Client, Server, Status, hooks};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, rest) = common::server_and_rest()?;
    let ctrl_c = async { drop(tokio::signal::ctrl_c().await) };
    run(server, &rest, ctrl_c, &mut stdout()).await
}

/// Runs the command that comes first in `rest`, with the arguments after it, until `stop` ends.
pub(crate) async fn run(
    server: Server,
    rest: &[String],
    stop: impl Future<Output = ()>,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let (command, args) = rest.split_first().ok_or("which command?")?;
    let client = Client::builder(server).open()?;
    let all = Hook::command(command, args);
    let urgent = Hook::command("logger", ["-p", "user.warning", "an MCP server failed"])
        .on([HookEvent::Failed, HookEvent::NeedsLogin]);
    let (hooks, mut status) = (hooks::spawn(&client, [all, urgent]), client.status());
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            Some(status) = status.changed() => match status {
                Status::Ready(_) => writeln!(out, "ready")?,
                Status::BackingOff { cause, .. } => writeln!(out, "backing off: {cause}")?,
                Status::NeedsLogin(cause) | Status::Failed(cause) => writeln!(out, "failed: {cause}")?,
                _ => {}
            },
            () = &mut stop => break,
        }
    }
    client.close().await;
    // A hook may still have events to handle.
    hooks.finished().await;
    Ok(())
}
