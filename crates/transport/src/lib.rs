//! Transports: how MCP messages move between us and a server.
//!
//! Two kinds of link exist. A *pipe* ([`process`], [`pipe`]) carries messages both ways without
//! saying which belong together; the caller matches ids. An *exchange* ([`http`]) ties the response
//! to the request that was posted. On both, every failure and every end is a
//! [`Fault`](bowline_proto::fault::Fault) that names its cause.
//!
//! # Features
//!
//! `http`, `http2`, `stdio`, `compression`, `cookies` and `proxy`, all on by default. Without `http` or
//! `stdio`, the module of that name has only types without values, and opening such a link fails.

// The pages on docs.rs name the feature that each item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "http")]
pub mod http;
#[cfg(not(feature = "http"))]
#[path = "http_absent.rs"]
pub mod http;
mod percent;
pub mod pipe;
#[cfg(feature = "stdio")]
pub mod process;
#[cfg(not(feature = "stdio"))]
#[path = "process_absent.rs"]
pub mod process;
mod redact;
mod shown_url;
mod suspend;

pub use percent::percent_decode_lossy;
pub use redact::{REDACTED, Redactor};
pub use shown_url::{describe_url, describe_url_text, is_word};
pub use suspend::is_suspend;
