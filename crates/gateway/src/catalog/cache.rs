//! Keeps the lists of servers between runs.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bowline::negotiation::ServerKey;
use bowline_store::private;
use serde::{Deserialize, Serialize};

use super::{NameOwners, Profile, ServerLists};

/// Identifies the lists of a server for hosts of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CatalogKey {
    /// The server.
    pub server: ServerKey,
    /// The kind of host.
    pub profile: Profile,
}

/// Keeps the lists of servers between runs. The methods may block for as long as a disk does.
pub trait CatalogCache: fmt::Debug + Send + Sync + 'static {
    /// The lists of a server, if they were saved.
    fn load(&self, key: &CatalogKey) -> Option<ServerLists>;

    /// Saves the lists of a server.
    fn save(&self, key: &CatalogKey, lists: &ServerLists);

    /// Which tool had which name.
    fn load_names(&self) -> NameOwners;

    /// Saves which tool had which name.
    fn save_names(&self, names: &NameOwners);
}

impl CatalogCache for Arc<dyn CatalogCache> {
    fn load(&self, key: &CatalogKey) -> Option<ServerLists> {
        (**self).load(key)
    }

    fn save(&self, key: &CatalogKey, lists: &ServerLists) {
        (**self).save(key, lists);
    }

    fn load_names(&self) -> NameOwners {
        (**self).load_names()
    }

    fn save_names(&self, names: &NameOwners) {
        (**self).save_names(names);
    }
}

/// A [`CatalogCache`] in a folder: one file per server, readable by its owner only. It may be
/// deleted at any time.
#[derive(Clone, Debug)]
pub struct FolderCatalog {
    folder: PathBuf,
}

/// Lists of a server in a [`FolderCatalog`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedLists {
    path: PathBuf,
    saved: SystemTime,
}

impl SavedLists {
    /// When they were saved.
    pub fn saved(&self) -> SystemTime {
        self.saved
    }

    /// The size of the file. It is of the same lists as [`SavedLists::saved`] unless they were saved again.
    pub fn bytes(&self) -> Option<u64> {
        Some(fs::metadata(&self.path).ok()?.len())
    }

    /// Reads the lists. `None`: the file was deleted, or is damaged.
    pub fn load(&self) -> Option<ServerLists> {
        load(&self.path)
    }

    /// A file beside that of the lists, for what a search needs of them. It is deleted together with them.
    pub fn search_path(&self) -> PathBuf {
        self.path.with_extension(SEARCH_EXTENSION)
    }
}

/// The contents of a file.
#[derive(Serialize, Deserialize)]
struct Record<L> {
    version: u32,
    lists: L,
}

impl FolderCatalog {
    /// Uses this folder, which is created when needed.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The lists of each of these servers that were saved last, for hosts of whatever kind.
    pub fn latest(&self, servers: &[ServerKey]) -> Vec<Option<SavedLists>> {
        let mut newest: HashMap<String, (SystemTime, PathBuf)> = HashMap::new();
        for (saved, path) in self.files().unwrap_or_default() {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some((server, _)) = name.split_once('-') else { continue };
            let entry = newest.entry(server.to_owned()).or_insert_with(|| (saved, path.clone()));
            if entry.0 < saved {
                *entry = (saved, path);
            }
        }
        let latest = servers.iter().map(|server| {
            let (saved, path) = newest.remove(&server.to_string())?;
            Some(SavedLists { path, saved })
        });
        latest.collect()
    }

    fn path(&self, key: &CatalogKey) -> PathBuf {
        self.folder.join(format!("{}-{}.{EXTENSION}", key.server, key.profile))
    }

    fn write(&self, key: &CatalogKey, lists: &ServerLists) -> io::Result<()> {
        private::create_folder(&self.folder)?;
        let path = self.path(key);
        let is_new = !path.exists();
        let record = Record { version: VERSION, lists };
        private::replace_file_in_pieces(&path, |file| Ok(serde_json::to_writer(file, &record)?))?;
        if is_new {
            self.prune()?;
        }
        Ok(())
    }

    /// Deletes the oldest files beyond [`MAX_FILES`]. Other files are left alone.
    fn prune(&self) -> io::Result<()> {
        let mut kept = self.files()?;
        kept.sort_unstable();
        for (_, path) in kept.iter().take(kept.len().saturating_sub(MAX_FILES)) {
            let _ = fs::remove_file(path);
            let _ = fs::remove_file(path.with_extension(SEARCH_EXTENSION));
        }
        Ok(())
    }

    /// The files with lists, and when each was written.
    fn files(&self) -> io::Result<Vec<(SystemTime, PathBuf)>> {
        let mut files = Vec::new();
        for file in fs::read_dir(&self.folder)? {
            let file = file?;
            let path = file.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION)
                // Another process may delete it at the same time.
                && let Ok(written) = file.metadata().and_then(|about| about.modified())
            {
                files.push((written, path));
            }
        }
        Ok(files)
    }
}

