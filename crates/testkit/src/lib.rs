//! A kit of real test servers: a scripted MCP server with injectable faults, an authorization
//! server with injectable faults, a TCP proxy that injects faults, a scripted model endpoint, and a
//! registry of servers.
//!
//! ```
//! # async fn example() {
//! use bowline_testkit::{self as testkit, Fault};
//! use std::time::Duration;
//!
//! let server = testkit::server().tool("echo").tool("counter").run().await;
//! server.arm(Fault::reset().on("tools/call").executed());
//! // … point a client at server.url() and call `counter` …
//! server.wait_for(|r| r.tool() == Some("counter"), Duration::from_secs(5)).await;
//! assert_eq!(server.executions("counter"), 1);
//! server.restart().await;
//! # }
//! ```
//!
//! The kit shares no code with the code under test. It implements the protocol a second time, so
//! that a mistake goes unnoticed only if it is made twice.

/// Sets fields of a value. Structs that can grow cannot be written out by other crates.
///
/// ```
/// let range = bowline_testkit::with!(0..9, start: 3, end: 5);
/// assert_eq!(range, 3..5);
/// ```
#[macro_export]
macro_rules! with {
    ($base:expr, $($field:ident: $value:expr),+ $(,)?) => {{
        let mut value = $base;
        $(value.$field = $value;)+
        value
    }};
}

mod armed_faults;
mod auth_server;
pub mod canary;
mod canned_response;
mod completion;
mod control;
mod engine;
mod event_log;
mod fault;
mod http;
mod message_log;
mod model;
mod port_listener;
#[cfg(target_os = "linux")]
mod process_exit;
mod proxy;
mod registry;
mod resource;
pub mod rpc;
mod script;
mod scripted_request;
mod server_thread;
mod stdio;
mod sync;
mod task_plan;
mod tool;

pub use armed_faults::InjectedFault;
#[doc(hidden)]
pub use auth_server::AuthFaultKind;
pub use auth_server::{
    AuthClient, AuthControl, AuthCounts, AuthFault, AuthScript, AuthServer, Browser, IssuedTokens,
    Protection, ReceivedAuthRequest, RefreshTokenPolicy, SigningKey, WebPage, follow_authorize_url,
    with_query_parameter,
};
pub use canary::SECRET_PREFIX;
pub use canned_response::CannedResponse;
pub use completion::Completion;
pub use control::{Control, PendingServerRequest};
pub use engine::{ServerRequestInfo, Session, StreamKind, SubscriptionEnd, SubscriptionInfo, TaskInfo};
pub use fault::Fault;
#[doc(hidden)]
pub use fault::FaultKind;
pub use http::HttpServer;
pub use message_log::ReceivedMessage;
pub use model::{ScriptedModel, ToolOutcome};
#[cfg(target_os = "linux")]
pub use process_exit::wait_for_exit;
pub use proxy::{ConnectionEnd, FaultProxy, FlowRules, LinkInfo, ProxyRules};
pub use registry::{RegistryAnswer, ScriptedRegistry};
pub use resource::Resource;
pub use script::{Cursors, LEGACY_VERSIONS, MODERN_VERSION, Script};
pub use scripted_request::ScriptedRequest;
#[doc(hidden)]
pub use stdio::stdio_main;
pub use stdio::{ProcessEvent, ProcessInfo, StdioCommand, StdioServer, stdio_command};
pub use task_plan::TaskPlan;
pub use tool::Tool;

/// Returns the script of an authorization server that follows the specifications and consents to
/// everything; its methods change that.
pub fn auth_server() -> AuthScript {
    AuthScript::default()
}

/// Returns the script of an MCP server that offers nothing yet and speaks both eras.
pub fn server() -> Script {
    Script::default()
}
