//! Expands a prompt and prints the resulting conversation.
//!
//! `cargo run -p bowline --example prompt -- http://127.0.0.1:3001/mcp args-prompt city=Oslo`

mod common;

use std::collections::BTreeMap;

use bowline::Client;
use bowline::types::Content;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, rest) = common::server_and_rest()?;
    let [name, arguments @ ..] = &*rest else { return Err("which prompt?".into()) };
    // Prompt arguments are always strings.
    let arguments: BTreeMap<String, String> = arguments
        .iter()
        .filter_map(|argument| argument.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();

    let client = Client::connect(server).await?;
    for message in client.get_prompt(name, &arguments).await?.messages {
        match &message.content {
            Content::Text(text) => println!("{:?}: {}", message.role, text.text.get()),
            other => println!("{:?}: {}", message.role, other.json().as_str()),
        }
    }
    client.close().await;
    Ok(())
}
