//! [`Roots`]: the folders that servers should work in (group RT).

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::wire::Json;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use url::Url;

use super::internal_error;
use crate::handler::HandlerResult;

/// The folders that servers should work in. Clones share one list: a change is announced to every
/// server that has them. This is guidance; a server can reach whatever its process can.
// RT-03
#[derive(Clone, Debug)]
pub struct Roots(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    list: Mutex<Vec<CheckedRoot>>,
    changed: watch::Sender<u64>,
}

#[derive(Clone, Debug)]
struct CheckedRoot {
    root: Root,
    /// Held while the folder is checked, so that a hanging file system blocks only one thread.
    check_permit: Arc<Semaphore>,
}

/// A folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    uri: Box<str>,
    name: Option<Box<str>>,
    path: PathBuf,
}

/// A folder that cannot be a root.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} cannot be a root: {why}")]
#[non_exhaustive]
pub struct RootError {
    /// The path or URI as given.
    pub path: String,
    /// The reason.
    pub why: &'static str,
}

impl Roots {
    /// Creates a list of folders, without duplicates.
    pub fn new(roots: impl IntoIterator<Item = Root>) -> Self {
        let list = distinct(roots).into_iter().map(CheckedRoot::new).collect();
        Self(Arc::new(Inner { list: Mutex::new(list), changed: watch::Sender::new(0) }))
    }

    /// Replaces the folders. Servers are notified only if the list changed.
    pub fn set(&self, roots: impl IntoIterator<Item = Root>) {
        let roots = distinct(roots);
        let mut list = self.0.list.lock();
        if !list.iter().map(|kept| &kept.root).eq(&roots) {
            *list = roots.into_iter().map(CheckedRoot::new).collect();
            drop(list);
            self.0.changed.send_modify(|version| *version += 1);
        }
    }

    /// The folders, including those that do not exist at the moment.
    pub fn get(&self) -> Vec<Root> {
        self.0.list.lock().iter().map(|kept| kept.root.clone()).collect()
    }

    /// Changes whenever the list does.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// The result of `roots/list`. A folder that does not exist is left out until it is back
    /// (RT-02).
    pub(super) async fn list_result(&self, server: &str) -> HandlerResult {
        #[derive(Serialize)]
        struct List<'a> {
            roots: Vec<Entry<'a>>,
        }
        #[derive(Serialize)]
        struct Entry<'a> {
            uri: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            name: Option<&'a str>,
        }
        let mut there = Vec::new();
        let list = self.0.list.lock().clone();
        for kept in list {
            if kept.exists().await {
                there.push(kept.root);
            } else {
                tracing::debug!(%server, uri = %kept.root.uri, "a root is not there and was left out");
            }
        }
        let roots = there.iter().map(|root| Entry { uri: &root.uri, name: root.name.as_deref() });
        // RT-04
        Json::encode(&List { roots: roots.collect() })
            .map_err(|_| internal_error("the roots cannot be written"))
    }
}

impl<const N: usize> From<[Root; N]> for Roots {
    fn from(roots: [Root; N]) -> Self {
        Self::new(roots)
    }
}

impl From<Vec<Root>> for Roots {
    fn from(roots: Vec<Root>) -> Self {
        Self::new(roots)
    }
}

impl Root {
    /// Creates a root for the folder at `path`, named after its last component. A relative path is
    /// resolved against the working directory. `..` is resolved by the file system, links included,
    /// so such a path must exist.
    pub fn folder(path: impl AsRef<Path>) -> Result<Self, RootError> {
        let given = path.as_ref();
        let refuse = |why| RootError { path: given.display().to_string(), why };
        let mut path = std::path::absolute(given).map_err(|_| refuse("it is empty"))?;
        if path.components().any(|part| part == Component::ParentDir) {
            path = path.canonicalize().map_err(|_| refuse("it cannot be followed"))?;
        }
        let url = Url::from_file_path(&path).map_err(|()| refuse("it has no file URI"))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into());
        Ok(Self { uri: url.as_str().into(), name, path })
    }

    /// Creates a root for a `file://` URI.
    pub fn parse(uri: &str) -> Result<Self, RootError> {
        let refuse = |why| RootError { path: uri.to_owned(), why };
        let url = Url::parse(uri).map_err(|_| refuse("it is not a URI"))?;
        if url.scheme() != "file" {
            return Err(refuse("only file:// URIs are roots"));
        }
        let path = url.to_file_path().map_err(|()| refuse("it is on another machine"))?;
        // The URL parser resolves `%2E%2E` but not `%2F..`, which shows only in the path.
        Self::folder(path).map_err(|error| refuse(error.why))
    }

    /// Sets another name.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Its URI.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The display name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl CheckedRoot {
    fn new(root: Root) -> Self {
        Self { root, check_permit: Arc::new(Semaphore::new(1)) }
    }

    /// Whether the folder exists. An unavailable network file system may never answer, so the check
    /// has a timeout.
    async fn exists(&self) -> bool {
        let look = async {
            let permit = Arc::clone(&self.check_permit).acquire_owned().await.ok()?;
            let path = self.root.path.clone();
            let look = tokio::task::spawn_blocking(move || {
                let there = path.is_dir();
                drop(permit);
                there
            });
            look.await.ok()
        };
        matches!(tokio::time::timeout(ROOT_CHECK_TIMEOUT, look).await, Ok(Some(true)))
    }
}

