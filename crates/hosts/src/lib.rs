//! The configuration files of MCP hosts: where they are, which servers they name, and how one entry
//! in them is changed.
//!
//! Nothing here starts a program or sends a request. Every file is untrusted input.

mod edit;
mod entry;
mod host;
mod locations;

pub use edit::{EditError, HostDocument, Insertion};
pub use entry::{ServerCommand, starts_bowline};
pub use host::{FileFormat, Host};
pub use locations::{HostFile, Scope, host_files};
