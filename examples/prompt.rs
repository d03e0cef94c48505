//! Expands a prompt and prints the resulting conversation.
//!
//! `cargo run -p bowline --example prompt -- http://127.0.0.1:3001/mcp args-prompt city=Oslo`

mod common;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Write, stdout};

use bowline::types::Content;
use bowline::{Client, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, rest) = common::server_and_rest()?;
    run(server, &rest, &mut stdout()).await
}

/// Expands the prompt that comes first in `rest` with the arguments after it.
pub(crate) async fn run(server: Server, rest: &[String], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let [name, arguments @ ..] = rest else { return Err("which prompt?".into()) };
    // Prompt arguments are always strings.
    let arguments: BTreeMap<String, String> = arguments
        .iter()
        .filter_map(|argument| argument.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();

    let client = Client::connect(server).await?;
    for message in client.get_prompt(name, &arguments).await?.messages {
        match &message.content {
            Content::Text(text) => writeln!(out, "{:?}: {}", message.role, text.text.get())?,
            other => writeln!(out, "{:?}: {}", message.role, other.json().as_str())?,
        }
    }
    client.close().await;
    Ok(())
}
