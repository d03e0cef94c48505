//! The server's half of the protocol: the state machines of a connection to one host.
//!
//! - [`session`]: what each message of a host means, and where its handshake stands
//! - [`handshake`]: the params of `initialize`, and the offer in its result
//! - [`quota`]: how many requests hosts may have open, and how fast they may come
//! - [`requests`]: requests of the host: ids, bounds and cancellation
//! - [`sent_requests`]: requests to the host: ids, responses and progress
//! - [`call_owners`]: which host a message of a shared server is for
//! - [`delivery`]: the order in which messages reach the host
//! - [`event_streams`]: the event streams of a host over HTTP, and how it resumes them
//! - [`session_journal`]: what is recorded of a session, so that another process can go on with it
//! - [`task_states`]: the states of tasks, for hosts of either dialect
//! - [`http`]: what the headers and the body of an HTTP request mean
//! - [`modern`]: the stateless requests of revision 2026-07-28; all of the above is the legacy era

pub mod call_owners;
pub mod delivery;
pub mod event_streams;
pub mod handshake;
pub mod http;
pub mod modern;
pub mod quota;
pub mod requests;
pub mod sent_requests;
pub mod session;
pub mod session_journal;
pub mod task_states;

pub use crate::via::UNREACHABLE;
