//! Remembers the names of a server's tools, prompts and resources, so that completion need not ask
//! the server. Every command that lists them updates the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bowline_store::private::replace_file;
use serde::{Deserialize, Serialize};

use super::Candidate;
use crate::settings::Settings;
use bowline_settings::{ServerLookup, UntrustedFile, private_folder};

/// The remembered names of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ServerNames {
    pub(crate) tools: Vec<NameRecord>,
    pub(crate) prompts: Vec<NameRecord>,
    pub(crate) resources: Vec<NameRecord>,
    pub(crate) templates: Vec<NameRecord>,
}

/// A kind of what servers offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ServerNames {
    /// Returns the names of one kind.
    pub(crate) fn into_records(self, kind: NameKind) -> Vec<NameRecord> {
        match kind {
            NameKind::Tools => self.tools,
            NameKind::Prompts => self.prompts,
            NameKind::Resources => self.resources,
            NameKind::Templates => self.templates,
        }
    }
}

/// A remembered tool, prompt, resource or template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NameRecord {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) arguments: Vec<String>,
    /// The values of those arguments that take one of a few.
    pub(crate) choices: BTreeMap<String, Vec<String>>,
}

/// The file that holds the names of one server.
pub(crate) struct NameStore {
    path: PathBuf,
}

/// Most names of one kind.
const MAX_NAMES: usize = 500;
/// Longest name, and most arguments of one tool or prompt.
const MAX_NAME_CHARS: usize = 200;
const MAX_ARGUMENTS: usize = 40;
/// Most values of one argument.
const MAX_CHOICES: usize = 100;
/// Larger files are not ours.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

impl NameStore {
    /// Opens the file for a configured server. The same name in another configuration file is
    /// another server.
    pub(crate) fn open(settings: &Settings, server: &str) -> Option<Self> {
        let layers = settings.layers().ok()?;
        let ServerLookup::Server(_, layer) = layers.find_server(server) else { return None };
        let folder = settings.state()?.join("names");
        Some(Self { path: folder.join(format!("{:016x}.json", hash_server_name(&layer.path, server))) })
    }

    /// Reads the names; any problem yields none.
    pub(crate) fn read(&self) -> ServerNames {
        let small = fs::metadata(&self.path).is_ok_and(|file| file.is_file() && file.len() <= MAX_FILE_BYTES);
        let text = small.then(|| fs::read(&self.path).ok()).flatten().unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Updates the names. Failure is only logged, since completion is optional.
    fn update(&self, change: impl FnOnce(&mut ServerNames)) {
        let before = self.read();
        let mut known = before.clone();
        change(&mut known);
        if known == before {
            return;
        }
        if let Err(error) = self.write(&known) {
            tracing::debug!(%error, "names for the shell could not be kept");
        }
    }

    /// Writes the file atomically, since another process may be reading it.
    fn write(&self, known: &ServerNames) -> std::io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        private_folder::create_folder(folder)?;
        replace_file(&self.path, &serde_json::to_vec(known)?)
    }
}

/// Updates the names of the server that was typed, if it is a configured one.
pub(crate) fn remember(settings: &Settings, typed: Option<&str>, change: impl FnOnce(&mut ServerNames)) {
    if let Some(names) =
        typed.filter(|typed| !typed.contains("://")).and_then(|typed| NameStore::open(settings, typed))
    {
        names.update(change);
    }
}

/// Drops and truncates what is too long to be remembered.
pub(crate) fn bounded_records(all: impl Iterator<Item = NameRecord>) -> Vec<NameRecord> {
    let fits = |text: &String| text.chars().count() <= MAX_NAME_CHARS;
    let kept = all.filter(|entry| fits(&entry.name)).take(MAX_NAMES).map(|mut entry| {
        entry.arguments.retain(fits);
        entry.arguments.truncate(MAX_ARGUMENTS);
        entry.choices.retain(|name, values| entry.arguments.contains(name) && values.iter().all(fits));
        entry.choices.values_mut().for_each(|values| values.truncate(MAX_CHOICES));
        entry.about = entry.about.lines().next().unwrap_or_default().chars().take(MAX_NAME_CHARS).collect();
        entry
    });
    kept.collect()
}

/// Returns the configured servers. Unreadable files contribute none.
pub(crate) fn server_candidates(settings: &Settings) -> Vec<Candidate> {
    let Ok(layers) = settings.layers() else { return Vec::new() };
    let named = |name: &str, about: &str| Candidate { value: name.to_owned(), about: about.to_owned() };
    let own = layers.server_names();
    let theirs = layers.untrusted().iter().flat_map(UntrustedFile::server_names);
    let theirs = theirs.filter(|name| !own.contains(name)).map(|name| named(name, "not trusted"));
    own.iter().map(|name| named(name, "")).chain(theirs).collect()
}

/// Hashes a configuration file and a server name with FNV-1a, the same way in every run.
fn hash_server_name(file: &Path, server: &str) -> u64 {
    let bytes = file.as_os_str().as_encoded_bytes().iter().chain(&[0]).chain(server.as_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |mark, byte| (mark ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> NameRecord {
        NameRecord { name: name.into(), ..NameRecord::default() }
    }

    #[test]
    fn names_are_kept_until_they_change() {
        let folder = tempfile::tempdir().unwrap();
        let names = NameStore { path: folder.path().join("below").join("x.json") };
        assert_eq!(names.read(), ServerNames::default());
        names.update(|known| known.tools = vec![entry("echo")]);
        names.update(|known| known.prompts = vec![entry("greet")]);
        let known = names.read();
        assert_eq!((&*known.tools[0].name, &*known.prompts[0].name), ("echo", "greet"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&folder.path().join("below")), mode(&names.path)), (0o700, 0o600));
        }
        let files: Vec<_> = fs::read_dir(folder.path().join("below")).unwrap().collect();
        assert_eq!(files.len(), 1);
        fs::write(&names.path, "{\"tools\": 7}").unwrap();
        assert_eq!(names.read(), ServerNames::default());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let long = "x".repeat(MAX_NAME_CHARS + 1);
        let many = (0..MAX_NAMES * 2).map(|n| NameRecord {
            name: if n == 0 { long.clone() } else { n.to_string() },
            about: format!("{}\nmore", "y".repeat(1000)),
            arguments: vec!["a".into(); 1000],
            choices: [("a".into(), vec!["b".into(); 1000]), ("other".into(), vec![])].into(),
        });
        let kept = bounded_records(many);
        assert_eq!((kept.len(), &*kept[0].name), (MAX_NAMES, "1"));
        assert_eq!((kept[0].about.len(), kept[0].arguments.len()), (MAX_NAME_CHARS, MAX_ARGUMENTS));
        assert_eq!((kept[0].choices.len(), kept[0].choices["a"].len()), (1, MAX_CHOICES));
    }

    #[test]
    fn servers_of_the_same_name_are_told_apart() {
        let marks = [
            hash_server_name(Path::new("/a"), "s"),
            hash_server_name(Path::new("/b"), "s"),
            hash_server_name(Path::new("/a"), "t"),
        ];
        assert!(marks[0] != marks[1] && marks[0] != marks[2]);
        assert_eq!(marks[0], hash_server_name(Path::new("/a"), "s"));
    }
}
