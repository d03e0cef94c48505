//! HTTP against real servers on loopback.

mod support;

mod coding;
mod connection;
mod credentials;
mod exchange;
mod fetch;
mod goaway;
mod guard;
mod redact;
mod reuse;
mod secure;
mod sse_legacy;
mod tails;
#[cfg(unix)]
mod unix;
