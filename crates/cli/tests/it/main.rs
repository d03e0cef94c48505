//! The real binary, in a home of its own, against real servers. A snapshot holds the exit code,
//! stdout and stderr: together they are what scripts and people rely on.

mod call;
mod config;
mod context;
mod demo;
mod docs;
mod failures;
mod grammar;
mod info;
#[cfg(unix)]
mod interrupt;
mod lists;
mod read;
#[cfg(unix)]
mod terminal;
mod trust;
