//! Connects to several servers at once and prints their connection events until Ctrl-C.
//!
//! `cargo run -p bowline --example registry -- http://127.0.0.1:3001/mcp "npx -y some-mcp-server"`

use bowline::{Event, Registry, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let servers: Vec<Server> = std::env::args()
        .skip(1)
        .enumerate()
        .map(|(number, target)| {
            let name = format!("server-{number}");
            if target.starts_with("http://") || target.starts_with("https://") {
                return Ok(Server::http(name, target).build()?);
            }
            let mut words = target.split_whitespace();
            let program = words.next().ok_or("a command line is empty")?;
            Ok(Server::stdio(name, program).args(words).build()?)
        })
        .collect::<Result<_, Box<dyn std::error::Error>>>()?;

    let registry = Registry::open(servers);
    let mut events = registry.events();
    loop {
        tokio::select! {
            Some(event) = events.next() => if let Event::Connection(life) = event.event {
                let cause = life.cause.map(|cause| cause.to_string()).unwrap_or_default();
                println!("{}: {} {cause}", life.server, life.kind.as_str());
            },
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    for status in registry.statuses() {
        println!("{}: {}, recovered {} times", status.name, status.state.as_str(), status.health.recoveries);
    }
    registry.close().await;
    Ok(())
}
