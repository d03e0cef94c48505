//! A host on a pipe of its own, the relay, and a server whose failures can be armed.

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
