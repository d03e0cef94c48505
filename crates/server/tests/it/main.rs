//! Integration tests: hosts over HTTP on real sockets, with a server that does what its host says.

mod batches;
mod client;
mod event_streams;
mod guard;
mod host_limits;
mod http_client;
mod limits;
mod oauth;
mod posts;
mod reload;
mod restart;
mod restore;
mod resume;
mod sessions;
mod shutdown;
mod sse;
mod stateless;
mod test_server;
mod trimmed;
mod views;
