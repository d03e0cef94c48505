//! A kit of real test servers: a scripted MCP server with injectable faults, an authorization
//! server with injectable faults, and a TCP proxy that injects faults.
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

mod answer;
mod auth_server;
pub mod canary;
mod completion;
mod control;
#[cfg(target_os = "linux")]
mod ended;
mod engine;
mod fault;
mod host;
mod http;
mod ledger;
mod port;
mod proxy;
mod question;
mod resource;
pub mod rpc;
mod script;
mod stdio;
mod sync;
mod task_plan;
mod tool;

pub use answer::Answer;
#[doc(hidden)]
pub use auth_server::auth_main;
pub use auth_server::{
    AuthClient, AuthControl, AuthCounts, AuthScript, AuthServer, Browser, Issued, Page, Protected,
    RefreshTokens, Reuse, Seen, SigningKey, Twist, WellKnown, altered, follow,
};
pub use canary::SECRET;
pub use completion::Completion;
pub use control::{Control, Request};
#[cfg(target_os = "linux")]
pub use ended::ended;
pub use engine::{Asked, ListenEnd, Listening, Session, TaskInfo, Via};
pub use fault::Fault;
pub use http::HttpServer;
pub use ledger::Received;
pub use proxy::{Ending, FaultProxy, Flow, LinkInfo, Rules};
pub use question::Question;
pub use resource::Resource;
pub use script::{Cursors, LEGACY_VERSIONS, MODERN_VERSION, Script};
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
