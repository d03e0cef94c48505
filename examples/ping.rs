//! Pings a server three times and prints the round-trip times.
//!
//! `cargo run -p bowline --example ping -- http://127.0.0.1:3001/mcp`

mod common;

use std::error::Error;
use std::io::{Write, stdout};
use std::time::Instant;

use bowline::{Client, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, _) = common::server_and_rest()?;
    run(server, &mut stdout()).await
}

pub(crate) async fn run(server: Server, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(server).await?;
    for _ in 0..3 {
        let asked = Instant::now();
        client.ping().await?;
        writeln!(out, "{}: answered after {:?}", client.name(), asked.elapsed())?;
    }
    client.close().await;
    Ok(())
}
