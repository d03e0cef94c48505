//! The folders and the web page that the servers work with.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::page::Page;

/// A home with a folder for each server that needs one, and a web page.
pub(crate) struct Site {
    pub(crate) page: Page,
    home: TempDir,
}

impl Site {
    pub(crate) async fn start() -> Self {
        let site = Self { page: Page::serve().await, home: TempDir::new().expect("a folder") };
        for name in [TEMPORARY_FOLDER, FILES, BROWSER, REPOSITORY, PROGRAMS] {
            std::fs::create_dir(site.path(name)).expect("a folder");
        }
        std::fs::write(site.path(REPOSITORY).join("knot.txt"), "bowline\n").expect("a file");
        let mut git = Command::new("git");
        git.args(["init", "--quiet", "--initial-branch=main"]).arg(site.path(REPOSITORY));
        confine(&mut git, site.home());
        assert!(git.status().expect("git is installed").success());
        let node = site.path(PROGRAMS).join("node");
        std::fs::write(&node, "#!/bin/sh\nexit 1\n").expect("a file");
        std::fs::set_permissions(&node, std::fs::Permissions::from_mode(0o755)).expect("its own file");
        site
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home().join(name)
    }

    /// Returns a path as text.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().expect("UTF-8")
    }
}

/// Sets what every program of others needs: its own home, and no way to leave this machine. The proxy
/// variables lead to a closed port; servers inherit them from the gateway.
pub(crate) fn confine(command: &mut Command, home: &Path) {
    command.env_clear().env("HOME", home).current_dir(home).env("TMPDIR", home.join(TEMPORARY_FOLDER));
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        command.env(name, "http://127.0.0.1:9");
    }
    command.env("NO_PROXY", "127.0.0.1,localhost").env("no_proxy", "127.0.0.1,localhost");
}

/// The folder that the file server may use.
pub(crate) const FILES: &str = "files";
/// The folder that the server of the browser runs in.
pub(crate) const BROWSER: &str = "browser";
/// A Git repository without a commit.
pub(crate) const REPOSITORY: &str = "repository";
/// A folder with a Node that does not work, for the start of a PATH: a server that finds a working one
/// installs packages for it.
pub(crate) const PROGRAMS: &str = "programs";

const TEMPORARY_FOLDER: &str = "tmp";
