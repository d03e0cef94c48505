//! Whole files in, servers or error texts out.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests may read the clock and files")]

mod auth;
mod connection;
mod hooks;
mod host_auth;
mod json;
mod layers;
mod properties;
mod schema;
mod secrets;
mod serve;
mod server_requests;
mod store;
mod toml;
mod views;

use bowline_config::{Config, FixedEnvironment, Problem, Source, parse};

/// Returns the environment of these tests.
fn environment() -> FixedEnvironment {
    FixedEnvironment::default()
        .with_var("TOKEN", "s3cret")
        .with_var("BROKEN", "s3cret\r\nX-Evil: 1")
        .with_var("HOME", "/home/me")
        .with_file("/etc/bowline/token", "s3cret\n")
}

/// Parses a file that must be valid.
#[track_caller]
fn parse_valid(path: &str, text: &str) -> Config {
    match parse(&Source::new(path, text), &environment()) {
        Ok(config) => config,
        Err(errors) => panic!("unexpected errors:\n{errors}"),
    }
}

/// Returns the error text of a file that must be invalid. It never contains a secret.
#[track_caller]
fn parse_errors(path: &str, text: &str) -> String {
    match parse(&Source::new(path, text), &environment()) {
        Ok(config) => panic!("unexpectedly right: {config:?}"),
        Err(errors) => {
            let shown = errors.to_string();
            assert!(!shown.contains("s3cret"), "{shown}");
            shown
        }
    }
}

fn note_lines(notes: &[Problem]) -> String {
    let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    notes.join("\n")
}
