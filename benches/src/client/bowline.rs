//! The leg that measures this library.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use bowline::negotiation::FolderCache;
use bowline::types::Tool;
use bowline::{Client, Server};
use serde_json::json;

use super::Connection;
use crate::job::{Endpoint, Job};

#[derive(Clone)]
pub(super) struct BowlineLeg {
    /// Folder with the negotiation records of earlier processes.
    negotiations: Option<PathBuf>,
}

#[derive(Clone)]
pub(super) struct BowlineConnection {
    client: Client,
    revision: String,
}

impl BowlineLeg {
    pub(super) fn new(job: &Job) -> Self {
        let negotiations = match job {
            Job::Open { negotiations, .. } => negotiations.clone(),
            _ => None,
        };
        Self { negotiations }
    }
}

impl super::Leg for BowlineLeg {
    type Connection = BowlineConnection;

    async fn connect(&self, endpoint: Endpoint) -> anyhow::Result<BowlineConnection> {
        let server = match endpoint {
            Endpoint::Http(url) => Server::http("bench", url).build()?,
            Endpoint::Stdio(command) => {
                let (program, args) = command.split_first().context("a command")?;
                Server::stdio("bench", program).args(args.iter().cloned()).build()?
            }
        };
        let mut builder = Client::builder(server);
        if let Some(folder) = &self.negotiations {
            builder = builder.negotiation_cache(Arc::new(FolderCache::new(folder)));
        }
        let client = builder.connect().await?;
        let revision = client.peer().await?.revision.to_string();
        Ok(BowlineConnection { client, revision })
    }
}

impl Connection for BowlineConnection {
    type List = Vec<Tool>;

    /// Decodes the text, although the library would leave it undecoded: the other clients decode
    /// it.
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
