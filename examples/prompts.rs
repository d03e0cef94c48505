//! Lists the prompts of a server with their arguments.
//!
//! `cargo run -p bowline --example prompts -- http://127.0.0.1:3001/mcp`
//! `cargo run -p bowline --example prompts -- "npx -y @modelcontextprotocol/server-everything"`

mod common;

use bowline::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, _) = common::server_and_rest()?;
    let client = Client::connect(server).await?;
    for prompt in client.list_prompts().await? {
        println!("{}\t{}", prompt.name, prompt.description().unwrap_or_default());
        for argument in prompt.arguments() {
            println!("  {}{}", argument.name, if argument.required { " (required)" } else { "" });
        }
    }
    client.close().await;
    Ok(())
}
