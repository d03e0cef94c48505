//! Transports: how MCP messages move between us and a server.
//!
//! Two kinds of link exist. A *pipe* ([`process`], [`pipe`]) carries messages both ways without
//! saying which belong together; the caller matches ids. An *exchange* ([`http`]) ties the response
//! to the request that was posted. On both, every failure and every end is a
//! [`Fault`](bowline_proto::fault::Fault) that names its cause.

pub mod http;
mod percent;
pub mod pipe;
pub mod process;
mod redact;

pub use percent::percent_decode_lossy;
pub use redact::{REDACTED, Redactor};
