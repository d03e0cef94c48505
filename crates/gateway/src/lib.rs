//! An MCP endpoint for hosts, in front of connections that hold.
//!
//! [`Host`] is the side of the host: one line per message on stdin and stdout. [`Relay`] joins one host to
//! one server, so that the host's session outlives every fault of the server's:
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use bowline::Server;
//! use bowline_gateway::{Host, Relay};
//!
//! let server = Server::http("docs", "https://mcp.example.com/mcp")?;
//! let until_told = std::future::pending();
//! Relay::new(server).run(Host::stdio(), until_told).await;
//! # Ok(())
//! # }
//! ```
//!
//! # What passes untouched
//! Params, results and errors pass as they came, unknown members and spellings of numbers included. What is
//! rewritten is what belongs to one side alone: ids, progress tokens, and the handshake, which each side
//! has with us.

mod greeting;
mod host;
mod refusal;
mod relay;

pub use host::Host;
pub use refusal::UNREACHABLE;
pub use relay::Relay;
