//! Where the configuration files of a user and of a project are, what they say together, and
//! whether the user trusts the project's.
//!
//! `bowline-config` says what a text means and does no I/O; this crate reads the texts. The command
//! and the library use it alike, so that they find the same servers.

mod edit;
mod environment;
mod error;
mod files;
mod folders;
pub mod private_folder;
mod shell_quote;
mod trust;
mod user_file;

pub use edit::{ConfigEditor, EntryValue};
pub use environment::{
    ProcessEnvironment, TextFileError, describe_io_error, non_empty_var, read_small_file, read_text_file,
};
pub use error::SettingsError;
pub use files::{
    CONFIG_VARIABLE, ConfigFiles, Layer, Layers, Origin, PROJECT_FILES, ProjectTrust, ServerLookup,
    UntrustedFile, find_project_files,
};
pub use folders::{
    catalog_folder, home_folder, negotiations_folder, process_records_folder, state_folder, user_config_path,
    variable,
};
pub use shell_quote::shell_quote;
pub use trust::{
    DistrustReason, Exposure, ProjectFile, TrustRecords, TrustRow, TrustState, hex_hash, resolve_location,
    trust_command,
};
pub use user_file::{ReplaceError, replace_user_file};
