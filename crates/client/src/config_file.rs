//! Reads configuration files: one that is named, or those that the command finds.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use bowline::host::Host;
//! use bowline::{Registry, config_file};
//!
//! let config = config_file::discover()?;
//! for note in &config.notes {
//!     eprintln!("{note}");
//! }
//! let registry = Registry::builder().handler(Host::from_config(&config)?).open(&config);
//! # registry.close().await;
//! # Ok(())
//! # }
//! ```

use std::path::Path;

use bowline_config::{Config, Environment, Errors, Source, parse};
use bowline_settings::{Layers, SettingsError, read_small_file};

pub use bowline_settings::ProcessEnvironment;

/// Why there is no configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFileError {
    /// A file cannot be read, or cannot be found.
    #[error("{0}")]
    Unreadable(String),
    /// A file was read and has these problems.
    #[error(transparent)]
    Invalid(#[from] Errors),
}

/// Reads one configuration file: TOML as the command has it, or the `mcpServers` JSON of other
/// hosts. Placeholders are filled from the environment of this process.
///
/// Reading it is trusting it: connecting to its servers runs its commands.
pub fn load(path: impl AsRef<Path>) -> Result<Config, ConfigFileError> {
    load_with(path.as_ref(), &ProcessEnvironment::read())
}

/// [`load`] with another environment, such as one whose variables a test sets.
pub fn load_with(path: &Path, env: &dyn Environment) -> Result<Config, ConfigFileError> {
    let text = read_small_file(path)
        .map_err(|why| ConfigFileError::Unreadable(format!("cannot use {}: {why}", path.display())))?;
    Ok(parse(&Source::new(path, text), env)?)
}

/// Finds and reads the configuration that the command would use here: the file that
/// `BOWLINE_CONFIG` names, or else the user's file and over it the project's: the nearest `.mcp.json`
/// and over that the nearest `bowline.toml`, in the current folder or one above. No file is an empty
/// configuration.
///
/// A project's file is used only if the user trusts exactly its content (`bowline trust`).
/// Otherwise nothing of it has any effect, and [`Config::notes`] names it with the reason.
pub fn discover() -> Result<Config, ConfigFileError> {
    discover_with(&ProcessEnvironment::read())
}

/// [`discover`] with another environment. The current folder is that of this process.
pub fn discover_with(env: &dyn Environment) -> Result<Config, ConfigFileError> {
    let (config, errors) = Layers::discover(env)?.into_config();
    match errors {
        None => Ok(config),
        Some(errors) => Err(errors.into()),
    }
}

impl From<SettingsError> for ConfigFileError {
    fn from(error: SettingsError) -> Self {
        Self::Unreadable(match error.hint {
            Some(hint) => format!("{}; {hint}", error.message),
            None => error.message,
        })
    }
}
