//! A server written by others: how it is configured, what it offers, and what is called.

use std::fmt::Write as _;

use crate::expected_call::ExpectedCall;

#[derive(Clone)]
pub(crate) struct PeerServer {
    /// Its name in the configuration, which is the prefix of its tools.
    pub(crate) name: &'static str,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Further lines of its entry.
    pub(crate) settings: String,
    /// All tools, in the order of the server.
    pub(crate) tools: &'static [&'static str],
    /// Calls before anything has happened to the server.
    pub(crate) calls: Vec<ExpectedCall>,
    /// Calls after its process was killed. The first one may be sent to two processes, so its tool is
    /// read-only or idempotent.
    pub(crate) calls_after_kill: Vec<ExpectedCall>,
}

impl PeerServer {
    /// Writes the entry of the configuration.
    pub(crate) fn entry(&self) -> String {
        let (program, args) = self.command.split_first().expect("a program");
        let mut entry = format!("[servers.{}]\ncommand = {program:?}\nargs = {args:?}\n", self.name);
        // A loaded machine starts interpreters slowly.
        entry += "connect_timeout = '60s'\nreconnect_wait = '60s'\n";
        writeln!(entry, "{}", self.settings).expect("writing to a string");
        entry
    }
}

/// Returns a variable that the test command sets. Without it the test fails: a missing server must not look like a
/// working one.
pub(crate) fn required_variable(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `cargo xtask test --only interop`, which installs the servers")
    })
}
