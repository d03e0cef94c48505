//! Answers elicitation forms: a person accepts the default values, or declines. URLs are not
//! opened.
//!
//! `cargo run -p bowline --example elicitation -- http://127.0.0.1:3001/mcp trigger-elicitation-request`

mod common;

use bowline::Client;
use bowline::host::{FormRequest, Host};
use bowline::types::ElicitResult;

/// Asks at the terminal.
async fn ask(request: FormRequest) -> ElicitResult {
    let FormRequest { server, form, .. } = request;
    println!("{server} asks: {}\n{}? [y/n]", form.message, form.defaults().as_str());
    let line = tokio::task::spawn_blocking(|| std::io::stdin().lines().next());
    let yes = matches!(line.await, Ok(Some(Ok(line))) if line.trim() == "y");
    // The host checks the content before it is sent.
    if yes { ElicitResult::Accept(Some(form.defaults())) } else { ElicitResult::Decline }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, rest) = common::server_and_rest()?;
    let client = Client::builder(server).handler(Host::new().on_form(ask)).connect().await?;
    println!("{}", client.call_tool(rest.first().ok_or("which tool?")?, &()).await?.text());
    client.close().await;
    Ok(())
}
