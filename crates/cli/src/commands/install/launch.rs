//! How a host starts bowline: by its name, by its path, or by a package runner.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use bowline_hosts::Host;

/// The words before the arguments of bowline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    /// The program, and arguments that come before those of bowline.
    pub(super) words: Vec<String>,
    /// Why it is not `bowline`, for a person.
    pub(super) note: Option<String>,
}

/// `bowline` on `PATH`, if that starts this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathProgram {
    path: PathBuf,
    /// Whether it is the script of the npm package, which needs Node.js.
    is_script: bool,
}

/// Chooses how `host` starts the program `exe`.
pub(super) fn choose_launch(host: Host, exe: &Path, on_path: Option<&PathProgram>) -> Launch {
    let has_part = |part: &str| exe.iter().any(|name| name == part);
    let runner: Option<&[&str]> = if has_part("_npx") {
        Some(if cfg!(windows) { &["cmd", "/c", "npx", "-y", "bowline"] } else { &["npx", "-y", "bowline"] })
    } else if has_part("archive-v0") {
        Some(&["uvx", "--from", "bowline-mcp", "bowline"])
    } else {
        None
    };
    if let Some(words) = runner {
        let command = words.join(" ");
        let note = format!("the entry runs `{command}`, as this program is in a cache that is emptied");
        return Launch { words: words.iter().map(ToString::to_string).collect(), note: Some(note) };
    }
    let path = on_path.filter(|found| !found.is_script).map_or(exe, |found| &found.path);
    let path = path.display().to_string();
    let by_path = |note: String| Launch { words: vec![path.clone()], note: Some(note) };
    if is_started_from_desktop(host) {
        return by_path(format!(
            "the entry names {path}, since {} may be started with another PATH than this shell; install it again if \
             bowline is moved",
            host.name()
        ));
    }
    match on_path {
        Some(_) => Launch { words: vec!["bowline".to_owned()], note: None },
        None => by_path(format!(
            "the entry names {path}, since PATH does not lead to this program; install it again if bowline is moved"
        )),
    }
}

/// Finds `bowline` in the folders of `path` and tells whether it starts `exe`.
pub(super) fn find_on_path(exe: &Path, path: &OsStr) -> Option<PathProgram> {
    let name = if cfg!(windows) { "bowline.exe" } else { "bowline" };
    let exe = exe.canonicalize().ok()?;
    // Only the first one counts, since that is the one that is started.
    let found = std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())?;
    let real = found.canonicalize().ok()?;
    let is_script = real.file_name().is_some_and(|name| name == "bowline.js");
    let is_same = real == exe || (is_script && package_folder(&real) == package_folder(&exe));
    is_same.then_some(PathProgram { path: found, is_script })
}

/// The folder into which npm has installed a file.
fn package_folder(file: &Path) -> Option<&Path> {
    file.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "node_modules"))
}

/// Whether a host is usually started from a desktop, which does not read what a shell adds to `PATH`.
fn is_started_from_desktop(host: Host) -> bool {
    match host {
        Host::ClaudeDesktop | Host::Cursor | Host::VsCode | Host::Goose | Host::Zed | Host::Windsurf => true,
        Host::ClaudeCode
        | Host::Opencode
        | Host::Codex
        | Host::GeminiCli
        | Host::QwenCode
        | Host::Hermes
        | Host::CopilotCli
        | Host::Mcporter => false,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn words(host: Host, exe: &str, on_path: Option<&PathProgram>) -> String {
        choose_launch(host, Path::new(exe), on_path).words.join(" ")
    }

    #[test]
    fn the_program_is_named_so_that_the_host_finds_it() {
        let linked = PathProgram { path: "/usr/local/bin/bowline".into(), is_script: false };
        let script = PathProgram { path: "/usr/bin/bowline".into(), is_script: true };
        let exe = "/opt/bowline/0.1.0/bowline";
        assert_eq!(words(Host::ClaudeCode, exe, Some(&linked)), "bowline");
        assert_eq!(words(Host::ClaudeCode, exe, Some(&script)), "bowline");
        assert_eq!(words(Host::ClaudeCode, exe, None), exe);
        // The link stays when the folder of the version goes.
        assert_eq!(words(Host::Cursor, exe, Some(&linked)), "/usr/local/bin/bowline");
        assert_eq!(words(Host::Cursor, exe, Some(&script)), exe);
        assert_eq!(words(Host::Cursor, exe, None), exe);
    }

    #[test]
    fn a_program_in_a_cache_is_started_by_its_package_runner() {
        let npx = "/home/me/.npm/_npx/3f1c/node_modules/@bowline/linux-x64/bin/bowline";
        assert_eq!(words(Host::Cursor, npx, None), "npx -y bowline");
        let uvx = "/home/me/.cache/uv/archive-v0/Xy/bin/bowline";
        assert_eq!(words(Host::ClaudeCode, uvx, None), "uvx --from bowline-mcp bowline");
    }

    #[test]
    fn only_the_first_program_on_path_counts() {
        let folder = tempfile::tempdir().unwrap();
        let at = |below: &str| folder.path().join(below);
        let put = |below: &str| {
            std::fs::create_dir_all(at(below).parent().unwrap()).unwrap();
            std::fs::write(at(below), "").unwrap();
        };
        put("real/bowline");
        put("other/bowline");
        put("npm/node_modules/bowline/bin/bowline.js");
        put("npm/node_modules/@bowline/linux-x64/bin/bowline");
        for (link, target) in
            [("link", "real/bowline"), ("script", "npm/node_modules/bowline/bin/bowline.js")]
        {
            std::fs::create_dir_all(at(link)).unwrap();
            std::os::unix::fs::symlink(at(target), at(link).join("bowline")).unwrap();
        }
        let find = |exe: &str, folders: &[&str]| {
            let path = std::env::join_paths(folders.iter().map(|folder| at(folder))).unwrap();
            find_on_path(&at(exe), &path).map(|found| (found.path, found.is_script))
        };
        assert_eq!(find("real/bowline", &["link", "other"]), Some((at("link/bowline"), false)));
        assert_eq!(find("real/bowline", &["other", "link"]), None);
        assert_eq!(find("real/bowline", &["empty"]), None);
        let native = "npm/node_modules/@bowline/linux-x64/bin/bowline";
        assert_eq!(find(native, &["script"]), Some((at("script/bowline"), true)));
        assert_eq!(find("real/bowline", &["script"]), None);
    }
}
