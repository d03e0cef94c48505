//! Integration tests: a host on its own pipe, the relay, and a server with armable failures.

mod byte_exact;
mod calls;
mod exposure;
mod gateway;
mod handshake;
mod http_hosts;
mod input;
mod passthrough;
mod raw_server;
mod recovery;
mod server_requests;
mod shutdown;
mod support;
mod tasks;
