//! Prints the name, the revision and the capabilities of a server.
//!
//! `cargo run -p bowline --example info -- http://127.0.0.1:3001/mcp`
//! `cargo run -p bowline --example info -- "npx -y @modelcontextprotocol/server-everything"`

mod common;

use bowline::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, _) = common::server_and_rest()?;
    let client = Client::connect(server).await?;
    let peer = client.peer().await?;
    if let Some(server) = &peer.server {
        println!("server        {} {}", server.name, server.version);
    }
    println!("revision      {} ({:?})", peer.revision.as_str(), peer.era());
    println!("capabilities  {}", peer.capabilities.json.as_str());
    println!("instructions  {}", peer.instructions.as_deref().unwrap_or("none"));
    client.close().await;
    Ok(())
}
