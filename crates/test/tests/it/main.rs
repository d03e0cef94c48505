//! The fake server, as a client of this workspace sees it.

mod faults;
mod features;
mod support;
