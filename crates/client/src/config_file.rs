//! [`LoadConfig`]: reads configuration files: one that is named, or those that the command finds.

use std::path::Path;

use bowline_config::{Config, Environment, Errors, Source, parse};
use bowline_settings::{Layers, SettingsError, read_small_file};

pub use bowline_settings::ProcessEnvironment;

/// Reads a [`Config`] from files: `Config::load` one that is named, `Config::discover` those that
/// the command finds. Only `Config` implements it.
///
/// Two limits of a call have other names in files than in the library. A server's `timeout` is how long
/// a call may be silent: [`CallOptions::idle_timeout`](crate::CallOptions::idle_timeout), and
/// `idle_timeout` of a server that a program writes. Its `max_timeout` is how long a call may take in
/// all: [`CallOptions::timeout`](crate::CallOptions::timeout), and `timeout` there.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use bowline::host::Host;
/// use bowline::{Config, LoadConfig, Registry};
///
/// let config = Config::discover()?;
/// for note in &config.notes {
///     eprintln!("{note}");
/// }
/// let registry = Registry::builder().handler(Host::from_config(&config)?).open(&config);
/// # registry.close().await;
/// # Ok(())
/// # }
/// ```
pub trait LoadConfig: sealed::Sealed + Sized {
    /// Reads one configuration file: TOML as the command has it, or the `mcpServers` JSON of other
    /// hosts. Placeholders are filled from the environment of this process.
    ///
    /// Reading it is trusting it: connecting to its servers runs its commands.
    fn load(path: impl AsRef<Path>) -> Result<Self, ConfigFileError> {
        Self::load_with(path, &ProcessEnvironment::read())
    }

    /// [`LoadConfig::load`] with another environment, such as one whose variables a test sets.
    fn load_with(path: impl AsRef<Path>, env: &dyn Environment) -> Result<Self, ConfigFileError>;

    /// Finds and reads the configuration that the command would use here: the file that
    /// `BOWLINE_CONFIG` names, or else the user's file and over it the project's: the nearest
    /// `.mcp.json` and over that the nearest `bowline.toml`, in the current folder or one above. No
    /// file is an empty configuration.
    ///
    /// A project's file is used only if the user trusts exactly its content (`bowline trust`).
    /// Otherwise nothing of it has any effect, and [`Config::notes`] names it with the reason.
    fn discover() -> Result<Self, ConfigFileError> {
        Self::discover_with(&ProcessEnvironment::read())
    }

    /// [`LoadConfig::discover`] with another environment. The current folder is that of this
    /// process.
    fn discover_with(env: &dyn Environment) -> Result<Self, ConfigFileError>;
}

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

impl LoadConfig for Config {
    fn load_with(path: impl AsRef<Path>, env: &dyn Environment) -> Result<Self, ConfigFileError> {
        let path = path.as_ref();
        let text = read_small_file(path)
            .map_err(|why| ConfigFileError::Unreadable(format!("cannot use {}: {why}", path.display())))?;
        Ok(parse(&Source::new(path, text), env)?)
    }

    fn discover_with(env: &dyn Environment) -> Result<Self, ConfigFileError> {
        let (config, errors) = Layers::discover(env).map_err(unreadable)?.into_config();
        match errors {
            None => Ok(config),
            Some(errors) => Err(errors.into()),
        }
    }
}

// No `From`: the type of the error is no part of the public interface.
fn unreadable(error: SettingsError) -> ConfigFileError {
    ConfigFileError::Unreadable(match error.hint {
        Some(hint) => format!("{}; {hint}", error.message),
        None => error.message,
    })
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for bowline_config::Config {}
}
