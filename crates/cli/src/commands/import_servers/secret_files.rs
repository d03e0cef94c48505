//! Files for the secrets of imported servers, one for each, that only their owner can read.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use bowline_config::{Environment, Secret};
use bowline_hosts::{ServerEntry, StoredSecret};
use bowline_settings::{TextFileError, read_text_file};
use bowline_store::private::{self, Creation};

use super::unused_secrets::{MAX_FILE_MEBIBYTES, refers_to};
use crate::commands::install::drafts::remove_stale_drafts_in;
use crate::env;
use crate::failure::{Failure, Outcome};

/// Secrets that are to be written beside a configuration file.
pub(super) struct SecretFiles {
    folder: PathBuf,
    config_path: PathBuf,
    /// The configuration before the import. What it refers to is not shared with another entry.
    config: String,
    secrets: BTreeMap<PathBuf, Secret>,
    /// The names of the files in lower case, as some file systems take them for the same.
    names: HashSet<String>,
}

/// What became of the files of secrets.
#[derive(Default)]
pub(super) struct SavedSecrets {
    /// The files that were not there before.
    created: Vec<PathBuf>,
    /// What was done about permissions, as sentences.
    pub(super) notes: Vec<String>,
}

/// The folder of the files, beside the configuration.
pub(super) const FOLDER: &str = "secrets";

/// Largest file that is compared with a secret, in MiB.
const MAX_SECRET_MEBIBYTES: u64 = 32;

// === impl SecretFiles ===

impl SecretFiles {
    /// Starts with no secrets, for the configuration file at `path` with the content `config`.
    pub(super) fn beside(path: &Path, config: String) -> Self {
        let folder = path.parent().unwrap_or(Path::new("")).join(FOLDER);
        Self { folder, config_path: path.to_owned(), config, secrets: BTreeMap::new(), names: HashSet::new() }
    }

    /// Takes the secrets out of an entry, which then names their files.
    pub(super) fn take_from(&mut self, name: &str, entry: &mut ServerEntry) {
        entry.take_secrets(&mut |secret| {
            let file_name = self.choose_name(name, secret);
            let path = self.folder.join(&file_name);
            self.names.insert(file_name.to_lowercase());
            self.secrets.insert(path, Secret::new(secret.value.clone()));
            format!("{FOLDER}/{file_name}")
        });
    }

    /// Chooses the name of a file that no other secret has and in which nothing else is.
    fn choose_name(&self, server: &str, secret: &StoredSecret) -> String {
        let first = format!("{server}.{}", secret.label);
        let mut name = first.clone();
        let mut number = 1;
        while self.names.contains(&name.to_lowercase())
            || self.config.contains(&format!("{FOLDER}/{name}}}"))
            || !is_free_for(&self.folder.join(&name), &secret.value)
        {
            number += 1;
            name = format!("{first}-{number}");
        }
        name
    }

    /// Writes the files. What is in the folder already is never overwritten.
    pub(super) fn save(&self) -> Outcome<SavedSecrets> {
        let mut saved = SavedSecrets::default();
        if self.secrets.is_empty() {
            return Ok(saved);
        }
        self.prepare_folder(&mut saved.notes)?;
        for (path, secret) in &self.secrets {
            match save_file(path, secret) {
                Ok(Creation::Created) => saved.created.push(path.clone()),
                Ok(Creation::AlreadyExists) => {}
                Err(error) => {
                    saved.remove_unnamed(&self.config_path);
                    return Err(write_failure(path, &error));
                }
            }
        }
        Ok(saved)
    }

    /// Creates the folder, or sees to it that only its owner can open it. What a killed process has left in it is
    /// removed.
    fn prepare_folder(&self, notes: &mut Vec<String>) -> Outcome<()> {
        let path = self.folder.display();
        match std::fs::symlink_metadata(&self.folder) {
            Ok(about) if about.is_symlink() => {
                return Err(Failure::usage_hint(
                    format!(
                        "{path} is a link, so others may be able to read what is behind it; nothing was imported"
                    ),
                    "replace the link by a folder that only you can open, or import without --store-secrets",
                ));
            }
            _ => {}
        }
        private::restrict_folder(&self.folder, notes)
            .map_err(|error| Failure::usage(format!("{error}; nothing was imported")))?;
        private::create_folder(&self.folder).map_err(|error| write_failure(&self.folder, &error))?;
        remove_stale_drafts_in(&self.folder);
        Ok(())
    }

