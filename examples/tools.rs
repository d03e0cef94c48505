//! Lists the tools of a server, over all pages.
//!
//! `cargo run -p bowline --example tools -- http://127.0.0.1:3001/mcp`
//! `cargo run -p bowline --example tools -- "npx -y @modelcontextprotocol/server-everything"`

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
    let tools = client.list_tools_full().await?;
    for tool in &tools.items {
        writeln!(out, "{}\t{}", tool.name, tool.description().unwrap_or_default())?;
    }
    // An invalid tool does not hide the others; it is listed here.
    for dropped in &tools.dropped {
        writeln!(out, "left out: tool {} of its page: {}", dropped.index, dropped.reason)?;
    }
    client.close().await;
    Ok(())
}
