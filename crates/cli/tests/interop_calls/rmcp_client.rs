//! A client made with rmcp, in this process.

use rmcp::model::CallToolRequestParams;
use rmcp::service::RunningService;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{RoleClient, ServiceExt as _};
use tokio::process::Command;

use crate::lab::{Lab, LabCall, Target, confine};
use crate::limit::within;
use crate::tally::Caller;

pub(crate) struct RmcpClient {
    service: RunningService<RoleClient, ()>,
}

impl RmcpClient {
    /// Connects and lists the tools.
    pub(crate) async fn connect(lab: &Lab, target: &Target) -> Self {
        let connecting = async {
            match target {
                Target::Command { program, args } => {
                    let mut command = Command::new(program);
                    confine(&mut command, lab.home());
                    command.args(args);
                    ().serve(TokioChildProcess::new(command).expect("it starts")).await
                }
                Target::Url { url, token } => {
                    // The HTTP client is built without a provider of cryptography, and wants one all the same.
                    let _ = rustls::crypto::ring::default_provider().install_default();
                    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                    if let Some(token) = token {
                        config = config.auth_header(token);
                    }
                    ().serve(StreamableHttpClientTransport::from_config(config)).await
                }
            }
        };
        let service = within("connecting", connecting).await.expect("it connects");
        let tools = within("listing", service.list_all_tools()).await.expect("it lists");
        for tool in ["echo", "tie_knot"] {
            assert!(tools.iter().any(|listed| listed.name == tool), "no {tool}");
        }
        Self { service }
    }

    pub(crate) async fn close(self) {
        within("closing", self.service.cancel()).await.expect("it ends");
    }
}

impl Caller for RmcpClient {
    async fn call(&mut self, call: &LabCall) -> Result<String, String> {
        let arguments = call.arguments.as_object().expect("an object").clone();
        let params = CallToolRequestParams::new(call.tool).with_arguments(arguments);
        let result = self.service.call_tool(params).await.map_err(|error| error.to_string())?;
        let text = result.content.first().and_then(|block| block.as_text()).map(|text| text.text.clone());
        text.ok_or_else(|| "no text".to_owned())
    }
}
