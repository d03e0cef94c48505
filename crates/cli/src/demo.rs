//! Implements the server and the callers of `bowline demo`: a server on a loopback port of this
//! process causes failures, and the callers should not notice.
//!
//! The server speaks Streamable HTTP up to revision 2025-11-25, with sessions: `http` serves
//! requests, `host_session` says what they mean, `tools` has its tools, `state` holds its state,
//! `ledger` counts what it ran. `plan` decides
//! which failure comes next, `signature` how a lost session is reported, and `trouble` causes it.
//! `callers` make the calls, `recorder` records their outcomes, and `summary` and `view` show them.

mod callers;
mod host_session;
mod http;
mod ledger;
mod plan;
mod recorder;
mod signature;
mod state;
mod summary;
mod tools;
mod trouble;
mod view;

pub(crate) use callers::call_steadily;
pub(crate) use http::DemoServer;
pub(crate) use plan::Plan;
pub(crate) use recorder::CallRecorder;
pub(crate) use state::DemoState;
pub(crate) use summary::Summary;
pub(crate) use trouble::make_trouble;
pub(crate) use view::{DemoView, describe_trouble, render_summary};
