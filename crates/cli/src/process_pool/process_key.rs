//! [`ProcessKey`]: whether a process that `bowline serve` keeps is the one that a command would start. It is a hash
//! over everything that a process is started with, so that secrets in it cannot be read.

use std::ffi::OsString;
use std::fs::Metadata;
use std::hash::Hash as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bowline::Server;
use bowline::config::Program;
use serde::{Deserialize, Serialize};

use crate::key_hasher::{KeyHasher, program_variables};

/// What a process is started with (command, arguments, variables and configured folder), for which server, and how
/// much is read of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct ProcessKey(String);

impl ProcessKey {
    /// The key of the program of a server, as this process would start it.
    pub(super) fn new(server: &Server, program: &Program) -> Self {
        let mut hasher = KeyHasher::default();
        // Another version may speak another protocol.
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        (&server.name, server.message_limit).hash(&mut hasher);
        program.hash(&mut hasher);
        program_variables().hash(&mut hasher);
        Self(hasher.finish_hex())
    }
}

/// The folder that a program runs in, if it depends on where it is started. `Err` if that folder is not known, or has
/// a name that cannot be sent.
pub(super) fn starting_folder(program: &Program) -> Result<Option<PathBuf>, ()> {
    if program.cwd.as_deref().is_some_and(Path::is_absolute) {
        return Ok(None);
    }
    let folder = std::env::current_dir().map_err(|_| ())?;
    let folder = program.cwd.as_deref().map_or_else(|| folder.clone(), |cwd| folder.join(cwd));
    if folder.to_str().is_some() { Ok(Some(folder)) } else { Err(()) }
}

/// A hash of what is behind the paths of a program: its file, its script, and the folder that it runs in. When one of
/// them was changed or replaced, a process that was started before runs old code, or elsewhere. `folder` is that of
/// [`starting_folder`].
pub(super) fn hash_files(program: &Program, folder: Option<&Path>) -> String {
    let folder = folder.or(program.cwd.as_deref()).unwrap_or(Path::new("/"));
    let mut hasher = KeyHasher::default();
    folder_identity(folder).hash(&mut hasher);
    find_program(program, folder).as_deref().and_then(file_identity).hash(&mut hasher);
    for script in find_scripts(program, folder) {
        file_identity(&script).hash(&mut hasher);
    }
    hasher.finish_hex()
}

/// The arguments that may be a script for an interpreter: files up to the first one that does not follow an option.
/// Files after it may be data that the server itself writes.
fn find_scripts(program: &Program, folder: &Path) -> Vec<PathBuf> {
    let mut scripts = Vec::new();
    let mut follows_option = false;
    for argument in &program.args {
        let path = folder.join(argument);
        if path.is_file() {
            scripts.push(path);
            if !follows_option {
                break;
            }
        }
        follows_option = argument.starts_with('-');
    }
    scripts
}

/// The file of a program. That of one which only the login shell finds is not known: to ask the shell would take as
/// long as to start some servers.
fn find_program(program: &Program, folder: &Path) -> Option<PathBuf> {
    if program.command.contains('/') {
        return Some(folder.join(&program.command));
    }
    let path = match program.env.get("PATH") {
        Some(path) => OsString::from(path.expose()),
        None => std::env::var_os("PATH")?,
    };
    std::env::split_paths(&path).map(|path| path.join(&program.command)).find(|file| file.is_file())
}

/// Device, inode and time of creation, where it is known: the number of a folder that was deleted is used again.
fn folder_identity(path: &Path) -> Option<(u64, u64, Option<SystemTime>)> {
    let folder = path.metadata().ok()?;
    Some((folder.dev(), folder.ino(), folder.created().ok()))
}

/// Device, inode, time of the last change (seconds and nanoseconds) and size. `None` if it is not a file.
fn file_identity(path: &Path) -> Option<(u64, u64, i64, i64, u64)> {
    let file = path.metadata().ok().filter(Metadata::is_file)?;
    Some((file.dev(), file.ino(), file.mtime(), file.mtime_nsec(), file.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_config::TransportSettings as _;

    fn key(server: &Server) -> ProcessKey {
        ProcessKey::new(server, server.transport.program().unwrap())
    }

    #[test]
    fn everything_that_a_process_is_started_with_counts() {
        let server = Server::stdio("s", "run").build().unwrap();
        for other in [
            Server::stdio("s", "walk").build().unwrap(),
            Server::stdio("s", "run").args(["x"]).build().unwrap(),
            server.clone().with_env("TOKEN", "hunter2").unwrap(),
            server.clone().with_cwd("/tmp").unwrap(),
            server.clone().with_message_limit(1),
            Server::stdio("t", "run").build().unwrap(),
        ] {
            assert_ne!(key(&server), key(&other));
        }
        // What decides how a client uses it does not.
        assert_eq!(key(&server), key(&server.clone().with_keepalive(None)));
        assert_eq!(key(&server).0.len(), 64);
    }

    #[test]
    fn scripts_come_before_what_a_server_may_write() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["rc", "run.sh", "notes.db"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let scripts = |args: &[&str]| -> Vec<PathBuf> {
            let server = Server::stdio("s", "sh").args(args.iter().copied()).build().unwrap();
            let found = find_scripts(server.transport.program().unwrap(), folder.path());
            found.iter().map(|path| path.file_name().unwrap().into()).collect()
        };
        let names = |names: &[&str]| -> Vec<PathBuf> { names.iter().map(PathBuf::from).collect() };
        assert_eq!(scripts(&["run.sh", "--db", "notes.db"]), names(&["run.sh"]));
        assert_eq!(scripts(&["-u", "run.sh", "notes.db"]), names(&["run.sh", "notes.db"]));
        assert_eq!(scripts(&["--rcfile", "rc", "run.sh", "notes.db"]), names(&["rc", "run.sh"]));
        assert_eq!(scripts(&["-m", "package"]), names(&[]));
    }

    #[test]
    fn a_program_with_an_absolute_folder_runs_there_from_everywhere() {
        let server = Server::stdio("s", "run").build().unwrap();
        let here = std::env::current_dir().unwrap();
        let folder = |server: &Server| starting_folder(server.transport.program().unwrap()).unwrap();
        assert_eq!(folder(&server), Some(here.clone()));
        assert_eq!(folder(&server.clone().with_cwd("below").unwrap()), Some(here.join("below")));
        assert_eq!(folder(&server.with_cwd("/tmp").unwrap()), None);
    }
}
