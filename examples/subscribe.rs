//! Prints the changes of a resource, in any protocol revision and across restarts of the server.
//!
//! `cargo run -p bowline --example subscribe -- http://127.0.0.1:3001/mcp demo://resource/dynamic/text/1`

mod common;

use std::error::Error;
use std::io::{Write, stdout};

use bowline::{Client, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, rest) = common::server_and_rest()?;
    let ctrl_c = async { drop(tokio::signal::ctrl_c().await) };
    run(server, rest.first().ok_or("which resource?")?, ctrl_c, &mut stdout()).await
}

/// Prints changes until `stop` ends.
pub(crate) async fn run(
    server: Server,
    uri: &str,
    stop: impl Future<Output = ()>,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(server).await?;
    let mut subscription = client.subscribe(uri).await?;
    writeln!(out, "subscribed to {uri}")?;
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            update = subscription.next() => {
                let Some(update) = update else { break };
                let how = if update.inferred { "may have changed" } else { "changed" };
                let parts = client.read_resource(&update.uri).await?.contents.len();
                writeln!(out, "{} {how}: {parts} parts", update.uri)?;
            }
            () = &mut stop => break,
        }
    }
    drop(subscription);
    client.close().await;
    Ok(())
}
