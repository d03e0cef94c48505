//! The shells whose completion is tested, from the packages of the system.

use std::process::{Command, Stdio};

use crate::shell;

/// Shells that a test runs if they are there. Each is the name of its package as well. Bash is on every machine.
const SHELLS: [&str; 2] = ["zsh", "fish"];

/// Installs the shells that are missing, where that needs no password. Returns whether all are there.
///
/// It is no failure if they cannot be installed: the tests of them are left out then, and say so.
pub(crate) fn ensure() -> bool {
    if !are_installed() && cfg!(target_os = "linux") && is_root() {
        // The list of packages of a fresh image is empty.
        for args in [&["update"][..], &[&["install", "-y", "--no-install-recommends"], &SHELLS[..]].concat()]
        {
            let mut apt = Command::new("apt-get");
            apt.args(BOUNDS).args(args).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
            if let Err(error) = shell::run(&mut apt) {
                eprintln!("{} are not installed: {error:#}", SHELLS.join(" and "));
                break;
            }
        }
    }
    are_installed()
}

fn are_installed() -> bool {
    SHELLS.into_iter().all(shell::is_installed)
}

/// Whether the package manager may be used. `id` is on every Unix.
fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Bounds on how long the package manager tries to reach its servers.
const BOUNDS: [&str; 4] = ["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20"];
