//! The Model Context Protocol as state machines that do no I/O.
//!
//! This crate says what is true; a driver moves the bytes. Time comes in as an argument, randomness as a
//! seed, so every fault can be played on a virtual clock.
//!
//! - [`wire`]: messages as they are on the wire, and typed views of results
//! - [`frame`]: bytes to messages
//! - [`era`]: which protocol does this server speak
//! - [`session`]: the life of one server
//! - [`calls`]: calls in flight
//! - [`fault`]: what can go wrong and what it costs
//! - [`loss`]: does this answer mean that the session is gone
//! - [`retry`]: the fate of a request that failed
//! - [`form`]: does what was filled in fit what was asked for
//! - [`meta_key`]: who may use which key of `_meta`
//! - [`trace`]: which trace a request belongs to
//! - [`tasks`]: following a task to its end
//! - [`keepalive`]: when to probe an idle server, and what an answer proves

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
