//! Prints the changes of a resource, in any protocol revision and across restarts of the server.
//!
//! `cargo run -p bowline --example subscribe -- http://127.0.0.1:3001/mcp demo://resource/dynamic/text/1`

mod common;

use bowline::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, rest) = common::server_and_rest()?;
    let client = Client::connect(server).await?;
    let mut subscription = client.subscribe(rest.first().ok_or("which resource?")?).await?;
    while let Some(update) = subscription.next().await {
        let how = if update.inferred { "may have changed" } else { "changed" };
        println!("{} {how}: {} parts", update.uri, client.read_resource(&update.uri).await?.contents.len());
    }
    Ok(())
}
