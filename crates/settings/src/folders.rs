//! The folders of this user's configuration, state and cache.

use std::path::{Path, PathBuf};

use bowline_config::Environment;

use crate::environment::non_empty_var;
use variable::{APPDATA, HOME, LOCALAPPDATA, XDG_CACHE_HOME, XDG_CONFIG_HOME, XDG_STATE_HOME};

/// The variables that say where the folders are.
pub mod variable {
    /// Folder of configuration files, instead of `~/.config`.
    pub const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
    /// Folder of configuration files on Windows.
    pub const APPDATA: &str = "APPDATA";
    /// Folder of state files, instead of `~/.local/state`.
    pub const XDG_STATE_HOME: &str = "XDG_STATE_HOME";
    /// Folder of cache files, which may be deleted at any time, instead of `~/.cache`.
    pub const XDG_CACHE_HOME: &str = "XDG_CACHE_HOME";
    /// Folder of state and cache files on Windows.
    pub const LOCALAPPDATA: &str = "LOCALAPPDATA";
    /// The user's home folder.
    pub const HOME: &str = "HOME";
}

/// Returns the user's home folder.
pub fn home_folder(env: &dyn Environment) -> Option<PathBuf> {
    let given = non_empty_var(env, HOME).map(PathBuf::from).filter(|path| path.is_absolute());
    // Without the variable, the system's user database has it.
    given.or_else(std::env::home_dir)
}

/// Returns the path of the user's configuration file, which need not exist.
pub fn user_config_path(env: &dyn Environment) -> Option<PathBuf> {
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
pub fn process_records_folder(env: &dyn Environment) -> Option<PathBuf> {
    Some(app_folder(env, XDG_STATE_HOME, &[".local", "state"])?.join("servers"))
}

/// Returns the folder of the negotiation cache, which need not exist and may be deleted.
pub fn negotiations_folder(env: &dyn Environment) -> Option<PathBuf> {
    Some(cache_folder(env)?.join("negotiations"))
}

/// Returns the folder of the lists of servers, which need not exist and may be deleted.
pub fn catalog_folder(env: &dyn Environment) -> Option<PathBuf> {
    Some(cache_folder(env)?.join("catalog"))
}

fn cache_folder(env: &dyn Environment) -> Option<PathBuf> {
    let cache = app_folder(env, XDG_CACHE_HOME, &[".cache"])?;
    // Windows has one folder for state and cache; a subfolder keeps what may be deleted apart.
    Some(if cfg!(windows) { cache.join("cache") } else { cache })
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
pub fn state_folder(env: &dyn Environment) -> Option<PathBuf> {
    process_records_folder(env)?.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use bowline_config::FixedEnvironment;

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
}
