//! Integration tests: a host on its own pipe, the relay, and a server with armable failures.

mod asks;
mod calls;
mod ending;
mod exact;
mod handshake;
mod input;
mod raw_server;
mod recovery;
mod support;
mod tasks;
mod untouched;
