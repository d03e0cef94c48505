//! Stores the tasks that outlive a command: one small file each, readable by this user alone.
//!
//! The id may be all that protects a task, so the files are as private as passwords. A server is
//! asked only about its own tasks: the same name with another URL or command is another server.

mod server_hash;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bowline::{SavedSession, Server, TaskHandle};
use bowline_store::private::replace_file;
use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use bowline_settings::private_folder;

/// A task that an earlier command started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskRecord {
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
pub(crate) struct TaskStore {
    folder: PathBuf,
}

impl TaskRecord {
    pub(crate) fn new(server: &Server, tool: &str, handle: TaskHandle) -> Self {
        let tool = tool.chars().take(MAX_TOOL_NAME_CHARS).collect();
        Self {
            version: FORMAT_VERSION,
            server: server.name.clone(),
            mark: server_hash::hash_server(server),
            tool,
            handle,
            session: None,
        }
    }

    /// Adds the session that the task can be found in. A session that does not fit into the file is
    /// dropped.
    pub(crate) fn with_session(mut self, session: SavedSession) -> Self {
        let size = serde_json::to_vec(&session).map_or(usize::MAX, |bytes| bytes.len());
        self.session = (size <= MAX_SESSION_BYTES).then_some(session);
        self
    }

    /// Returns the session that the task was started in, if it was left open.
    pub(crate) fn session(&self) -> Option<&SavedSession> {
        self.session.as_ref()
    }

    /// Returns whether the server has surely forgotten the task, allowing for clock differences.
    fn is_expired(&self, now: SystemTime) -> bool {
        let longest = self.handle.created_at.checked_add(MAX_RETENTION);
        let end = self.handle.expires_at().and_then(|end| end.checked_add(EXPIRY_GRACE)).or(longest);
        end.is_none_or(|end| now > end)
    }

    fn file_name(&self) -> String {
        format!("{}.json", server_hash::hash_parts(&[&self.server, &self.mark, &self.handle.id]))
    }
}

impl TaskStore {
    /// Opens the user's task store, or returns `None` if there is no state folder.
    pub(crate) fn open(settings: &Settings) -> Option<Self> {
        settings.state().map(|folder| Self { folder: folder.join("tasks") })
    }

    /// Saves a task. Beyond [`MAX_TASKS`], the oldest ones are removed.
    pub(crate) fn save(&self, kept: &TaskRecord) -> io::Result<()> {
        private_folder::create_folder(&self.folder)?;
        replace_file(&self.path(kept), &serde_json::to_vec(kept)?)?;
        let mut all = self.read_all();
        all.sort_by_key(|kept| kept.handle.created_at);
        for old in all.iter().take(all.len().saturating_sub(MAX_TASKS)) {
            self.remove(old);
        }
        Ok(())
    }

    /// Saves a task again, unless it was removed meanwhile.
    pub(crate) fn update(&self, kept: &TaskRecord) {
        if self.path(kept).exists()
            && let Err(error) = self.save(kept)
        {
            tracing::debug!(%error, "the session of a task could not be kept");
        }
    }

    /// Returns the tasks of this server, newest first, and removes expired ones.
    pub(crate) fn list(&self, server: &Server) -> Vec<TaskRecord> {
        let (mark, now) = (server_hash::hash_server(server), SystemTime::now());
        let mut tasks = self.read_all();
        tasks.retain(|kept| {
            let over = kept.is_expired(now);
            if over {
                self.remove(kept);
            }
            !over && kept.server == server.name && kept.mark == mark
        });
        tasks.sort_by_key(|kept| std::cmp::Reverse(kept.handle.created_at));
        tasks
    }

    /// Removes a task. It is no error if it is not there.
    pub(crate) fn remove(&self, kept: &TaskRecord) {
        if let Err(error) = fs::remove_file(self.path(kept))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, "a task that is over could not be taken off");
        }
    }

    fn path(&self, kept: &TaskRecord) -> PathBuf {
        self.folder.join(kept.file_name())
    }

    /// Returns all readable records. Other files belong to somebody else or another version.
    fn read_all(&self) -> Vec<TaskRecord> {
        let Ok(files) = fs::read_dir(&self.folder) else { return Vec::new() };
        let files = files.take(MAX_FILES_SCANNED).filter_map(|file| Some(file.ok()?.path()));
        files
            .filter(|path| path.extension().is_some_and(|is| is == "json"))
            .filter_map(|path| read_record(&path))
            .collect()
    }
}

fn read_record(path: &Path) -> Option<TaskRecord> {
    // Links and pipes are not followed: they could block or lead elsewhere.
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    File::open(path).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut text).ok()?;
    let kept: TaskRecord = serde_json::from_slice(&text).ok()?;
    // The file name must match the task inside.
    let named = path.file_name().is_some_and(|name| *name == *kept.file_name());
    (kept.version == FORMAT_VERSION && named).then_some(kept)
}

