//! Prints a server's tools in the format of a model's API, and those that were left out.
//!
//! `cargo run -p bowline --example model -- http://127.0.0.1:3001/mcp`

mod common;

use std::error::Error;
use std::io::{Write, stderr, stdout};

use bowline::model::{ModelApi, ModelOptions};
use bowline::{Client, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, _) = common::server_and_rest()?;
    run(server, &mut stdout(), &mut stderr()).await
}

pub(crate) async fn run(
    server: Server,
    out: &mut impl Write,
    warnings: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(server).await?;
    let context = client.model_context(&ModelOptions::new(ModelApi::Anthropic)).await?;
    if let Some(instructions) = &context.instructions {
        writeln!(out, "{instructions}\n")?;
    }
    writeln!(out, "{}", serde_json::to_string_pretty(&context.definitions())?)?;
    for left_out in &context.omissions {
        let what = left_out.name.as_deref().unwrap_or("the server");
        writeln!(warnings, "left out: {what}: {}", left_out.reason)?;
    }
    client.close().await;
    Ok(())
}
