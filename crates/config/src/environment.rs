//! Owns what a configuration may read from outside: variables and files, and nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The variables and files that placeholders are filled from. The caller decides whether that is
/// the real environment of the process; this crate never reads it by itself.
pub trait Environment {
    /// Returns the value of an environment variable, or `None` if it is not set.
    fn var(&self, name: &str) -> Option<String>;

    /// Returns the text of a file named by `{file:path}`. Relative paths have already been joined
    /// to the folder of the configuration file. The error is a reason for a person to read, such as
    /// "no such file"; it must not quote the file.
    fn read_file(&self, path: &Path) -> Result<String, String>;
}

/// An environment held in memory. `FixedEnvironment::default()` has no variable and no file.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct FixedEnvironment {
    /// Variables by name.
    pub vars: BTreeMap<String, String>,
    /// File texts by path.
    pub files: BTreeMap<PathBuf, String>,
}

impl FixedEnvironment {
    /// Adds a variable.
    #[must_use]
    pub fn with_var(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.vars.insert(name.into(), value.into());
        self
    }

    /// Adds a file.
    #[must_use]
    pub fn with_file(mut self, path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        self.files.insert(path.into(), text.into());
        self
    }
}

impl Environment for FixedEnvironment {
    fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).cloned()
    }

    fn read_file(&self, path: &Path) -> Result<String, String> {
        self.files.get(path).cloned().ok_or_else(|| "no such file".to_owned())
    }
}
