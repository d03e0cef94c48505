//! Tests of the test kit with plain clients: an error in the kit would invalidate the tests that
//! use it.

mod auth;
mod faults;
mod features;
mod legacy;
mod lifecycle;
mod listen;
mod model;
mod modern;
mod proxy;
mod server_requests;
mod sse_legacy;
mod stdio;
mod support;
mod tasks;
