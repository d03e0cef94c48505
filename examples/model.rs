//! Prints a server's tools in the format of a model's API, and those that were left out.
//!
//! `cargo run -p bowline --example model -- http://127.0.0.1:3001/mcp`

mod common;

use bowline::Client;
use bowline::model::{ModelApi, ModelOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, _) = common::server_and_rest()?;
    let client = Client::connect(server).await?;
    let context = client.model_context(&ModelOptions::new(ModelApi::Anthropic)).await?;
    if let Some(instructions) = &context.instructions {
        println!("{instructions}\n");
    }
    println!("{}", serde_json::to_string_pretty(&context.definitions())?);
    for left_out in &context.omissions {
        let what = left_out.name.as_deref().unwrap_or("the server");
        eprintln!("left out: {what}: {}", left_out.reason);
    }
    client.close().await;
    Ok(())
}
