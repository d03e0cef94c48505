//! The configuration files of MCP hosts: where they are, which servers they name, and how one entry
//! in them is changed.
//!
//! Nothing here starts a program or sends a request. Every file is untrusted input.

mod edit;
mod entry;
mod host;
mod import;
mod locations;
mod read;

pub use edit::{EditError, HostDocument, Insertion};
pub use entry::{ServerCommand, starts_bowline};
pub use host::{FileFormat, Host};
pub use import::{FoundServer, ImportAction, PlannedServer, guess_host, plan_import};
pub use locations::{ClaudeFiles, HostFile, Scope, host_files, profile_files, project_of_file};
pub use read::{
    ClaudeSettings, FileOrigin, HostServer, HostServerContent, ServerEntry, StoredSecret, check_syntax,
    has_secret, read_servers, read_servers_with, redact_tokens, secret_values_in_pair,
    secret_values_in_words,
};