fn distinct(roots: impl IntoIterator<Item = Root>) -> Vec<Root> {
    let mut list: Vec<Root> = Vec::new();
    for root in roots {
        if !list.iter().any(|other| other.uri == root.uri) {
            list.push(root);
        }
    }
    list
}

const ROOT_CHECK_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    async fn answered(roots: &Roots) -> serde_json::Value {
        roots.list_result("test").await.unwrap().decode().unwrap()
    }

    /// RT-02: roots are absolute `file://` URIs, escaped and without `..`.
    #[test]
    fn rt_02_uris_are_normal() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let odd = base.join("a b#c?\u{e9}%");
        std::fs::create_dir(&odd).unwrap();
        let root = Root::folder(&odd).unwrap();
        assert!(root.uri().starts_with("file:///") && root.uri().ends_with("/a%20b%23c%3F%C3%A9%25"));
        assert_eq!(root.name(), Some("a b#c?\u{e9}%"));
        assert_eq!(Root::parse(root.uri()).unwrap(), root);
        let plain = Root::folder(&base).unwrap();
        for way in [odd.join(".."), base.join("."), base.join("a b#c?\u{e9}%/../.")] {
            assert_eq!(Root::folder(&way).unwrap(), plain, "{}", way.display());
        }
        let traversal = format!("{}/%2E%2E", root.uri());
        assert_eq!(Root::parse(&traversal).unwrap(), plain);
        assert!(Root::folder(base.join("missing/../..")).is_err(), "what cannot be followed is not guessed");
        for bad in ["https://a.example/", "relative", "file://elsewhere.example/share"] {
            assert!(Root::parse(bad).is_err(), "{bad}");
        }
        assert!(Root::folder("").is_err());
        let here = Root::folder("src").unwrap();
        assert!(here.path().is_absolute() && here.uri().ends_with("/src"));
    }

    /// RT-02: a link before `..` is followed as the file system does.
    #[cfg(unix)]
    #[test]
    fn rt_02_links_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("far/away")).unwrap();
        std::os::unix::fs::symlink(base.join("far/away"), base.join("link")).unwrap();
        assert_eq!(Root::folder(base.join("link/..")).unwrap(), Root::folder(base.join("far")).unwrap());
    }

    /// RT-01, RT-02: the result holds the folders that exist.
    #[tokio::test]
    async fn rt_02_a_folder_that_is_gone_is_left_out() {
        let (stays, goes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = |folder: &tempfile::TempDir| Root::folder(folder.path()).unwrap().with_name("n");
        let entry = |root: &Root| serde_json::json!({ "uri": root.uri(), "name": "n" });
        let both = [root(&stays), root(&goes)];
        let roots = Roots::new(both.clone());
        let entries: Vec<_> = both.iter().map(entry).collect();
        assert_eq!(answered(&roots).await, serde_json::json!({ "roots": entries }));
        drop(goes);
        assert_eq!(answered(&roots).await, serde_json::json!({ "roots": [entries[0]] }));
        assert_eq!(roots.get().len(), 2, "it may come back");
        let file = stays.path().join("file");
        std::fs::write(&file, "").unwrap();
        roots.set([Root::folder(file).unwrap()]);
        assert_eq!(answered(&roots).await, serde_json::json!({ "roots": [] }));
    }

    /// RT-03: only real changes are announced.
    #[test]
    fn rt_03_only_a_change_is_told() {
        let root = |name: &str| Root::folder(std::env::temp_dir().join(name)).unwrap();
        let roots = Roots::new([root("a"), root("b")]);
        let mut changed = roots.subscribe();
        roots.clone().set([root("a"), root("b"), root("a")]);
        assert!(!changed.has_changed().unwrap(), "the same folders");
        roots.clone().set([root("b")]);
        assert!(changed.has_changed().unwrap());
        changed.mark_unchanged();
        roots.set([root("b").with_name("other")]);
        assert!(changed.has_changed().unwrap(), "a name is part of the answer");
    }
}
