//! The leg that measures this library.

use anyhow::Context as _;
use bowline::view::Tool;
use bowline::{Client, Server};
use serde_json::json;

use super::Connection;
use crate::job::Endpoint;

#[derive(Clone)]
pub(super) struct Leg;

#[derive(Clone)]
pub(super) struct Bowline {
    client: Client,
    revision: String,
}

impl super::Leg for Leg {
    type Connection = Bowline;

    async fn connect(&self, endpoint: Endpoint) -> anyhow::Result<Bowline> {
        let server = match endpoint {
            Endpoint::Http(url) => Server::http("bench", url)?,
            Endpoint::Stdio(command) => {
                let (program, args) = command.split_first().context("a command")?;
                Server::stdio("bench", program, args.iter().cloned())
            }
        };
        let client = Client::connect(server).await?;
        let revision = client.server().await?.revision.to_string();
        Ok(Bowline { client, revision })
    }
}

impl Connection for Bowline {
    type List = Vec<Tool>;

    /// Reads the text out, although the library would leave it as it came: the other clients do.
    async fn call(&mut self, bytes: usize) -> anyhow::Result<usize> {
        let result = self.client.call_tool("payload", &json!({ "bytes": bytes })).await?;
        Ok(result.text().len())
    }

    async fn list(&mut self) -> anyhow::Result<Vec<Tool>> {
        Ok(self.client.list_tools().await?)
    }

    fn count(list: &Vec<Tool>) -> usize {
        list.len()
    }

    fn revision(&self) -> Option<String> {
        Some(self.revision.clone())
    }
}
