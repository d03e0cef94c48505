//! Lists the resources and resource templates of a server.
//!
//! `cargo run -p bowline --example resources -- http://127.0.0.1:3001/mcp`
//! `cargo run -p bowline --example resources -- "npx -y @modelcontextprotocol/server-everything"`

mod common;

use std::error::Error;
use std::io::{Write, stdout};

use bowline::{Client, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, _) = common::server_and_rest()?;
    run(server, &mut stdout()).await
}

pub(crate) async fn run(server: Server, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(server).await?;
    // Empty for a server that offers no resources; that is not an error.
    for resource in client.list_resources().await? {
        let mime_type = resource.mime_type().unwrap_or_default();
        writeln!(out, "{}\t{}\t{mime_type}", resource.uri, resource.name)?;
    }
    for template in client.list_resource_templates().await? {
        writeln!(out, "{}\t{}\t(template)", template.uri_template, template.name)?;
    }
    client.close().await;
    Ok(())
}
