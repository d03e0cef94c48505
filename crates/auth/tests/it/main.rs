//! Identities against an authorization server and a server that it protects, over real sockets and
//! with other processes where needed.

mod accounts;
mod failing_store;
mod headers;
mod logins;
mod processes;
mod reauthenticate;
mod refresh;
mod secrets;
mod support;
mod unsaved;
mod worker;
