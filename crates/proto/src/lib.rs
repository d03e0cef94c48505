//! The Model Context Protocol as state machines that do no I/O.
//!
//! The crate decides; a driver moves the bytes. Time comes in as an argument and randomness as a
//! seed, so every fault can be simulated on a virtual clock.
//!
//! - [`client`]: the state machines of a connection to a server
//! - `server`: the state machines of a connection to a host (feature `server`, on by default)
//! - [`wire`]: JSON-RPC messages, and typed views of results
//! - [`frame`]: decoders that split bytes into messages
//! - [`revision`]: the protocol revisions and their eras
//! - [`fault`]: failures, and what each costs the connection
//! - [`backoff`]: exponential waits between attempts
//! - `form`: checks of form input against an elicitation's schema (feature `form`, on by default)
//! - [`meta_key`]: syntax and ownership of `_meta` keys
//! - [`stable_hash`]: a short hash that is the same everywhere
//! - [`timestamp`]: timestamps of RFC 3339
//! - [`tool_names`]: unique names for tools of many servers, valid for every model
//! - [`trace`]: W3C trace context
//! - [`via`]: the gateways between a program and its host

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests may read the clock and files"
    )
)]

pub mod backoff;
pub mod client;
pub mod fault;
#[cfg(feature = "form")]
pub mod form;
pub mod frame;
pub mod meta_key;
mod named;
pub mod revision;
#[cfg(feature = "server")]
pub mod server;
pub mod stable_hash;
pub mod timestamp;
pub mod tool_names;
pub mod trace;
pub mod via;
pub mod wire;
