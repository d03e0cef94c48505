//! The Model Context Protocol as state machines that do no I/O.
//!
//! The crate decides; a driver moves the bytes. Time comes in as an argument and randomness as a
//! seed, so every fault can be simulated on a virtual clock.
//!
//! - [`wire`]: JSON-RPC messages, and typed views of results
//! - [`frame`]: decoders that split bytes into messages
//! - [`era`]: negotiation of the protocol revision
//! - [`session`]: the connection state of one server
//! - [`calls`]: pending calls, their ids and deadlines
//! - [`fault`]: failures, and what each costs the connection
//! - [`loss`]: whether a reply means that the session is lost
//! - [`retry`]: whether a failed request is sent again
//! - [`backoff`]: exponential waits between attempts
//! - [`form`]: checks of form input against an elicitation's schema
//! - [`meta_key`]: syntax and ownership of `_meta` keys
//! - [`trace`]: W3C trace context
//! - [`tasks`]: polling a task until it ends
//! - [`keepalive`]: when to probe an idle server, and what the reply proves
//! - [`revision`]: the protocol revisions and their eras

pub mod backoff;
pub mod calls;
pub mod era;
pub mod fault;
pub mod form;
pub mod frame;
pub mod keepalive;
pub mod loss;
pub mod meta_key;
pub mod retry;
pub mod revision;
pub mod session;
pub mod tasks;
pub mod trace;
pub mod wire;
