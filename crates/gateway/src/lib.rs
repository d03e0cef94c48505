//! An MCP endpoint for hosts that keeps their sessions alive while a server reconnects.
//!
//! [`Relay`] connects one [`Host`] to one server, so that the session of the host outlives every
//! fault of the server, in whatever revision the two of them speak:
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use bowline::Server;
//! use bowline_gateway::{Host, Relay};
//!
//! let server = Server::http("docs", "https://mcp.example.com/mcp").build()?;
//! let stop = std::future::pending();
//! Relay::new(server).run(Host::stdio(), stop).await;
//! # Ok(())
//! # }
//! ```
//!
//! [`Gateway`] puts many servers behind one endpoint, for any number of hosts, over stdio or HTTP:
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use bowline::Server;
//! use bowline_gateway::{Gateway, HttpListener, HttpSettings};
//!
//! let docs = Server::http("docs", "https://mcp.example.com/mcp").build()?;
//! let files = Server::stdio("files", "mcp-server-files").build()?;
//! let gateway = Gateway::builder([docs, files]).build();
//! let socket = tokio::net::TcpListener::bind("127.0.0.1:7355").await?;
//! let listener = HttpListener::tcp(socket, HttpSettings::new().with_bearer_token("secret"));
//! let stop = std::future::pending();
//! gateway.serve_hosts(listener, Duration::from_secs(10), stop).await;
//! # Ok(())
//! # }
//! ```
//!
//! # What passes untouched
//! Params, results and errors pass byte for byte, including unknown members and spellings of
//! numbers. Only what belongs to one side is rewritten: ids, progress tokens, and the handshake,
//! which each side has with the relay; and behind a [`Gateway`] names and URIs that several servers
//! have.

mod catalog;
mod error_response;
mod exposed_result;
mod first_connection;
mod fleet;
mod forwarded_call;
mod gateway;
mod handshake;
mod host_handler;
mod host_notifications;
mod host_queue;
mod host_roots;
mod jwt_verifier;
mod open_calls;
mod relay;
mod session_files;
mod stored_sessions;
mod task_id;
mod trace;
mod unchecked_methods;
mod view;

pub use bowline::config::View;
pub use bowline_proto::server::UNREACHABLE;
pub use bowline_server::{
    HOSTS_PER_IDENTITY, Host, HostLimits, HttpControl, HttpListener, HttpSettings, IdleWatch, LimitsControl,
    RecordCheck, ResourceServer, SessionIdKey, SessionStore, SessionStoreFuture, StoredSession,
    TokenIdentity, TokenRefusal, TokenVerifier, TokenVerifierFuture,
};
pub use catalog::{
    CatalogCache, CatalogKey, FolderCatalog, ListKind, NameOwners, Naming, Profile, SavedLists, ServerLists,
    StaleLists, TaskOffer,
};
pub use fleet::Reload;
pub use gateway::{Gateway, GatewayBuilder, STALE_SERVERS};
pub use jwt_verifier::JwtVerifier;
pub use relay::Relay;
pub use session_files::SessionFiles;
pub use stored_sessions::StoredSessions;
pub use task_id::TaskKey;
