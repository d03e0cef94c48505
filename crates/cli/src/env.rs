//! Reads the environment once at the start, and names the variables and folders that are used.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use bowline::config::Environment;

/// The configuration file to use instead of the user's and the project's.
pub(crate) const CONFIG: &str = "BOWLINE_CONFIG";
/// Has no effect any more, and a note says so: it trusted every project alike.
pub(crate) const TRUST_PROJECT: &str = "BOWLINE_TRUST_PROJECT";
/// What to log, in the syntax of `tracing`: `debug`, or `bowline=trace,info`. Overrides `-v`.
pub(crate) const LOG: &str = "BOWLINE_LOG";
/// Program that opens a URL, instead of the system's; several are separated by colons.
pub(crate) const BROWSER: &str = "BROWSER";
/// Passphrase that exported logins are encrypted with.
pub(crate) const PASSPHRASE: &str = "BOWLINE_PASSPHRASE";
/// Set over SSH, where a browser would open on a machine that nobody sits at.
pub(crate) const SSH_VARS: [&str; 2] = ["SSH_CONNECTION", "SSH_TTY"];
/// Set where windows can be shown, on systems with no other way to tell; the last means WSL.
pub(crate) const DISPLAY_VARS: [&str; 3] = ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"];
/// The trace that a command belongs to, in the W3C format.
pub(crate) const TRACEPARENT: &str = "TRACEPARENT";
/// Vendor data for [`TRACEPARENT`].
pub(crate) const TRACESTATE: &str = "TRACESTATE";
/// Any value disables colors.
pub(crate) const NO_COLOR: &str = "NO_COLOR";
/// `dumb` disables colors and the progress bar.
pub(crate) const TERM: &str = "TERM";
/// Folder of configuration files, instead of `~/.config`.
pub(crate) const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
/// Folder of configuration files on Windows.
pub(crate) const APPDATA: &str = "APPDATA";
/// Folder of state files, instead of `~/.local/state`.
pub(crate) const XDG_STATE_HOME: &str = "XDG_STATE_HOME";
/// Folder of cache files, which may be deleted at any time, instead of `~/.cache`.
pub(crate) const XDG_CACHE_HOME: &str = "XDG_CACHE_HOME";
/// Folder of state and cache files on Windows.
pub(crate) const LOCALAPPDATA: &str = "LOCALAPPDATA";
/// The user's home folder.
pub(crate) const HOME: &str = "HOME";

/// Describes the variables in `--help`.
pub(crate) const HELP: &str = "\
Environment:
  BOWLINE_CONFIG         configuration file, as --config
  BOWLINE_LOG            what to log, such as `debug` or `bowline=trace`
  BOWLINE_PASSPHRASE     what `bowline auth export` and `import` encrypt with
  BROWSER                what opens a page: one that a server asks you to visit, or a login
  XDG_CACHE_HOME         where it is kept for a day what servers speak, in `bowline/negotiations`
                         (default ~/.cache); that folder may be deleted at any time
  TRACEPARENT            the trace that calls belong to, with TRACESTATE
  NO_COLOR               no color";

/// The variables of the process, and its file system.
pub(crate) struct ProcessEnv {
    vars: BTreeMap<String, String>,
}

/// Largest file that `{file:path}` may name. A secret is short; a device never ends.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

impl ProcessEnv {
    /// Reads the variables of the process. One that is not UTF-8 counts as unset.
    pub(crate) fn read() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self { vars: std::env::vars_os().filter_map(text).collect() }
    }
}

impl Environment for ProcessEnv {
    fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).cloned()
    }

    fn read_file(&self, path: &Path) -> Result<String, String> {
        read_small_file(path)
    }
}

/// Reads a small, regular UTF-8 file. The error does not quote its content.
pub(crate) fn read_small_file(path: &Path) -> Result<String, String> {
    open_small_file(path).map(|(text, _)| text)
}

/// Like [`read_small_file`], and also returns the metadata of the file that was opened.
pub(crate) fn open_small_file(path: &Path) -> Result<(String, Metadata), String> {
    // Checked before opening: opening a pipe would wait for its writer, and opening a device may
    // have any effect.
    let regular = std::fs::metadata(path).map_err(|error| describe_io_error(&error))?.is_file();
    if !regular {
        return Err("not a regular file".to_owned());
    }
    let file = File::open(path).map_err(|error| describe_io_error(&error))?;
    let about = file.metadata().map_err(|error| describe_io_error(&error))?;
    let mut text = String::new();
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(|error| describe_io_error(&error))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("larger than {} MiB", MAX_FILE_BYTES / (1024 * 1024)));
    }
    Ok((text, about))
}

/// Describes an I/O error without the system's error number.
pub(crate) fn describe_io_error(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::InvalidData => "not UTF-8 text".to_owned(),
        _ => error.to_string(),
    }
}

/// Returns a variable that is set and not empty.
pub(crate) fn non_empty_var(env: &dyn Environment, name: &str) -> Option<String> {
    env.var(name).filter(|value| !value.is_empty())
}

pub(crate) fn home_folder(env: &dyn Environment) -> Option<PathBuf> {
    let given = non_empty_var(env, HOME).map(PathBuf::from).filter(|path| path.is_absolute());
    // Without the variable, the system's user database has it.
    given.or_else(std::env::home_dir)
}

