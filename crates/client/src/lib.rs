//! MCP connections that hold: a complete client for the Model Context Protocol.
//!
//! The entry point is [`Client::connect`].
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use bowline::{Client, Server};
//! use serde_json::json;
//!
//! let client = Client::connect(Server::stdio("files", "my-mcp-server").args(["--root", "."])).await?;
//! for tool in client.list_tools().await? {
//!     println!("{}", tool.name);
//! }
//! let result = client.call_tool("search", &json!({ "query": "knots" })).await?;
//! println!("{}", result.text());
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Cancel safety
//! Dropping the future of a call cancels it: a legacy server, or any server on a pipe, is sent
//! `notifications/cancelled`; a modern HTTP server sees the stream close. A late response is
//! discarded. A call that became a task is canceled with `tasks/cancel` only. Dropping any other
//! future has no effect on the wire.

#[cfg(feature = "auth")]
pub mod auth;
#[cfg(not(feature = "auth"))]
#[path = "auth_absent.rs"]
mod auth;
mod call;
mod client;
mod client_capabilities;
mod clock;
#[cfg(feature = "config")]
pub mod config_file;
mod connection;
mod error;
mod events;
mod features;
mod handler;
#[cfg(feature = "hooks")]
pub mod hooks;
#[cfg(not(feature = "hooks"))]
#[path = "hooks_absent.rs"]
mod hooks;
#[cfg(feature = "host")]
pub mod host;
#[cfg(feature = "icons")]
pub mod icons;
mod layer;
#[cfg(feature = "model")]
pub mod model;
pub mod negotiation;
mod random;
mod registry;
mod report;
#[cfg(feature = "sampling")]
pub mod sampling;
mod saved_session;
#[cfg(feature = "schema")]
pub mod schema;
mod status;

pub use bowline_config as config;
pub use bowline_config::{Config, HttpServer, IntoServer, Server, StdioServer};
pub use bowline_proto::client::negotiation::Peer;
pub use bowline_proto::client::session::Status;
pub use bowline_proto::client::tasks::TaskHandle;
pub use bowline_proto::fault;
pub use bowline_proto::fault::Execution;
#[cfg(feature = "host")]
pub use bowline_proto::form;
pub use bowline_proto::revision::{Era, Revision};
pub use bowline_proto::wire;
pub use bowline_proto::wire::view;

#[cfg(feature = "stdio")]
/// The server processes of all programs of this user that keep their records in the same folder.
pub mod processes {
    pub use bowline_transport::process::{Orphan, RunningProcess, RunningServer, list, sweep};
}

pub use bowline_proto::meta_key::{InvalidMetaKey, MetaKey};
pub use bowline_proto::trace::TraceContext;
pub use call::{Call, CallBuilder, ProgressStream};
pub use client::{Builder, Client};
pub use connection::{CallOptions, List};
pub use error::{Error, ErrorKind, Result, TaskEnd};
pub use events::{
    ConnectionEvent, ConnectionEventKind, Event, EventItem, EventReceiver, EventSender, ListChange, ListKind,
    Notification, Topic, channel as event_channel,
};
#[cfg(feature = "skills")]
pub use features::skills;
pub use features::{Completer, Reference, ResourceChange, Subscription, TaskOrResult, templates};
pub use handler::{Handler, HandlerResult, NoHandler, RootChanges, ServerRequest, UrlElicitationOutcome};
pub use layer::{Layer, LayerFuture, OutgoingRequest, Refusal};
pub use registry::{Registry, RegistryBuilder, ServerEvent, ServerState, ServerStatus};
pub use report::{CallEnded, CallReport, Outcome, ToolResult};
pub use saved_session::SavedSession;
pub use status::{Health, StatusWatch};
