//! Sends any request and prints its raw result, for methods without a typed call.
//!
//! `cargo run -p bowline --example raw_request -- http://127.0.0.1:3001/mcp tools/list`
//! `cargo run -p bowline --example raw_request -- http://127.0.0.1:3001/mcp logging/setLevel '{"level":"debug"}'`

mod common;

use std::error::Error;
use std::io::{Write, stdout};

use bowline::{Client, Server};
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, rest) = common::server_and_rest()?;
    run(server, &rest, &mut stdout()).await
}

/// Sends the method that comes first in `rest`, with the params after it.
pub(crate) async fn run(server: Server, rest: &[String], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let method = rest.first().ok_or("which method?")?;
    let params: Value = rest.get(1).map(|params| params.parse()).transpose()?.unwrap_or_default();
    let client = Client::connect(server).await?;
    match client.request(method, &params).await {
        Ok(result) => writeln!(out, "{}", result.as_str())?,
        // An error of the server differs from a failed connection.
        Err(error) => match error.server_error() {
            Some(refusal) => writeln!(out, "refused with {}: {}", refusal.code, refusal.message)?,
            None => return Err(error.into()),
        },
    }
    client.close().await;
    Ok(())
}
