//! Prints the notifications of a server and the changes of its connection until Ctrl-C. A named
//! tool is called first, for servers that need a trigger.
//!
//! `cargo run -p bowline --example events -- http://127.0.0.1:3001/mcp toggle-simulated-logging`

mod common;

use std::error::Error;
use std::io::{Write, stdout};

use bowline::{Client, Event, Server, Topic};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, rest) = common::server_and_rest()?;
    let ctrl_c = async { drop(tokio::signal::ctrl_c().await) };
    run(server, rest.first().map(String::as_str), ctrl_c, &mut stdout()).await
}

/// Prints events until `stop` ends.
pub(crate) async fn run(
    server: Server,
    trigger: Option<&str>,
    stop: impl Future<Output = ()>,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(server).await?;
    let (mut events, mut status) = (client.events(), client.status());
    if let Some(tool) = trigger {
        client.call_tool(tool, &()).await?;
    }
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            Some(event) = events.next() => match event {
                Event::Notification(said) => match said.topic() {
                    Topic::Log(message) => writeln!(out, "log: {}", message.as_str())?,
                    topic => writeln!(out, "{topic:?}")?,
                },
                Event::Connection(life) => writeln!(out, "{}: {:?}", life.kind.as_str(), life.cause)?,
                // This loop fell behind.
                Event::Missed(count) => writeln!(out, "{count} events were missed")?,
                event => writeln!(out, "{event:?}")?,
            },
            Some(status) = status.changed() => writeln!(out, "status: {status:?}")?,
            () = &mut stop => break,
        }
    }
    client.close().await;
    Ok(())
}
