//! Answers elicitation forms: a person accepts the default values, or declines. URLs are not
//! opened.
//!
//! `cargo run -p bowline --example elicitation -- http://127.0.0.1:3001/mcp trigger-elicitation-request`

mod common;

use std::error::Error;
use std::io::{Write, stdout};

use bowline::host::{FormRequest, Host};
use bowline::types::ElicitResult;
use bowline::{Client, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, rest) = common::server_and_rest()?;
    run(server, rest.first().ok_or("which tool?")?, ask_at_terminal, &mut stdout()).await
}

/// Asks a question at the terminal. Returns whether the answer is yes.
fn ask_at_terminal(question: String) -> bool {
    println!("{question}? [y/n]");
    matches!(std::io::stdin().lines().next(), Some(Ok(line)) if line.trim() == "y")
}

/// Calls a tool. `ask` puts the questions of the server to a person, and may block.
pub(crate) async fn run(
    server: Server,
    tool: &str,
    ask: fn(String) -> bool,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let host = Host::new().on_form(move |request: FormRequest| async move {
        let FormRequest { server, form, .. } = request;
        let question = format!("{server} asks: {}\n{}", form.message, form.defaults().as_str());
        let agreed = tokio::task::spawn_blocking(move || ask(question)).await.unwrap_or(false);
        // The host checks the content before it is sent.
        if agreed { ElicitResult::Accept(Some(form.defaults())) } else { ElicitResult::Decline }
    });
    let client = Client::builder(server).handler(host).connect().await?;
    writeln!(out, "{}", client.call_tool(tool, &()).await?.text())?;
    client.close().await;
    Ok(())
}