/// Returns the path of the user's configuration file, which need not exist.
pub(crate) fn user_config_path(env: &dyn Environment) -> Option<PathBuf> {
    let absolute = |path: String| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let home = || home_folder(env);
    let folder = non_empty_var(env, XDG_CONFIG_HOME).and_then(absolute).or_else(|| {
        // macOS has its own location, but command line tools are expected in `~/.config`.
        if cfg!(windows) {
            non_empty_var(env, APPDATA)
                .and_then(absolute)
                .or_else(|| Some(home()?.join("AppData").join("Roaming")))
        } else {
            Some(home()?.join(".config"))
        }
    })?;
    Some(folder.join("bowline").join("config.toml"))
}

/// Returns the folder where all processes of this user record the servers that they start. It need
/// not exist.
///
/// It is not below `XDG_RUNTIME_DIR`, although that is emptied at logout: hosts often do not pass
/// that variable on, and a terminal, which has it, would look elsewhere.
pub(crate) fn process_records_folder(env: &dyn Environment) -> Option<PathBuf> {
    Some(app_folder(env, XDG_STATE_HOME, &[".local", "state"])?.join("servers"))
}

/// Returns the folder of the negotiation cache, which need not exist and may be deleted.
pub(crate) fn negotiations_folder(env: &dyn Environment) -> Option<PathBuf> {
    let cache = app_folder(env, XDG_CACHE_HOME, &[".cache"])?;
    // Windows has one folder for state and cache; a subfolder keeps what may be deleted apart.
    Some(if cfg!(windows) { cache.join("cache") } else { cache }.join("negotiations"))
}

/// Returns our folder inside the one that `variable` names, or inside the home folder.
fn app_folder(env: &dyn Environment, variable: &str, below_home: &[&str]) -> Option<PathBuf> {
    let absolute = |name| non_empty_var(env, name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute(variable).or_else(|| {
        let home = || home_folder(env);
        if cfg!(windows) {
            absolute(LOCALAPPDATA).or_else(|| Some(home()?.join("AppData").join("Local")))
        } else {
            home().map(|home| home.join(below_home.iter().collect::<PathBuf>()))
        }
    })?;
    Some(folder.join("bowline"))
}

/// Returns the folder where this user's state is stored. It need not exist.
pub(crate) fn state_folder(env: &dyn Environment) -> Option<PathBuf> {
    process_records_folder(env)?.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use bowline::config::FixedEnvironment;

    use super::*;

    #[test]
    #[cfg(unix)]
    fn the_users_file() {
        let of = |env: FixedEnvironment| user_config_path(&env).unwrap();
        let home = FixedEnvironment::default().with_var(HOME, "/home/me");
        assert_eq!(of(home.clone()), Path::new("/home/me/.config/bowline/config.toml"));
        let xdg = home.clone().with_var(XDG_CONFIG_HOME, "/etc/me");
        assert_eq!(of(xdg), Path::new("/etc/me/bowline/config.toml"));
        for ignored in ["", "relative"] {
            let env = home.clone().with_var(XDG_CONFIG_HOME, ignored);
            assert_eq!(of(env), Path::new("/home/me/.config/bowline/config.toml"));
        }
    }

    #[test]
    #[cfg(unix)]
    fn where_processes_are_written_down() {
        let of = |env: FixedEnvironment| process_records_folder(&env).unwrap();
        let home = FixedEnvironment::default().with_var(HOME, "/home/me");
        assert_eq!(of(home.clone()), Path::new("/home/me/.local/state/bowline/servers"));
        let state = home.with_var(XDG_STATE_HOME, "/var/me");
        assert_eq!(of(state.clone()), Path::new("/var/me/bowline/servers"));
        // A host does not pass this variable on, and its servers must be found all the same.
        let runtime = state.with_var("XDG_RUNTIME_DIR", "/run/user/1");
        assert_eq!(of(runtime), Path::new("/var/me/bowline/servers"));
    }

    #[test]
    #[cfg(unix)]
    fn where_it_is_kept_what_servers_speak() {
        let of = |env: FixedEnvironment| negotiations_folder(&env).unwrap();
        let home = FixedEnvironment::default().with_var(HOME, "/home/me");
        assert_eq!(of(home.clone()), Path::new("/home/me/.cache/bowline/negotiations"));
        let cache = home.clone().with_var(XDG_CACHE_HOME, "/var/me");
        assert_eq!(of(cache), Path::new("/var/me/bowline/negotiations"));
        let ignored = home.with_var(XDG_CACHE_HOME, "relative");
        assert_eq!(of(ignored), Path::new("/home/me/.cache/bowline/negotiations"));
    }

    #[test]
    fn what_is_no_short_text_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        assert_eq!(read_small_file(&file("good", b"text")), Ok("text".to_owned()));
        assert_eq!(read_small_file(&file("binary", b"\xff")), Err("not UTF-8 text".to_owned()));
        assert_eq!(read_small_file(&folder.path().join("none")), Err("no such file".to_owned()));
        assert_eq!(read_small_file(folder.path()), Err("not a regular file".to_owned()));
        let large = vec![b'x'; usize::try_from(MAX_FILE_BYTES).unwrap() + 1];
        assert_eq!(read_small_file(&file("large", &large)), Err("larger than 1 MiB".to_owned()));
    }
}
