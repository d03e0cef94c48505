//! The rmcp legs: with its defaults, and with an HTTP client that keeps connections alive.

use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use rmcp::model::{CallToolRequestParams, Tool};
use rmcp::service::RunningService;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::Map;
use tokio::process::Command;

use super::Connection;
use crate::job::Endpoint;

#[derive(Clone)]
pub(super) enum RmcpLeg {
    Default,
    /// One HTTP client for all servers, as a host would have. Built on first use, so that start-up
    /// time includes it.
    Pooled(Arc<OnceLock<reqwest::Client>>),
}

#[derive(Clone)]
pub(super) struct RmcpConnection {
    service: Arc<RunningService<RoleClient, ()>>,
}

// === impl Leg ===

impl RmcpLeg {
    pub(super) fn pooled() -> Self {
        Self::Pooled(Arc::default())
    }
}

impl super::Leg for RmcpLeg {
    type Connection = RmcpConnection;

    async fn connect(&self, endpoint: Endpoint) -> anyhow::Result<RmcpConnection> {
        let service = match (endpoint, self) {
            (Endpoint::Http(url), Self::Default) => {
                ().serve(StreamableHttpClientTransport::from_uri(url)).await?
            }
            (Endpoint::Http(url), Self::Pooled(client)) => {
                let config = StreamableHttpClientTransportConfig::with_uri(url);
                let client = client.get_or_init(reqwest::Client::new).clone();
                ().serve(StreamableHttpClientTransport::with_client(client, config)).await?
            }
            (Endpoint::Stdio(command), _) => {
                let (program, args) = command.split_first().context("a command")?;
                let mut command = Command::new(program);
                command.args(args);
                ().serve(TokioChildProcess::new(command)?).await?
            }
        };
        Ok(RmcpConnection { service: Arc::new(service) })
    }
}

// === impl Rmcp ===

impl Connection for RmcpConnection {
    type List = Vec<Tool>;

    async fn call(&mut self, bytes: usize) -> anyhow::Result<usize> {
        let mut arguments = Map::new();
        arguments.insert("bytes".into(), bytes.into());
        let params = CallToolRequestParams::new("payload").with_arguments(arguments);
        let result = self.service.call_tool(params).await?;
        let text = result.content.first().and_then(|block| block.as_text()).context("a text")?;
        Ok(text.text.len())
    }

    async fn list(&mut self) -> anyhow::Result<Vec<Tool>> {
        Ok(self.service.list_all_tools().await?)
    }

    fn count(list: &Vec<Tool>) -> usize {
        list.len()
    }

    fn revision(&self) -> Option<String> {
        self.service.peer_info().map(|info| info.protocol_version.to_string())
    }
}
