//! The library against the scripted server: real sockets, real processes, armed failures.

mod bad_input;
mod calls;
mod event_stream;
mod handlers;
mod headers;
mod hooks;
mod keepalive;
mod life;
mod lists;
mod negotiation;
mod once;
mod outcomes;
mod reconnect;
mod registry;
mod sessions;
mod streams;
mod support;
