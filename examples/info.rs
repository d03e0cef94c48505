//! Prints the name, the revision and the capabilities of a server.
//!
//! `cargo run -p bowline --example info -- http://127.0.0.1:3001/mcp`
//! `cargo run -p bowline --example info -- "npx -y @modelcontextprotocol/server-everything"`

mod common;

use std::error::Error;
use std::io::{Write, stdout};

use bowline::{Client, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, _) = common::server_and_rest()?;
    run(server, &mut stdout()).await
}

pub(crate) async fn run(server: Server, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(server).await?;
    let peer = client.peer().await?;
    if let Some(server) = &peer.server {
        writeln!(out, "server        {} {}", server.name, server.version)?;
    }
    writeln!(out, "revision      {} ({:?})", peer.revision.as_str(), peer.era())?;
    writeln!(out, "capabilities  {}", peer.capabilities.json.as_str())?;
    writeln!(out, "instructions  {}", peer.instructions.as_deref().unwrap_or("none"))?;
    client.close().await;
    Ok(())
}
