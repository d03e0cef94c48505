//! Decides which program a command means, and on which PATH it was found.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use bowline_proto::fault::{Cause, Fault, SpawnError};
use which::which_in;

use super::locate::{WINDOWS_LINE_END, has_windows_line_end, read_first_line};

/// A program that can be started.
#[derive(Debug)]
pub(super) struct Program {
    /// Path of the executable file.
    pub(super) file: PathBuf,
    /// The PATH on which it was found, for the child to find its own programs on.
    pub(super) path: Option<OsString>,
}

impl Program {
    /// Finds `command` on `path`, and failing that on the PATH of the login shell. A command that
    /// contains a folder is resolved relative to `cwd`, not searched for.
    pub(super) async fn find(command: &str, mut path: Option<OsString>, cwd: &Path) -> Result<Self, Fault> {
        let mut found = which_in(command, path.as_ref(), cwd).ok();
        if (found.is_none() || is_system_path(path.as_deref()))
            && let Some(login) = login_path().await
        {
            path = join_paths(path, login);
            // A program on the first PATH would be found on the joined one as well.
            found = found.or_else(|| which_in(command, path.as_ref(), cwd).ok());
        }
        match found {
            Some(file) => Ok(Self { file, path }),
            None => Err(missing_program_fault(command, path.as_deref(), cwd)),
        }
    }

    /// Maps the error of a failed start to a fault.
    pub(super) fn spawn_failure(&self, error: &io::Error) -> Fault {
        let file = self.file.display();
        match error.kind() {
            // The file exists, because it was found; so its interpreter is missing.
            io::ErrorKind::NotFound
                if read_first_line(&self.file).is_some_and(|line| has_windows_line_end(&line)) =>
            {
                spawn_fault(SpawnError::Other).with_note(format!("{file}: {WINDOWS_LINE_END}"))
            }
            io::ErrorKind::NotFound => spawn_fault(SpawnError::Other)
                .with_note(format!("{file} is there, but not the interpreter named in its first line")),
            io::ErrorKind::PermissionDenied => {
                spawn_fault(SpawnError::Denied).with_note(format!("{file}: {error}"))
            }
            _ => spawn_fault(SpawnError::Other).with_note(format!("{file}: {error}")),
        }
    }
}

/// A fault of starting a program.
pub(super) fn spawn_fault(reason: SpawnError) -> Fault {
    Fault::before_sending(Cause::Spawn(reason))
}

/// Whether a PATH has only system folders, as desktops set it for the programs they start: it may
/// lack what a script found on it needs.
fn is_system_path(path: Option<&OsStr>) -> bool {
    const SYSTEM: [&str; 4] = ["/bin", "/sbin", "/usr/bin", "/usr/sbin"];
    let Some(path) = path else { return true };
    cfg!(unix) && env::split_paths(path).all(|folder| SYSTEM.iter().any(|system| folder == Path::new(system)))
}

/// Joins the folders of both paths in order, each once.
fn join_paths(path: Option<OsString>, login: &OsStr) -> Option<OsString> {
    let mut folders: Vec<PathBuf> = path.iter().flat_map(env::split_paths).collect();
    for folder in env::split_paths(login) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    // Folders that were split from a PATH can be joined to one.
    env::join_paths(folders).ok().or(path)
}

fn missing_program_fault(command: &str, path: Option<&OsStr>, cwd: &Path) -> Fault {
    let folders: Vec<PathBuf> = if Path::new(command).components().count() > 1 {
        vec![cwd.to_owned()]
    } else {
        path.iter().flat_map(env::split_paths).collect()
    };
    if let Some(file) = folders.iter().map(|folder| folder.join(command)).find(|file| file.exists()) {
        let note = format!("{} is not an executable file", file.display());
        return spawn_fault(SpawnError::Denied).with_note(note);
    }
    spawn_fault(SpawnError::NotFound).with_note(match path {
        _ if Path::new(command).is_absolute() => format!("{command} does not exist"),
        _ if Path::new(command).components().count() > 1 => {
            format!("{command} does not exist in {}", cwd.display())
        }
        Some(path) => format!("{command} is in no folder of the PATH {}", path.display()),
        None => format!("{command} cannot be searched for: there is no PATH"),
    })
}

#[cfg(unix)]
async fn login_path() -> Option<&'static OsStr> {
    super::login_shell::path().await
}

#[cfg(not(unix))]
async fn login_path() -> Option<&'static OsStr> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn desktop_path_is_a_system_path() {
        assert!(is_system_path(None));
        assert!(is_system_path(Some("/usr/bin:/bin:/usr/sbin:/sbin".as_ref())));
        assert!(!is_system_path(Some("/opt/homebrew/bin:/usr/bin".as_ref())));
    }

    #[test]
    fn paths_are_joined_in_order() {
        let joined = join_paths(Some("/a:/b".into()), "/b:/c:/a".as_ref());
        assert_eq!(joined.unwrap(), "/a:/b:/c");
        assert_eq!(join_paths(None, "/c".as_ref()).unwrap(), "/c");
    }
}
