//! Reads a resource: text to stdout, the size of anything else.
//!
//! `cargo run -p bowline --example read -- http://127.0.0.1:3001/mcp demo://resource/dynamic/text/1`

mod common;

use std::error::Error;
use std::io::{Write, stdout};

use bowline::types::ResourceBody;
use bowline::{Client, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, rest) = common::server_and_rest()?;
    let uri = rest.first().ok_or("which resource?")?;
    run(server, uri, &mut stdout()).await
}

pub(crate) async fn run(server: Server, uri: &str, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(server).await?;
    for part in client.read_resource(uri).await?.contents {
        match &part.body {
            ResourceBody::Text(text) => writeln!(out, "{}", text.get())?,
            ResourceBody::Blob(base64) => {
                writeln!(out, "{}: {} characters of Base64", part.uri, base64.get().len())?;
            }
            other => writeln!(out, "{}: {other:?}", part.uri)?,
        }
    }
    client.close().await;
    Ok(())
}
