//! Who we are, against an authorization server and a server that it protects: both real sockets, and other processes
//! where it takes them.

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
