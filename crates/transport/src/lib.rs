//! How MCP messages move.
//!
//! Two shapes of link exist. A *pipe* ([`process`], [`memory`]) carries messages both ways without saying
//! which belong together; the caller matches ids. An *exchange* ([`http`]) ties the answers to the
//! request that was posted. Either way nothing ends without saying why: every failure is a
//! [`Fault`](bowline_proto::fault::Fault).

pub mod http;
pub mod memory;
pub mod pipe;
pub mod process;
mod redact;

pub use redact::{REDACTED, Redactor};
