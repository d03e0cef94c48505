//! [`SettingsError`]: why the configuration files cannot be read.

use std::path::Path;

use crate::environment::TextFileError;

/// Why the configuration files cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct SettingsError {
    /// What is wrong. Does not quote a file.
    pub message: String,
    /// What to do about it, if the message does not say.
    pub hint: Option<String>,
}

impl SettingsError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(crate) fn unreadable_file(path: &Path, error: &TextFileError) -> Self {
        let hint = error.suggest_fix().map(ToOwned::to_owned);
        Self { hint, ..Self::unusable_file(path, &error.to_string()) }
    }

    pub(crate) fn unusable_file(path: &Path, why: &str) -> Self {
        Self::new(format!("cannot use {}: {why}", path.display()))
    }
}
