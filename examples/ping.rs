//! Pings a server three times and prints the round-trip times.
//!
//! `cargo run -p bowline --example ping -- http://127.0.0.1:3001/mcp`

mod common;

use std::time::Instant;

use bowline::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, _) = common::server_and_rest()?;
    let client = Client::connect(server).await?;
    for _ in 0..3 {
        let asked = Instant::now();
        client.ping().await?;
        println!("{}: answered after {:?}", client.name(), asked.elapsed());
    }
    client.close().await;
    Ok(())
}