impl CatalogCache for FolderCatalog {
    fn load(&self, key: &CatalogKey) -> Option<ServerLists> {
        load(&self.path(key))
    }

    fn save(&self, key: &CatalogKey, lists: &ServerLists) {
        if let Err(error) = self.write(key, lists) {
            tracing::warn!(%error, "the lists of a server could not be saved");
        }
    }

    fn load_names(&self) -> NameOwners {
        read(&self.names_path()).and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    fn save_names(&self, names: &NameOwners) {
        if let Err(error) = self.write_names(names) {
            tracing::warn!(%error, "the names of tools could not be saved");
        }
    }
}

impl FolderCatalog {
    fn names_path(&self) -> PathBuf {
        self.folder.join("names")
    }

    fn write_names(&self, names: &NameOwners) -> io::Result<()> {
        private::create_folder(&self.folder)?;
        // Another process may have added some.
        let mut names = names.clone();
        names.merge(self.load_names());
        private::replace_file(&self.names_path(), &serde_json::to_vec(&names)?)
    }
}

/// Reads the lists in a file, if it has any.
fn load(path: &Path) -> Option<ServerLists> {
    let record: Record<ServerLists> = serde_json::from_slice(&read(path)?).ok()?;
    (record.version == VERSION).then_some(record.lists)
}

/// Reads a file, unless it is larger than any list is, or no file: opening a pipe would wait for its writer.
fn read(path: &Path) -> Option<Vec<u8>> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mut text = Vec::new();
    File::open(path).ok()?.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= MAX_FILE_BYTES).then_some(text)
}

const EXTENSION: &str = "json";
const SEARCH_EXTENSION: &str = "search";
/// Most files in the folder: hosts of several kinds, in front of many servers.
const MAX_FILES: usize = 1_000;
/// Version of the file format.
const VERSION: u32 = 1;
/// A file that is larger was not written here.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use bowline::{Json, Server};

    use super::*;

    #[test]
    fn lists_are_read_back_byte_for_byte() {
        let folder = tempfile::tempdir().unwrap();
        let cache = FolderCatalog::new(folder.path().join("new"));
        let server = ServerKey::from_server(&Server::http("a", "http://localhost/").build().unwrap());
        let key = CatalogKey { server, profile: Profile::default() };
        assert_eq!(cache.load(&key), None);
        let tool = Json::parse(r#"{"name":"x","n":1.0,"big":1e400}"#).unwrap();
        let lists =
            ServerLists { instructions: Some("i".into()), tools: vec![tool], ..ServerLists::default() };
        cache.save(&key, &lists);
        let loaded = cache.load(&key).unwrap();
        assert_eq!(loaded, lists);
        assert_eq!(loaded.tools[0].as_str(), lists.tools[0].as_str());
        let profile = Profile::new(&Json::parse(r#"{"roots":{}}"#).unwrap(), &Json::empty_object());
        assert_eq!(cache.load(&CatalogKey { profile, ..key }), None, "other hosts have other lists");
        fs::write(cache.path(&key), "{").unwrap();
        assert_eq!(cache.load(&key), None);
    }

    #[test]
    fn the_latest_lists_of_a_server_are_those_of_any_host() {
        let folder = tempfile::tempdir().unwrap();
        let cache = FolderCatalog::new(folder.path());
        let key = |url| ServerKey::from_server(&Server::http("a", url).build().unwrap());
        let [one, two] = [key("http://localhost/1"), key("http://localhost/2")];
        assert_eq!(cache.latest(&[one, two]), [None, None]);
        let profile = Profile::new(&Json::parse(r#"{"roots":{}}"#).unwrap(), &Json::empty_object());
        let lists = |text: &str| ServerLists { instructions: Some(text.into()), ..ServerLists::default() };
        let old = CatalogKey { server: two, profile: Profile::default() };
        cache.save(&old, &lists("old"));
        cache.save(&CatalogKey { server: two, profile }, &lists("new"));
        let long_ago = SystemTime::now() - std::time::Duration::from_secs(60);
        File::options().write(true).open(cache.path(&old)).unwrap().set_modified(long_ago).unwrap();
        let latest = cache.latest(&[one, two]);
        assert_eq!(latest[0], None);
        let latest = latest[1].as_ref().unwrap();
        assert_eq!(latest.load(), Some(lists("new")));
        assert!(latest.saved() > long_ago && latest.bytes().is_some());
    }

    #[test]
    fn names_of_several_processes_are_merged() {
        let folder = tempfile::tempdir().unwrap();
        let cache = FolderCatalog::new(folder.path());
        let (mut one, mut two) = (NameOwners::default(), NameOwners::default());
        assert!(one.tools.claim("a", "s", "a") && two.prompts.claim("a", "t", "a"));
        cache.save_names(&one);
        cache.save_names(&two);
        let mut both = cache.load_names();
        assert_eq!(both.len(), 2);
        assert!(!both.tools.claim("a", "other", "a") && both.tools.claim("a", "s", "a"));
    }
}
