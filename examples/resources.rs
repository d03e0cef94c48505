//! Lists the resources and resource templates of a server.
//!
//! `cargo run -p bowline --example resources -- http://127.0.0.1:3001/mcp`
//! `cargo run -p bowline --example resources -- "npx -y @modelcontextprotocol/server-everything"`

mod common;

use bowline::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, _) = common::server_and_rest()?;
    let client = Client::connect(server).await?;
    // Empty for a server that offers no resources; that is not an error.
    for resource in client.list_resources().await? {
        println!("{}\t{}\t{}", resource.uri, resource.name, resource.mime_type().unwrap_or_default());
    }
    for template in client.list_resource_templates().await? {
        println!("{}\t{}\t(template)", template.uri_template, template.name);
    }
    client.close().await;
    Ok(())
}
