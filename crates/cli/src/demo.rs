//! `bowline demo`: a server on a loopback port of this process that gives trouble, and callers that should
//! not notice.
//!
//! The server is Streamable HTTP of revision 2025-11-25, with sessions: `http` moves bytes, `knots` is what
//! it knows, `state` is what it remembers, `ledger` counts what it ran. `plan` says which trouble comes
//! next, `signature` in which words, and `trouble` makes it. `callers` use it, `board` notes how they fare,
//! and `summary` and `show` tell.

mod board;
mod callers;
mod http;
mod knots;
mod ledger;
mod plan;
mod show;
mod signature;
mod state;
mod summary;
mod trouble;

pub(crate) use board::Board;
pub(crate) use callers::call_steadily;
pub(crate) use http::DemoServer;
pub(crate) use ledger::Ledger;
pub(crate) use plan::Plan;
pub(crate) use show::{Show, ending, line};
pub(crate) use state::State;
pub(crate) use summary::Summary;
pub(crate) use trouble::make_trouble;
