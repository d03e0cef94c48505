//! The client's half of the protocol: the state machines of a connection to one server.
//!
//! - [`negotiation`]: negotiation of the protocol revision
//! - [`session`]: the connection state of one server
//! - [`calls`]: pending calls, their ids and deadlines
//! - [`loss`]: whether a reply means that the session is lost
//! - [`retry`]: whether a failed request is sent again
//! - [`tasks`]: polling a task until it ends
//! - [`keepalive`]: when to probe an idle server, and what the reply proves

pub mod calls;
pub mod keepalive;
pub mod loss;
pub mod negotiation;
pub mod retry;
pub mod session;
pub mod tasks;
