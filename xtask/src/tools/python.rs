//! Installs Python packages in an environment of their own, and programs that PyPI has as wheels.
//!
//! An environment is a virtual one if the system can create one. Debian ships Python without
//! `ensurepip`; there pip installs into a plain folder and a small script stands in for the
//! environment's interpreter.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::stamp::Stamp;
use crate::{shell, workspace::Workspace};

/// Installs `interop/<set>` into `.tools/<set>` unless it is there; returns a Python that can
/// import `module`.
pub(super) fn ensure(workspace: &Workspace, set: &str, module: &str) -> Result<PathBuf> {
    let requirements = requirements(workspace, set);
    let target = workspace.tools().join(set);
    let version = shell::read(Command::new(SYSTEM_PYTHON).arg("--version"))
        .context("Python 3 is needed to install the Python packages of interop/")?;
    let python = interpreter(&target);
    Stamp::new(&target, std::slice::from_ref(&requirements), version.trim())?.ensure(&python, || {
        if has_ensurepip() {
            let mut venv = Command::new(SYSTEM_PYTHON);
            shell::run(venv.args(["-m", "venv"]).arg(&target))?;
            shell::run(pip_command(&python).arg("--requirement").arg(&requirements))?;
        } else {
            install_into_folder(&target, &python, &requirements)?;
        }
        let mut import = Command::new(&python);
        shell::read(import.args(["-c", &format!("import {module}")]))
            .with_context(|| format!("{module} was installed but cannot be imported"))?;
        Ok(())
    })?;
    Ok(python)
}

/// Installs the wheel of `interop/<set>` into `.tools/<set>` unless it is there; returns the program
/// that it has at `path`. Nothing of its Python is run. `options` are further ones of pip.
pub(super) fn ensure_program(
    workspace: &Workspace,
    set: &str,
    path: &str,
    options: &[&str],
) -> Result<PathBuf> {
    let requirements = requirements(workspace, set);
    let target = workspace.tools().join(set);
    let program = target.join(path);
    Stamp::new(&target, std::slice::from_ref(&requirements), "wheel")?.ensure(&program, || {
        let mut install = pip_command(Path::new(SYSTEM_PYTHON));
        install.args(["--no-deps", "--require-hashes", "--only-binary", ":all:"]).args(options);
        install.arg("--target").arg(&target).arg("--requirement").arg(&requirements);
        shell::run(&mut install).with_context(|| format!("pip is needed to install interop/{set}"))?;
        super::make_executable(&program)?;
        shell::read(Command::new(&program).arg("--version"))
            .with_context(|| format!("{path} of interop/{set} does not start"))?;
        Ok(())
    })?;
    Ok(program)
}

fn requirements(workspace: &Workspace, set: &str) -> PathBuf {
    workspace.root().join("interop").join(set).join("requirements.txt")
}

fn has_ensurepip() -> bool {
    shell::read(Command::new(SYSTEM_PYTHON).args(["-c", "import ensurepip, venv"])).is_ok()
}

fn install_into_folder(target: &Path, python: &Path, requirements: &Path) -> Result<()> {
    let packages = target.join("packages");
    let mut install = pip_command(Path::new(SYSTEM_PYTHON));
    install.arg("--target").arg(&packages).arg("--requirement").arg(requirements);
    shell::run(&mut install).context("neither `python3 -m venv` nor `python3 -m pip` works here")?;
    write_stand_in(python, &packages)
}

/// Writes a script at `python` that runs the system's Python with `packages` to import from.
fn write_stand_in(python: &Path, packages: &Path) -> Result<()> {
    let folder = python.parent().context("the interpreter lies in a folder")?;
    fs::create_dir_all(folder)?;
    let packages = packages.to_string_lossy().replace('\'', r"'\''");
    fs::write(python, format!("#!/bin/sh\nPYTHONPATH='{packages}' exec {SYSTEM_PYTHON} \"$@\"\n"))?;
    super::make_executable(python)
}

fn pip_command(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command
}

fn interpreter(target: &Path) -> PathBuf {
    target.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" })
}

/// The system's Python.
const SYSTEM_PYTHON: &str = if cfg!(windows) { "python" } else { "python3" };

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_stand_in_interpreter_finds_its_packages() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("it's here");
        let packages = target.join("packages");
        fs::create_dir_all(&packages).unwrap();
        fs::write(packages.join("knot.py"), "name = 'bowline'").unwrap();
        let python = interpreter(&target);
        write_stand_in(&python, &packages).unwrap();

        let printed = shell::read(Command::new(&python).args(["-c", "import knot; print(knot.name)"]));
        assert_eq!(printed.unwrap(), "bowline\n");
    }
}
