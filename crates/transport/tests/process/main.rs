//! Servers as child processes.
#![cfg(unix)]

mod support;

mod end;
#[cfg(target_os = "linux")]
mod flood;
mod killed;
#[cfg(target_os = "linux")]
mod memory;
mod records;
mod shutdown;
mod start;
mod talk;
