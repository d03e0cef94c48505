//! Connects to several servers at once and prints their connection events until Ctrl-C.
//!
//! `cargo run -p bowline --example registry -- http://127.0.0.1:3001/mcp "npx -y some-mcp-server"`

mod common;

use std::error::Error;
use std::io::{Write, stdout};

use bowline::{Event, Registry, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (first, rest) = common::server_and_rest()?;
    let mut servers = vec![first];
    for (target, number) in rest.iter().zip(2..) {
        servers.push(common::server(&format!("example-{number}"), target)?);
    }
    let ctrl_c = async { drop(tokio::signal::ctrl_c().await) };
    run(servers, ctrl_c, &mut stdout()).await
}

/// Prints the events of the servers until `stop` ends.
pub(crate) async fn run(
    servers: Vec<Server>,
    stop: impl Future<Output = ()>,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let registry = Registry::open(servers);
    let mut events = registry.events();
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            Some(event) = events.next() => if let Event::Connection(change) = event.event {
                let cause = change.cause.map(|cause| format!(": {cause}")).unwrap_or_default();
                writeln!(out, "{} {}{cause}", change.server, change.kind.as_str())?;
            },
            () = &mut stop => break,
        }
    }
    for status in registry.statuses() {
        let (name, state, health) = (status.name, status.state.as_str(), status.health);
        writeln!(out, "{name}: {state}, recovered {} times", health.recoveries)?;
    }
    registry.close().await;
    Ok(())
}
