//! Stores the tasks that outlive a command: one small file each, readable by this user alone.
//!
//! The id may be all that protects a task, so the files are as private as passwords. A server is
//! asked only about its own tasks: the same name with another URL or command is another server.

mod mark;

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bowline::config::Server;
use bowline::{SavedSession, TaskHandle};
use serde::{Deserialize, Serialize};

use crate::private;
use crate::settings::Settings;

/// A task that an earlier command started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    version: u32,
    /// Name of the server. `mark` distinguishes it from others of that name.
    server: String,
    mark: String,
    /// The tool that was called.
    pub(crate) tool: String,
    pub(crate) handle: TaskHandle,
    /// The session that the task was started in. Some servers know a task only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<SavedSession>,
}

/// The folder of task records.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    folder: PathBuf,
}

impl Kept {
    /// Creates a record for a task of this server.
    pub(crate) fn new(server: &Server, tool: &str, handle: TaskHandle) -> Self {
        let tool = tool.chars().take(LONGEST_TOOL).collect();
        Self {
            version: VERSION,
            server: server.name.clone(),
            mark: mark::of(server),
            tool,
            handle,
            session: None,
        }
    }

    /// Adds the session that the task can be found in. A session that does not fit into the file is
    /// dropped.
    pub(crate) fn in_session(mut self, session: SavedSession) -> Self {
        let size = serde_json::to_vec(&session).map_or(usize::MAX, |bytes| bytes.len());
        self.session = (size <= LARGEST_SESSION).then_some(session);
        self
    }

    /// Returns the session that the task was started in, if it was left open.
    pub(crate) fn session(&self) -> Option<&SavedSession> {
        self.session.as_ref()
    }

    /// Returns whether the server has surely forgotten the task, allowing for clock differences.
    fn is_over(&self, now: SystemTime) -> bool {
        let longest = self.handle.created_at.checked_add(LONGEST_KEPT);
        let end = self.handle.expires_at().and_then(|end| end.checked_add(GRACE)).or(longest);
        end.is_none_or(|end| now > end)
    }

    fn file_name(&self) -> String {
        format!("{}.json", mark::of_parts(&[&self.server, &self.mark, &self.handle.id]))
    }
}

impl Store {
    /// Opens the user's task store, or returns `None` if there is no state folder.
    pub(crate) fn of(settings: &Settings) -> Option<Self> {
        settings.state().map(|folder| Self { folder: folder.join("tasks") })
    }

    /// Saves a task. Beyond [`MAX_TASKS`], the oldest ones are removed.
    pub(crate) fn keep(&self, kept: &Kept) -> io::Result<()> {
        private::folder(&self.folder)?;
        let (path, new) =
            (self.path(kept), self.path(kept).with_extension(format!("{}.new", std::process::id())));
        // Written to a temporary file first, so that nobody reads half of it.
        let written = private::create(&new).and_then(|mut file| file.write_all(&serde_json::to_vec(kept)?));
        written.and_then(|()| fs::rename(&new, &path)).inspect_err(|_| drop(fs::remove_file(&new)))?;
        let mut all = self.all();
        all.sort_by_key(|kept| kept.handle.created_at);
        for old in all.iter().take(all.len().saturating_sub(MOST)) {
            self.forget(old);
        }
        Ok(())
    }

    /// Saves a task again, unless it was removed meanwhile.
    pub(crate) fn renew(&self, kept: &Kept) {
        if self.path(kept).exists()
            && let Err(error) = self.keep(kept)
        {
            tracing::debug!(%error, "the session of a task could not be kept");
        }
    }

    /// Returns the tasks of this server, newest first, and removes expired ones.
    pub(crate) fn tasks(&self, server: &Server) -> Vec<Kept> {
        let (mark, now) = (mark::of(server), SystemTime::now());
        let mut tasks = self.all();
        tasks.retain(|kept| {
            let over = kept.is_over(now);
            if over {
                self.forget(kept);
            }
            !over && kept.server == server.name && kept.mark == mark
        });
        tasks.sort_by_key(|kept| std::cmp::Reverse(kept.handle.created_at));
        tasks
    }

    /// Removes a task. It is no error if it is not there.
    pub(crate) fn forget(&self, kept: &Kept) {
        if let Err(error) = fs::remove_file(self.path(kept))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, "a task that is over could not be taken off");
        }
    }

    fn path(&self, kept: &Kept) -> PathBuf {
        self.folder.join(kept.file_name())
    }

    /// Returns all readable records. Other files belong to somebody else or another version.
    fn all(&self) -> Vec<Kept> {
        let Ok(files) = fs::read_dir(&self.folder) else { return Vec::new() };
        let files = files.take(MOST_FILES).filter_map(|file| Some(file.ok()?.path()));
        files
            .filter(|path| path.extension().is_some_and(|is| is == "json"))
            .filter_map(|path| read(&path))
            .collect()
    }
}

fn read(path: &Path) -> Option<Kept> {
    // Links and pipes are not followed: they could block or lead elsewhere.
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    File::open(path).ok()?.take(LARGEST).read_to_end(&mut text).ok()?;
    let kept: Kept = serde_json::from_slice(&text).ok()?;
    // The file name must match the task inside.
    let named = path.file_name().is_some_and(|name| *name == *kept.file_name());
    (kept.version == VERSION && named).then_some(kept)
}

