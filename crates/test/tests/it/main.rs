//! The fake server, as a client of this workspace sees it.

mod changes;
mod examples;
mod faults;
mod features;
mod limits;
mod panics;
mod support;
mod tool_futures;
