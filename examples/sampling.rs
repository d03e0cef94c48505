//! Lets a server ask a model if a person approves the request and the answer.
//!
//! `cargo run -p bowline --example sampling -- http://127.0.0.1:3001/mcp http://127.0.0.1:8080/v1 small-1 TOOL`

mod common;

use bowline::Client;
use bowline::config::{Sampling, SamplingApi};
use bowline::host::{Host, HostFuture, SampleRequest};
use bowline::sampling::{Approve, Decision, Provider, SamplingPlan};
use bowline::types::{SamplingBlock, SamplingRequest, SamplingResult};

struct Terminal;

impl Approve for Terminal {
    fn request<'a>(
        &'a self,
        asked: &'a SampleRequest,
        plan: &'a SamplingPlan,
    ) -> HostFuture<'a, Decision<SamplingRequest>> {
        println!("{} asks {} at {}:", asked.server, plan.model, plan.endpoint);
        for message in &asked.request.messages {
            println!("  {}: {}", message.role.as_str(), text(&message.content));
        }
        Box::pin(agreed())
    }

    fn result<'a>(
        &'a self,
        asked: &'a SampleRequest,
        result: &'a SamplingResult,
    ) -> HostFuture<'a, Decision<SamplingResult>> {
        println!("{} will be told: {}", asked.server, text(&result.content));
        Box::pin(agreed())
    }
}

/// Asks for a decision on the terminal.
async fn agreed<T>() -> Decision<T> {
    println!("All right? [y/n]");
    let line = tokio::task::spawn_blocking(|| std::io::stdin().lines().next());
    let yes = matches!(line.await, Ok(Some(Ok(line))) if line.trim() == "y");
    if yes { Decision::Accept } else { Decision::Refuse }
}

/// The text blocks, escaped, since they are untrusted.
fn text(blocks: &[SamplingBlock]) -> String {
    let shown = blocks.iter().map(|block| match block.as_text() {
        Some(text) => text.escape_debug().to_string(),
        None => "(something else)".to_owned(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, rest) = common::server_and_rest()?;
    let [endpoint, model, tool] = &*rest else {
        return Err("which endpoint, which model, which tool?".into());
    };
    let settings = Sampling::new(SamplingApi::OpenAi, endpoint, model)?;
    let host = Host::new().sampling(Provider::new(settings)?.approver(Terminal));
    let client = Client::builder(server).handler(host).connect().await?;
    println!("{}", client.call_tool(tool, &()).await?.text());
    client.close().await;
    Ok(())
}
