//! [`DaemonKey`]: which hosts can share a daemon. It is a hash over everything that decides what the
//! daemon does, so a daemon is never joined by a host that would have been served differently.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::hash::{Hash, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bowline::Server;
use bowline::config::{Grant, Http};
use bowline_transport::process::MARK_VARIABLE;

use super::views::ViewMap;
use crate::args::ServeArgs;
use crate::env;
use crate::key_hasher::{KeyHasher, differs_between_terminals, is_inherited};
use crate::settings::Settings;

/// Names the daemon of one configuration. Values of the configuration, which may be secret, cannot be
/// read from it.
///
/// It is short, since the path of a Unix socket is, and long enough that no two configurations of a
/// user have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DaemonKey(u64);

impl DaemonKey {
    /// The key of the daemon that serves these servers for this process. It has all views, so the one
    /// that this host selects does not count.
    pub(super) fn new(
        args: &ServeArgs,
        settings: &Settings,
        (servers, views): (&[Server], &ViewMap),
    ) -> Self {
        let programs = ProgramUse::of(servers);
        let mut hasher = KeyHasher::default();
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        ExecutableFile::of_this_process().hash(&mut hasher);
        servers.hash(&mut hasher);
        views.hash(&mut hasher);
        settings.layers().ok().map(bowline_settings::Layers::serve).hash(&mut hasher);
        args.prefix.hash(&mut hasher);
        settings.login_settings().hash_into(&mut hasher);
        relevant_variables(std::env::vars_os(), programs).hash(&mut hasher);
        if programs == ProgramUse::InCurrentFolder {
            std::env::current_dir().ok().hash(&mut hasher);
        }
        Self(hasher.finish())
    }
}

/// What processes with the same servers and views have in common, whatever their variables are.
pub(super) fn fingerprint(servers: &[Server], views: &ViewMap) -> String {
    let mut hasher = KeyHasher::default();
    servers.hash(&mut hasher);
    views.hash(&mut hasher);
    DaemonKey(hasher.finish()).to_string()
}

/// 16 hexadecimal digits.
impl fmt::Display for DaemonKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Identifies the executable: after an update, hosts use a daemon of the new version.
#[derive(Hash)]
struct ExecutableFile {
    path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl ExecutableFile {
    fn of_this_process() -> Option<Self> {
        let path = std::env::current_exe().ok()?;
        let about = path.metadata().ok()?;
        Some(Self { path, bytes: about.len(), modified: about.modified().ok() })
    }
}

/// Whether programs are started for these servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgramUse {
    None,
    /// Each in a folder that is configured.
    InOtherFolders,
    /// At least one in the current folder.
    InCurrentFolder,
}

impl ProgramUse {
    fn of(servers: &[Server]) -> Self {
        let has_helpers = |server: &Server| {
            !server.hooks.is_empty() || server.transport.http().is_some_and(may_start_programs)
        };
        let mut programs = servers.iter().filter_map(|server| server.transport.program()).peekable();
        // Where hooks and other helpers run is not looked at.
        if servers.iter().any(has_helpers) {
            Self::InCurrentFolder
        } else if programs.peek().is_none() {
            Self::None
        } else if programs.any(|program| program.cwd.as_deref().is_none_or(Path::is_relative)) {
            Self::InCurrentFolder
        } else {
            Self::InOtherFolders
        }
    }
}

fn may_start_programs(http: &Http) -> bool {
    http.headers_command.is_some() || matches!(http.auth.grant, Grant::Enterprise(_) | Grant::Workload(_))
}

/// The variables that matter, sorted: those that bowline reads, and those that its programs inherit.
fn relevant_variables(
    all: impl Iterator<Item = (OsString, OsString)>,
    programs: ProgramUse,
) -> Vec<(OsString, OsString)> {
    let mut relevant: Vec<_> = all.filter(|(name, _)| is_relevant(name, programs)).collect();
    relevant.sort();
    relevant
}

