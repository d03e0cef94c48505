//! Lets a server ask a model if a person approves the request and the answer.
//!
//! `cargo run -p bowline --example sampling -- http://127.0.0.1:3001/mcp http://127.0.0.1:8080/v1 small-1 TOOL`

mod common;

use std::error::Error;
use std::io::{Write, stdout};

use bowline::config::{Sampling, SamplingApi};
use bowline::host::{Host, HostFuture, SampleRequest};
use bowline::sampling::{Approve, Decision, Provider, SamplingPlan};
use bowline::types::{SamplingBlock, SamplingRequest, SamplingResult};
use bowline::{Client, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, rest) = common::server_and_rest()?;
    let [endpoint, model, tool] = &*rest else {
        return Err("which endpoint, which model, which tool?".into());
    };
    run(server, Sampling::new(SamplingApi::OpenAi, endpoint, model)?, tool, ask_at_terminal, &mut stdout())
        .await
}

/// Asks a question at the terminal. Returns whether the answer is yes.
fn ask_at_terminal(question: String) -> bool {
    println!("{question}\nAll right? [y/n]");
    matches!(std::io::stdin().lines().next(), Some(Ok(line)) if line.trim() == "y")
}

/// A person, who approves what the model is asked and what the server is told.
struct Person {
    /// May block.
    ask: fn(String) -> bool,
}

impl Approve for Person {
    fn request<'a>(
        &'a self,
        asked: &'a SampleRequest,
        plan: &'a SamplingPlan,
    ) -> HostFuture<'a, Decision<SamplingRequest>> {
        let messages = asked.request.messages.iter();
        let lines = messages.map(|it| format!("\n  {}: {}", it.role.as_str(), text(&it.content)));
        let lines: String = lines.collect();
        let question = format!("{} asks {} at {}:{lines}", asked.server, plan.model, plan.endpoint);
        Box::pin(decide(self.ask, question))
    }

    fn result<'a>(
        &'a self,
        asked: &'a SampleRequest,
        result: &'a SamplingResult,
    ) -> HostFuture<'a, Decision<SamplingResult>> {
        Box::pin(decide(self.ask, format!("{} will be told: {}", asked.server, text(&result.content))))
    }
}

async fn decide<T>(ask: fn(String) -> bool, question: String) -> Decision<T> {
    match tokio::task::spawn_blocking(move || ask(question)).await {
        Ok(true) => Decision::Accept,
        _ => Decision::Refuse,
    }
}

/// The text blocks, escaped, since they are untrusted.
fn text(blocks: &[SamplingBlock]) -> String {
    let shown = blocks.iter().map(|block| match block.as_text() {
        Some(text) => text.escape_debug().to_string(),
        None => "(something else)".to_owned(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Calls a tool whose server may ask the model of `settings`, if the person agrees.
pub(crate) async fn run(
    server: Server,
    settings: Sampling,
    tool: &str,
    ask: fn(String) -> bool,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let host = Host::new().sampling(Provider::new(settings)?.approver(Person { ask }));
    let client = Client::builder(server).handler(host).connect().await?;
    writeln!(out, "{}", client.call_tool(tool, &()).await?.text())?;
    client.close().await;
    Ok(())
}
