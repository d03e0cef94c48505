//! The comparison of the ways from a host to a server: whole hosts make calls while the server is restarted, directly,
//! through mcp-remote and through bowline.
//!
//! `cargo xtask bench hosts` runs it, and installs the hosts first. It shares the servers, the hosts and the scripted
//! model with the tests in `crates/cli/tests/interop_calls.rs`.

#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/interop_calls/gateway.rs"]
mod gateway;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/interop_calls/host_program.rs"]
mod host_program;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/interop_calls/lab.rs"]
mod lab;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../client/tests/support_interop/limit.rs"]
mod limit;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../client/tests/support_interop/restart.rs"]
mod restart;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/interop_calls/script_client.rs"]
mod script_client;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#[path = "hosts/table.rs"]
mod table;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/interop_calls/tally.rs"]
mod tally;

#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#[tokio::main]
async fn main() {
    table::print_all().await;
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
fn main() {
    panic!("the hosts are installed on Linux (x86-64, glibc) only");
}