fn is_relevant(name: &OsStr, programs: ProgramUse) -> bool {
    let Some(name) = name.to_str() else { return false };
    // Each host says for itself which gateways led to it, and a daemon does not end with the process that marks
    // its children. Commands alone read the last one.
    if name == env::VIA || name == MARK_VARIABLE || name == env::NO_DAEMON {
        return false;
    }
    if name.starts_with("BOWLINE_") {
        return true;
    }
    let lower = name.to_ascii_lowercase();
    let is_read = name == "HOME"
        || (name.starts_with("XDG_") && name.ends_with("_HOME"))
        || lower.ends_with("_proxy")
        || lower.starts_with("ssl_cert_");
    is_inherited(name) && (is_read || (programs != ProgramUse::None && !differs_between_terminals(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_config::TransportSettings as _;

    fn stdio() -> Server {
        Server::stdio("s", "run").build().unwrap()
    }

    #[test]
    fn every_setting_counts_and_none_can_be_read() {
        let key = |servers: &[Server]| {
            let mut hasher = KeyHasher::default();
            servers.hash(&mut hasher);
            DaemonKey(hasher.finish()).to_string()
        };
        let http = Server::http("s", "http://h/").build().unwrap();
        let variants = [
            vec![stdio()],
            vec![stdio(), stdio()],
            vec![stdio().with_env("TOKEN", "hunter2").unwrap()],
            vec![stdio().with_env("TOKEN", "hunter3").unwrap()],
            vec![stdio().with_cwd("/tmp").unwrap()],
            vec![stdio().with_keepalive(None)],
            vec![http.clone()],
            vec![http.clone().with_header("A", "1").unwrap()],
            vec![http.with_socket("/s").unwrap()],
        ];
        let keys: std::collections::HashSet<_> = variants.iter().map(|servers| key(servers)).collect();
        assert_eq!(keys.len(), variants.len());
        assert!(keys.iter().all(|key| key.len() == 16 && key.bytes().all(|byte| byte.is_ascii_hexdigit())));
        assert_eq!(key(&variants[2]), key(&[stdio().with_env("TOKEN", "hunter2").unwrap()]));
    }

    #[test]
    fn the_folder_counts_if_a_program_runs_in_it() {
        let http = Server::http("s", "http://h/").build().unwrap();
        let in_folder = stdio().with_cwd("/tmp").unwrap();
        assert_eq!(ProgramUse::of(std::slice::from_ref(&http)), ProgramUse::None);
        assert_eq!(ProgramUse::of(&[in_folder.clone(), http.clone()]), ProgramUse::InOtherFolders);
        assert_eq!(ProgramUse::of(&[in_folder, stdio()]), ProgramUse::InCurrentFolder);
        let hooked = http.with_hook(bowline::config::Hook::command("x", [""; 0]));
        assert_eq!(ProgramUse::of(&[hooked]), ProgramUse::InCurrentFolder);
    }

    #[test]
    fn variables_count_if_something_depends_on_them() {
        let names = |programs| {
            let all = [
                "HOME",
                "PATH",
                "TERM",
                "LC_ALL",
                "XDG_SESSION_ID",
                "XDG_RUNTIME_DIR",
                "XDG_CACHE_HOME",
                "https_proxy",
                "BOWLINE_CONFIG",
                "BOWLINE_OWNER",
                "BOWLINE_VIA",
                "SSH_TTY",
                "GITHUB_TOKEN",
            ];
            let all = all.into_iter().map(|name| (name.into(), "value".into()));
            let relevant = relevant_variables(all, programs).into_iter();
            relevant.map(|(name, _)| name.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names(ProgramUse::None), ["BOWLINE_CONFIG", "HOME", "XDG_CACHE_HOME", "https_proxy"]);
        let inherited =
            ["BOWLINE_CONFIG", "HOME", "LC_ALL", "PATH", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "https_proxy"];
        assert_eq!(names(ProgramUse::InOtherFolders), inherited);
    }
}