const VERSION: u32 = 1;
/// Most tasks of one user, over all servers.
const MOST: usize = 1000;
/// Most files that are read at once.
const MOST_FILES: usize = 4 * MOST;
/// Larger files are not task records.
const LARGEST: u64 = 16 * 1024;
/// Largest session to store; leaves room for the rest of the file.
const LARGEST_SESSION: usize = 8 * 1024;
/// Longest tool name to store.
const LONGEST_TOOL: usize = 256;
/// How long a task is kept if the server gave no lifetime.
const LONGEST_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long a task is kept beyond its lifetime.
const GRACE: Duration = Duration::from_secs(60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store { folder: folder.path().join("state").join("tasks") };
        (folder, store)
    }

    fn kept(server: &Server, id: &str, ttl: &str, created_ms: u128) -> Kept {
        let handle = format!(r#"{{"id":"{id}","dialect":"extension","created_ms":{created_ms}{ttl}}}"#);
        Kept::new(server, "work", serde_json::from_str(&handle).unwrap())
    }

    fn now_ms() -> u128 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis()
    }

    #[test]
    fn a_server_is_asked_about_its_own_tasks() {
        let (_folder, store) = store();
        let here = Server::http("a", "https://h/mcp").unwrap();
        store.keep(&kept(&here, "1", "", now_ms())).unwrap();
        store.keep(&kept(&here, "2", "", now_ms() + 1000)).unwrap();
        let ids = |server: &Server| {
            store.tasks(server).into_iter().map(|kept| kept.handle.id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids(&here), ["2", "1"]);
        for other in [
            Server::http("a", "https://h/other").unwrap(),
            Server::http("b", "https://h/mcp").unwrap(),
            Server::stdio("a", "h", ["mcp"]),
        ] {
            assert_eq!(ids(&other), [""; 0]);
        }
        store.forget(&store.tasks(&here)[0]);
        assert_eq!(ids(&here), ["1"]);
    }

    #[test]
    fn what_the_server_has_forgotten_is_taken_off() {
        let (_folder, store) = store();
        let server = Server::http("a", "https://h/mcp").unwrap();
        let day = 24 * 60 * 60 * 1000;
        store.keep(&kept(&server, "short", r#","ttl_ms":1000"#, now_ms() - day)).unwrap();
        store.keep(&kept(&server, "fresh", r#","ttl_ms":1000"#, now_ms())).unwrap();
        store.keep(&kept(&server, "endless", "", now_ms() - day)).unwrap();
        store.keep(&kept(&server, "old", "", now_ms() - 40 * day)).unwrap();
        assert_eq!(store.tasks(&server).len(), 2);
        assert_eq!(fs::read_dir(&store.folder).unwrap().count(), 2);
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let (_folder, store) = store();
        let server = Server::http("a", "https://h/mcp").unwrap();
        let mine = kept(&server, "1", "", now_ms());
        store.keep(&mine).unwrap();
        fs::write(store.folder.join("other.json"), serde_json::to_vec(&mine).unwrap()).unwrap();
        fs::write(store.folder.join("broken.json"), "{").unwrap();
        fs::create_dir(store.folder.join("folder.json")).unwrap();
        assert_eq!(store.tasks(&server), [mine]);
    }

    #[test]
    #[cfg(unix)]
    fn nobody_else_can_read_them() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_folder, store) = store();
        let mine = kept(&Server::http("a", "https://h/k3y").unwrap(), "1", "", now_ms());
        store.keep(&mine).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&store.folder), mode(&store.path(&mine))), (0o700, 0o600));
        // URLs often hold keys.
        assert!(!fs::read_to_string(store.path(&mine)).unwrap().contains("k3y"));
    }

    #[test]
    fn a_session_is_kept_if_there_is_room() {
        let (_folder, store) = store();
        let server = Server::http("a", "https://h/mcp").unwrap();
        let session = |capabilities: &str| -> SavedSession {
            let text =
                format!(r#"{{"id":"s1","revision":"2025-11-25","capabilities":{{"x":"{capabilities}"}}}}"#);
            serde_json::from_str(&text).unwrap()
        };
        let mine = kept(&server, "1", "", now_ms());
        store.renew(&mine.clone().in_session(session("")));
        assert_eq!(store.tasks(&server), [], "what was taken off stays off");
        store.keep(&mine).unwrap();
        store.renew(&mine.clone().in_session(session("")));
        assert_eq!(store.tasks(&server)[0].session(), Some(&session("")));
        // A server with large session data must not cost the task.
        store.renew(&mine.clone().in_session(session(&"x".repeat(20_000))));
        assert_eq!(store.tasks(&server), [mine]);
    }

    #[test]
    fn there_are_never_too_many() {
        let (_folder, store) = store();
        let server = Server::http("a", "https://h/mcp").unwrap();
        private::folder(&store.folder).unwrap();
        for number in 0..u128::try_from(MOST).unwrap() {
            let kept = kept(&server, &number.to_string(), "", now_ms() - 2000 + number);
            fs::write(store.path(&kept), serde_json::to_vec(&kept).unwrap()).unwrap();
        }
        store.keep(&kept(&server, "new", "", now_ms())).unwrap();
        let tasks = store.tasks(&server);
        assert_eq!(tasks.len(), MOST);
        assert_eq!(&*tasks[0].handle.id, "new");
        assert!(tasks.iter().all(|kept| *kept.handle.id != *"0"));
    }
}
