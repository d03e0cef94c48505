//! Real servers that are killed and restarted during a steady stream of calls: every call that can
//! be retried succeeds, and the others report an unknown outcome.

#[path = "support_interop/call_stream.rs"]
mod call_stream;
#[path = "support_interop/limit.rs"]
mod limit;
#[path = "support_interop/restart.rs"]
mod restart;

use std::time::Duration;

use bowline::config::Protocol;
use bowline::{Client, ConnectionEvent, ConnectionEventKind, Event, Server, Status};
use call_stream::ToolNames;
use limit::within;
use restart::{LaunchConfig, RestartableServer};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn everything_over_streamable_http() {
    let mortal = RestartableServer::start(EVERYTHING, KILLS).await;
    let server = Server::http("everything", mortal.url("/mcp")).build().unwrap();
    check_recovery(mortal, server, ECHO_TOOLS).await;
}

/// HS-03: the end of the stream is the end of the session.
#[tokio::test(flavor = "multi_thread")]
async fn everything_over_http_sse() {
    let mortal = RestartableServer::start(EVERYTHING_SSE, KILLS).await;
    let server = Server::sse("everything", mortal.url("/sse")).build().unwrap();
    check_recovery(mortal, server, ECHO_TOOLS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fastmcp_in_the_legacy_era() {
    let mortal = RestartableServer::start(FASTMCP, KILLS).await;
    let server = Server::http("fastmcp", mortal.url("/mcp")).build().unwrap();
    check_recovery(mortal, server.with_protocol(Protocol::Legacy), LOOK_AND_ACT_TOOLS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fastmcp_in_the_modern_era() {
    let mortal = RestartableServer::start(FASTMCP, KILLS).await;
    let server = Server::http("fastmcp", mortal.url("/mcp")).build().unwrap();
    check_recovery(mortal, server.with_protocol(Protocol::Modern), LOOK_AND_ACT_TOOLS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rmcp_in_the_legacy_era() {
    if let Ok(port) = std::env::var(PORT_VARIABLE) {
        return serve_rmcp(port.parse().expect("a port")).await;
    }
    let mortal = RestartableServer::start(RMCP, KILLS).await;
    let server = Server::http("rmcp", mortal.url("/mcp")).build().unwrap();
    check_recovery(mortal, server.with_protocol(Protocol::Legacy), LOOK_AND_ACT_TOOLS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rmcp_in_the_modern_era() {
    let mortal = RestartableServer::start(RMCP, KILLS).await;
    let server = Server::http("rmcp", mortal.url("/mcp")).build().unwrap();
    check_recovery(mortal, server.with_protocol(Protocol::Modern), LOOK_AND_ACT_TOOLS).await;
}

/// Kills and restarts the server while calls are made, and checks that they recover.
async fn check_recovery(mut server_process: RestartableServer, server: Server, tools: ToolNames) {
    // The time that starting may take on a loaded machine. Nothing else waits that long.
    let server = server.with_reconnect_wait(Duration::from_secs(20));
    let client = within("connecting", Client::connect(server)).await.expect("it is there");
    within("listing", client.list_tools()).await.expect("it has tools");

    let stop = CancellationToken::new();
    let (stream, mut succeeded) = call_stream::run_calls(client.clone(), tools, stop.clone());
    let mut calls_succeed = async || {
        let enough = *succeeded.borrow_and_update() + CALLS_BETWEEN_KILLS;
        let calls = succeeded.wait_for(|calls| *calls >= enough);
        within("calls succeed", calls).await.map(drop).expect("the stream goes on");
    };
    let mut restart_times = Vec::new();
    for _ in 0..KILLS {
        calls_succeed().await;
        let mut events = client.events();
        server_process.kill().await;
        // A quick server could be back before the client notices that it was gone.
        within("the end is noticed", async {
            loop {
                if let Event::Connection(ConnectionEvent {
                    kind: ConnectionEventKind::Disconnected, ..
                }) = events.next().await.unwrap()
                {
                    break;
                }
            }
        })
        .await;
        restart_times.push(server_process.restart().await);
    }
    calls_succeed().await;
    stop.cancel();
    let ended = within("the stream ends", stream).await.expect("no call had another's answer");

    let failures = call_stream::failures(&ended);
    assert!(failures.is_empty(), "{} of {} calls:\n{}", failures.len(), ended.len(), failures.join("\n"));
    for back in restart_times {
        let first =
            ended.iter().filter(|call| call.outcome.is_ok() && call.at > back).map(|call| call.at).min();
        let delay = first.map(|first| first - back);
        assert!(delay.is_some_and(|delay| delay < RECOVERY_TIMEOUT), "back, but no success for {delay:?}");
    }
    assert!(matches!(client.status().current(), Status::Ready(_)), "{:?}", client.status().current());
    assert!(client.health().recoveries >= KILLS as u64, "{:?}", client.health());
    within("closing", client.close()).await;
}

const KILLS: usize = 2;
/// The number of calls that must succeed before, between and after the kills.
const CALLS_BETWEEN_KILLS: usize = 60;
/// Limits the time from the restart to the first success. Generous, because other tests run as
/// well.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(2);

// === servers ===

const ECHO_TOOLS: ToolNames = ToolNames { harmless: "echo", once: None, argument: "message", is_text: true };
const LOOK_AND_ACT_TOOLS: ToolNames =
    ToolNames { harmless: "look", once: Some("act"), argument: "number", is_text: false };

const EVERYTHING: LaunchConfig =
    LaunchConfig { command: |port| everything_command("streamableHttp", port), preloads: false };
const EVERYTHING_SSE: LaunchConfig =
    LaunchConfig { command: |port| everything_command("sse", port), preloads: false };
const FASTMCP: LaunchConfig = LaunchConfig { command: fastmcp_command, preloads: true };
const RMCP: LaunchConfig = LaunchConfig { command: rmcp_command, preloads: false };

fn everything_command(transport: &str, port: u16) -> Command {
    let mut command = Command::new(required_variable("BOWLINE_NODE"));
    command.args([&*required_variable("BOWLINE_EVERYTHING"), transport]).env("PORT", port.to_string());
    command
}

fn fastmcp_command(port: u16) -> Command {
    let mut command = Command::new(required_variable("BOWLINE_FASTMCP_PYTHON"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/fastmcp_spare.py");
    command.args([script, &port.to_string()]);
    command
}

/// Starts this test binary as a server.
fn rmcp_command(port: u16) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command.args(["--nocapture", "--exact", "rmcp_in_the_legacy_era"]).env(PORT_VARIABLE, port.to_string());
    command
}

/// Returns a variable that the test command sets. Without it the test fails: a missing peer must
/// not look like a working one.
fn required_variable(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `cargo xtask test --only interop`, which installs the peers")
    })
}

const PORT_VARIABLE: &str = "RECOVERY_RMCP_PORT";

async fn serve_rmcp(port: u16) {
    let sessions = std::sync::Arc::new(LocalSessionManager::default());
    let service =
        StreamableHttpService::new(|| Ok(RmcpServer), sessions, StreamableHttpServerConfig::default());
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("the port is kept for us");
    while let Ok((stream, _)) = listener.accept().await {
        let service = hyper_util::service::TowerToHyperService::new(service.clone());
        let stream = hyper_util::rt::TokioIo::new(stream);
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(stream, service));
    }
}

/// A server made with rmcp: one read-only tool, and one without annotations.
#[derive(Clone)]
struct RmcpServer;

impl ServerHandler for RmcpServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object" });
        let tools = json!({ "tools": [
            { "name": "look", "inputSchema": schema, "annotations": { "readOnlyHint": true } },
            { "name": "act", "inputSchema": schema },
        ] });
        Ok(serde_json::from_value(tools).expect("the shape that rmcp knows"))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let number = request.arguments.as_ref().and_then(|all| all.get("number")).map(ToString::to_string);
        Ok(CallToolResult::success(vec![ContentBlock::text(number.unwrap_or_default())]).into())
    }
}
