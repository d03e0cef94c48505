//! Prints the notifications of a server and the changes of its connection until Ctrl-C. A named
//! tool is called first, for servers that need a trigger.
//!
//! `cargo run -p bowline --example events -- http://127.0.0.1:3001/mcp toggle-simulated-logging`

mod common;

use bowline::{Client, Event, Topic};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, rest) = common::server_and_rest()?;
    let client = Client::connect(server).await?;
    let (mut events, mut status) = (client.events(), client.status());
    if let Some(tool) = rest.first() {
        client.call_tool(tool, &()).await?;
    }
    loop {
        tokio::select! {
            Some(event) = events.next() => match event {
                Event::Notification(said) => match said.topic() {
                    Topic::Log(message) => println!("log: {}", message.as_str()),
                    topic => println!("{topic:?}"),
                },
                Event::Connection(life) => println!("{}: {:?}", life.kind.as_str(), life.cause),
                // This loop fell behind.
                Event::Missed(count) => eprintln!("{count} events were missed"),
                event => println!("{event:?}"),
            },
            Some(status) = status.changed() => println!("status: {status:?}"),
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    client.close().await;
    Ok(())
}
