//! Clients and hosts written by others make calls through bowline, over stdio and over HTTP, while a server forgets its
//! sessions, another one is killed, and the gateway itself is killed. All calls are right.
//!
//! The clients are made with SDKs. The hosts are whole programs, in front of a scripted model on the loopback.
//! `cargo xtask bench hosts` (`crates/cli/benches/hosts.rs`) has them make calls on other ways to a server as well.

#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

#[path = "interop_calls/clients.rs"]
mod clients;
#[path = "interop_calls/gateway.rs"]
mod gateway;
#[allow(dead_code, reason = "the comparison of hosts uses the rest")]
#[path = "interop_calls/host_program.rs"]
mod host_program;
#[path = "interop_calls/hosts.rs"]
mod hosts;
#[path = "interop_calls/inspector.rs"]
mod inspector;
#[allow(dead_code, reason = "the comparison of hosts uses the rest")]
#[path = "interop_calls/lab.rs"]
mod lab;
#[path = "../../client/tests/support_interop/limit.rs"]
mod limit;
#[path = "../../client/tests/support_interop/restart.rs"]
mod restart;
#[path = "interop_calls/rmcp_client.rs"]
mod rmcp_client;
#[allow(dead_code, reason = "the comparison of hosts uses the rest")]
#[path = "interop_calls/script_client.rs"]
mod script_client;
#[allow(dead_code, reason = "the comparison of hosts uses the rest")]
#[path = "interop_calls/tally.rs"]
mod tally;