const FORMAT_VERSION: u32 = 1;
/// Most tasks of one user, over all servers.
const MAX_TASKS: usize = 1000;
/// Most files that are read at once.
const MAX_FILES_SCANNED: usize = 4 * MAX_TASKS;
/// Larger files are not task records.
const MAX_FILE_BYTES: u64 = 16 * 1024;
/// Largest session to store; leaves room for the rest of the file.
const MAX_SESSION_BYTES: usize = 8 * 1024;
/// Longest tool name to store.
const MAX_TOOL_NAME_CHARS: usize = 256;
/// How long a task is kept if the server gave no lifetime.
const MAX_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long a task is kept beyond its lifetime.
const EXPIRY_GRACE: Duration = Duration::from_secs(60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, TaskStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = TaskStore { folder: folder.path().join("state").join("tasks") };
        (folder, store)
    }

    fn kept(server: &Server, id: &str, ttl: &str, created_ms: u128) -> TaskRecord {
        let handle = format!(r#"{{"id":"{id}","dialect":"extension","created_ms":{created_ms}{ttl}}}"#);
        TaskRecord::new(server, "work", serde_json::from_str(&handle).unwrap())
    }

    fn now_ms() -> u128 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis()
    }

    #[test]
    fn a_server_is_asked_about_its_own_tasks() {
        let (_folder, store) = store();
        let here = Server::http("a", "https://h/mcp").build().unwrap();
        store.save(&kept(&here, "1", "", now_ms())).unwrap();
        store.save(&kept(&here, "2", "", now_ms() + 1000)).unwrap();
        let ids = |server: &Server| {
            store.list(server).into_iter().map(|kept| kept.handle.id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids(&here), ["2", "1"]);
        for other in [
            Server::http("a", "https://h/other").build().unwrap(),
            Server::http("b", "https://h/mcp").build().unwrap(),
            Server::stdio("a", "h").args(["mcp"]).build().unwrap(),
        ] {
            assert_eq!(ids(&other), [""; 0]);
        }
        store.remove(&store.list(&here)[0]);
        assert_eq!(ids(&here), ["1"]);
    }

    #[test]
    fn what_the_server_has_forgotten_is_taken_off() {
        let (_folder, store) = store();
        let server = Server::http("a", "https://h/mcp").build().unwrap();
        let day = 24 * 60 * 60 * 1000;
        store.save(&kept(&server, "short", r#","ttl_ms":1000"#, now_ms() - day)).unwrap();
        store.save(&kept(&server, "fresh", r#","ttl_ms":1000"#, now_ms())).unwrap();
        store.save(&kept(&server, "endless", "", now_ms() - day)).unwrap();
        store.save(&kept(&server, "old", "", now_ms() - 40 * day)).unwrap();
        assert_eq!(store.list(&server).len(), 2);
        assert_eq!(fs::read_dir(&store.folder).unwrap().count(), 2);
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let (_folder, store) = store();
        let server = Server::http("a", "https://h/mcp").build().unwrap();
        let mine = kept(&server, "1", "", now_ms());
        store.save(&mine).unwrap();
        fs::write(store.folder.join("other.json"), serde_json::to_vec(&mine).unwrap()).unwrap();
        fs::write(store.folder.join("broken.json"), "{").unwrap();
        fs::create_dir(store.folder.join("folder.json")).unwrap();
        assert_eq!(store.list(&server), [mine]);
    }

    #[test]
    #[cfg(unix)]
    fn task_files_are_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_folder, store) = store();
        let mine = kept(&Server::http("a", "https://h/k3y").build().unwrap(), "1", "", now_ms());
        store.save(&mine).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&store.folder), mode(&store.path(&mine))), (0o700, 0o600));
        // URLs often hold keys.
        assert!(!fs::read_to_string(store.path(&mine)).unwrap().contains("k3y"));
    }

    #[test]
    fn a_session_is_kept_if_there_is_room() {
        let (_folder, store) = store();
        let server = Server::http("a", "https://h/mcp").build().unwrap();
        let session = |capabilities: &str| -> SavedSession {
            let text =
                format!(r#"{{"id":"s1","revision":"2025-11-25","capabilities":{{"x":"{capabilities}"}}}}"#);
            serde_json::from_str(&text).unwrap()
        };
        let mine = kept(&server, "1", "", now_ms());
        store.update(&mine.clone().with_session(session("")));
        assert_eq!(store.list(&server), [], "what was taken off stays off");
        store.save(&mine).unwrap();
        store.update(&mine.clone().with_session(session("")));
        assert_eq!(store.list(&server)[0].session(), Some(&session("")));
        // A server with large session data must not cost the task.
        store.update(&mine.clone().with_session(session(&"x".repeat(20_000))));
        assert_eq!(store.list(&server), [mine]);
    }

    #[test]
    fn oldest_tasks_are_removed_beyond_the_limit() {
        let (_folder, store) = store();
        let server = Server::http("a", "https://h/mcp").build().unwrap();
        private_folder::create_folder(&store.folder).unwrap();
        for number in 0..u128::try_from(MAX_TASKS).unwrap() {
            let kept = kept(&server, &number.to_string(), "", now_ms() - 2000 + number);
            fs::write(store.path(&kept), serde_json::to_vec(&kept).unwrap()).unwrap();
        }
        store.save(&kept(&server, "new", "", now_ms())).unwrap();
        let tasks = store.list(&server);
        assert_eq!(tasks.len(), MAX_TASKS);
        assert_eq!(&*tasks[0].handle.id, "new");
        assert!(tasks.iter().all(|kept| *kept.handle.id != *"0"));
    }
}