    /// An environment in which the files are written already.
    pub(super) fn environment<'a>(&'a self, env: &'a dyn Environment) -> impl Environment + use<'a> {
        WithSecretFiles { files: self, env }
    }
}

// === impl SavedSecrets ===

impl SavedSecrets {
    /// Removes the files that were created, unless the configuration names them: it may be in place although saving it
    /// failed, as when a disk cannot be synced. If it cannot be read, all files stay.
    pub(super) fn remove_unnamed(&self, config: &Path) {
        let text = match read_text_file(config, MAX_FILE_MEBIBYTES) {
            Ok(text) => text,
            Err(TextFileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(_) => return,
        };
        let is_named = |path: &Path| {
            path.file_name().and_then(|name| name.to_str()).is_none_or(|name| refers_to(&text, name))
        };
        for path in self.created.iter().filter(|path| !is_named(path)) {
            // A file that stays does no harm: only its owner can read it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Writes a file of its own for a secret, or keeps one that has exactly this secret in it.
fn save_file(path: &Path, secret: &Secret) -> io::Result<Creation> {
    let creation = private::create_file(path, secret.expose().as_bytes())?;
    if creation == Creation::AlreadyExists && !is_free_for(path, secret.expose()) {
        return Err(io::Error::other("another program has written it meanwhile"));
    }
    #[cfg(unix)]
    if creation == Creation::AlreadyExists {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(creation)
}

fn write_failure(path: &Path, error: &io::Error) -> Failure {
    let why = env::describe_io_error(error);
    Failure::usage(format!("{} cannot be written: {why}; nothing was imported", path.display()))
}

/// Whether a secret can be in a file: there is none, or it is ours and has exactly this secret in it. What
/// cannot be looked at is reported when it is written.
fn is_free_for(path: &Path, secret: &str) -> bool {
    match std::fs::symlink_metadata(path) {
        Err(_) => true,
        Ok(about) => {
            about.is_file()
                && is_own(&about)
                && read_text_file(path, MAX_SECRET_MEBIBYTES).is_ok_and(|text| text == secret)
        }
    }
}

#[cfg(unix)]
pub(super) fn is_own(about: &std::fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(about) == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
pub(super) fn is_own(_about: &std::fs::Metadata) -> bool {
    true
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_the_configuration_names_stay_after_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.toml");
        let save = |before: &str, after: Option<&[u8]>| {
            let mut files = SecretFiles::beside(&config, before.to_owned());
            for name in ["a.env-T", "a.env-T-2"] {
                files.secrets.insert(files.folder.join(name), Secret::new(name.to_owned()));
            }
            let saved = files.save().unwrap_or_else(|_| panic!("the files are written"));
            assert_eq!(saved.created.len(), 2);
            let _ = std::fs::remove_file(&config);
            if let Some(after) = after {
                std::fs::write(&config, after).unwrap();
            }
            saved.remove_unnamed(&config);
            let left = files.secrets.keys().map(|path| path.exists()).collect::<Vec<_>>();
            std::fs::remove_dir_all(&files.folder).unwrap();
            left
        };
        let after = b"[servers.a]\ncommand = 'a'\nenv = { T = '{file:secrets/a.env-T}' }\n";
        assert_eq!(save("", Some(after)), [true, false], "one is named");
        assert_eq!(save("", None), [false, false], "there is no file");
        assert_eq!(save("# Mine.\n", Some(b"# Mine.\n")), [false, false], "it is as it was");
        assert_eq!(save("", Some(b"\xff")), [true, true], "nothing is known of it");
    }
}
