//! The real binary, in a home of its own, against real servers. A snapshot holds the exit code,
//! stdout and stderr: together they are what scripts and people rely on.

mod call;
mod config;
mod connect;
mod context;
mod demo;
mod docs;
mod failures;
mod grammar;
#[cfg(unix)]
mod hooks;
mod info;
#[cfg(unix)]
mod interrupt;
mod lists;
#[cfg(unix)]
mod logs;
#[cfg(unix)]
mod ps;
mod read;
mod status;
#[cfg(unix)]
mod terminal;
mod trust;
#[cfg(unix)]
mod unread;
#[cfg(unix)]
mod watch;
