//! Lists the prompts of a server with their arguments.
//!
//! `cargo run -p bowline --example prompts -- http://127.0.0.1:3001/mcp`
//! `cargo run -p bowline --example prompts -- "npx -y @modelcontextprotocol/server-everything"`

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
    for prompt in client.list_prompts().await? {
        writeln!(out, "{}\t{}", prompt.name, prompt.description().unwrap_or_default())?;
        for argument in prompt.arguments() {
            writeln!(out, "  {}{}", argument.name, if argument.required { " (required)" } else { "" })?;
        }
    }
    client.close().await;
    Ok(())
}
