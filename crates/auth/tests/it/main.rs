//! Identities against an authorization server and a server that it protects, over real sockets and
//! with other processes where needed.

mod accounts;
mod answers;
mod flaky;
mod headers;
mod logins;
mod processes;
mod refresh;
mod secrets;
mod support;
mod unwritten;
mod worker;
