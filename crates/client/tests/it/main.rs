//! The library against the scripted server: real sockets, real processes, armed failures.

mod bad_input;
mod calls;
mod handlers;
mod headers;
mod life;
mod lists;
mod negotiation;
mod outcomes;
mod support;
