//! Keeps the lists of servers between runs.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use bowline::negotiation::ServerKey;
use bowline_store::private;
use serde::{Deserialize, Serialize};

use super::ServerLists;

/// Keeps the lists of servers between runs. The methods may block for as long as a disk does.
pub trait CatalogCache: fmt::Debug + Send + Sync + 'static {
    /// The lists of a server, if they were saved.
    fn load(&self, server: &ServerKey) -> Option<ServerLists>;

    /// Saves the lists of a server.
    fn save(&self, server: &ServerKey, lists: &ServerLists);
}

/// A [`CatalogCache`] in a folder: one file per server, readable by its owner only. It may be
/// deleted at any time.
#[derive(Clone, Debug)]
pub struct FolderCatalog {
    folder: PathBuf,
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

    fn path(&self, server: &ServerKey) -> PathBuf {
        self.folder.join(format!("{server}.json"))
    }

    fn write(&self, server: &ServerKey, lists: &ServerLists) -> io::Result<()> {
        private::create_folder(&self.folder)?;
        private::replace_file(&self.path(server), &serde_json::to_vec(&Record { version: VERSION, lists })?)
    }
}

impl CatalogCache for FolderCatalog {
    fn load(&self, server: &ServerKey) -> Option<ServerLists> {
        let text = read(&self.path(server))?;
        let record: Record<ServerLists> = serde_json::from_slice(&text).ok()?;
        (record.version == VERSION).then_some(record.lists)
    }

    fn save(&self, server: &ServerKey, lists: &ServerLists) {
        if let Err(error) = self.write(server, lists) {
            tracing::warn!(%error, "the lists of a server could not be saved");
        }
    }
}

/// Reads a file, unless it is larger than any list is.
fn read(path: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= MAX_FILE_BYTES).then_some(text)
}

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
        let key = ServerKey::from_server(&Server::http("a", "http://localhost/").build().unwrap());
        assert_eq!(cache.load(&key), None);
        let tool = Json::parse(r#"{"name":"x","n":1.0,"big":1e400}"#).unwrap();
        let lists =
            ServerLists { instructions: Some("i".into()), tools: vec![tool], ..ServerLists::default() };
        cache.save(&key, &lists);
        let loaded = cache.load(&key).unwrap();
        assert_eq!(loaded, lists);
        assert_eq!(loaded.tools[0].as_str(), lists.tools[0].as_str());
        std::fs::write(cache.path(&key), "{").unwrap();
        assert_eq!(cache.load(&key), None);
    }
}
