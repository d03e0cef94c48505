//! Files for the secrets of imported servers, one for each, that only their owner can read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bowline_config::{Environment, Secret};
use bowline_hosts::ServerEntry;
use bowline_store::private;

use crate::env;
use crate::failure::{Failure, Outcome};

/// Secrets that are to be written beside a configuration file.
pub(super) struct SecretFiles {
    folder: PathBuf,
    secrets: BTreeMap<PathBuf, Secret>,
}

/// The folder of the files, beside the configuration.
pub(super) const FOLDER: &str = "secrets";

impl SecretFiles {
    pub(super) fn beside(config: &Path) -> Self {
        let folder = config.parent().unwrap_or(Path::new("")).join(FOLDER);
        Self { folder, secrets: BTreeMap::new() }
    }

    /// Takes the secrets out of an entry, which then names their files.
    pub(super) fn take_from(&mut self, name: &str, entry: &mut ServerEntry) {
        let file_name = |label: &str| format!("{name}.{label}");
        for stored in entry.take_secrets(&mut |label| format!("{FOLDER}/{}", file_name(label))) {
            self.secrets.insert(self.folder.join(file_name(&stored.label)), Secret::new(stored.value));
        }
    }

    /// Writes the files.
    pub(super) fn save(&self) -> Outcome<()> {
        if self.secrets.is_empty() {
            return Ok(());
        }
        let failed = |path: &Path, error: &std::io::Error| {
            let why = env::describe_io_error(error);
            Failure::usage(format!("{} cannot be written: {why}; nothing was imported", path.display()))
        };
        private::create_folder(&self.folder).map_err(|error| failed(&self.folder, &error))?;
        for (path, secret) in &self.secrets {
            private::replace_file(path, secret.expose().as_bytes()).map_err(|error| failed(path, &error))?;
        }
        Ok(())
    }

    /// Removes the files again.
    pub(super) fn remove(&self) {
        for path in self.secrets.keys() {
            // A file that stays does no harm: only its owner can read it.
            let _ = std::fs::remove_file(path);
        }
    }

    /// An environment in which the files are written already.
    pub(super) fn environment<'a>(&'a self, env: &'a dyn Environment) -> impl Environment + use<'a> {
        WithSecretFiles { files: self, env }
    }
}

struct WithSecretFiles<'a> {
    files: &'a SecretFiles,
    env: &'a dyn Environment,
}

impl Environment for WithSecretFiles<'_> {
    fn var(&self, name: &str) -> Option<String> {
        self.env.var(name)
    }

    fn read_file(&self, path: &Path) -> Result<String, String> {
        match self.files.secrets.get(path) {
            Some(secret) => Ok(secret.expose().to_owned()),
            None => self.env.read_file(path),
        }
    }
}
