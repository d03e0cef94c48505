//! Reads a resource: text to stdout, the size of anything else.
//!
//! `cargo run -p bowline --example read -- http://127.0.0.1:3001/mcp demo://resource/dynamic/text/1`

mod common;

use bowline::Client;
use bowline::types::ResourceBody;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, rest) = common::server_and_rest()?;
    let uri = rest.first().ok_or("which resource?")?;
    let client = Client::connect(server).await?;
    for part in client.read_resource(uri).await?.contents {
        match &part.body {
            ResourceBody::Text(text) => println!("{}", text.get()),
            ResourceBody::Blob(base64) => {
                println!("{}: {} characters of Base64", part.uri, base64.get().len());
            }
            other => println!("{}: {other:?}", part.uri),
        }
    }
    client.close().await;
    Ok(())
}
