//! Owns what a configuration may ask of the outside: variables and files, and nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What placeholders are filled from. The caller decides whether that is the process's real
/// environment; this crate never looks by itself.
pub trait Environment {
    /// The value of an environment variable, or `None` when it is not set.
    fn var(&self, name: &str) -> Option<String>;

    /// The text of a file named by `{file:path}`. Relative paths have already been joined to the
    /// folder of the configuration file. The error is a reason for a person to read, such as
    /// "no such file"; it must not quote the file.
    fn read_file(&self, path: &Path) -> Result<String, String>;
}

/// A fixed environment. `Fixed::default()` has no variable and no file.
#[derive(Clone, Default)]
pub struct Fixed {
    /// Variables by name.
    pub vars: BTreeMap<String, String>,
    /// File texts by path.
    pub files: BTreeMap<PathBuf, String>,
}

impl Fixed {
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

impl Environment for Fixed {
    fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).cloned()
    }

    fn read_file(&self, path: &Path) -> Result<String, String> {
        self.files.get(path).cloned().ok_or_else(|| "no such file".to_owned())
    }
}
