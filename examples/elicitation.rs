//! Answers the questions of a server: a person agrees to the suggested values, or declines.
//!
//! `cargo run -p bowline --example elicitation -- http://127.0.0.1:3001/mcp trigger-elicitation-request`

mod common;

use std::{future::Future, pin::Pin};

use bowline::view::{Answer as Reply, Elicitation};
use bowline::{Answer, Client, Handler, ServerRequest, wire::Json};

struct Terminal;

impl Handler for Terminal {
    fn capabilities(&self) -> Json {
        Json::parse(r#"{"elicitation":{"form":{}}}"#).expect("JSON")
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>> {
        Box::pin(async move {
            let Ok(Elicitation::Form(form)) = Elicitation::decode(&request.params) else {
                return Ok(Reply::Cancel.to_json());
            };
            println!("{} asks: {}\n{}? [y/n]", request.server, form.message, form.defaults().as_str());
            let line = tokio::task::spawn_blocking(|| std::io::stdin().lines().next());
            let yes = matches!(line.await, Ok(Some(Ok(line))) if line.trim() == "y");
            Ok(if yes { Reply::Accept(Some(form.defaults())) } else { Reply::Decline }.to_json())
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, rest) = common::server_and_rest()?;
    let client = Client::builder(server).handler(Terminal).connect().await?;
    println!("{}", client.call_tool(rest.first().ok_or("which tool?")?, &()).await?.text());
    client.close().await;
    Ok(())
}
