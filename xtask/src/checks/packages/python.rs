//! Installs the wheel into an empty environment, and starts it with `uvx`.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::program::Program;
use crate::{
    dist::{metadata::Metadata, target::Target},
    shell,
};

/// Returns the ways to start the program.
pub(super) fn install(
    metadata: &Metadata,
    target: &Target,
    wheel: &Path,
    folder: &Path,
) -> Result<Vec<Program>> {
    let system = if cfg!(windows) { "python" } else { "python3" };
    // The pip of the system installs, because Debian's Python cannot put one into the environment.
    shell::run(Command::new(system).args(["-m", "venv", "--without-pip"]).arg(folder))?;
    let scripts = folder.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let python = scripts.join(format!("python{}", std::env::consts::EXE_SUFFIX));
    let mut pip = Command::new(system);
    pip.args(["-m", "pip", "--python"]).arg(&python);
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]).arg(wheel);
    shell::run(&mut pip).context("pip 22.3 or newer is needed to install the wheel")?;

    let native = scripts.join(target.program_name());
    let executing_native = |mut program: Program| {
        program.executed_file = cfg!(unix).then(|| native.clone());
        program
    };
    let command = scripts.join(format!("{}{}", metadata.pypi_package, std::env::consts::EXE_SUFFIX));
    let mut module = Program::new("the wheel, as a module", PathBuf::from(&python));
    module.command.extend(["-m".into(), metadata.pypi_package.replace('-', "_").into()]);
    Ok(vec![
        executing_native(Program::new("the wheel", native.clone())),
        executing_native(Program::new("the wheel, by the name of the package", command)),
        executing_native(module),
    ])
}

/// Starts both commands of the wheel with `uvx` in an empty home, and checks that `bowline install` sees that it runs
/// from the cache of uv, which may be emptied: the entry of a host has to start `uvx`, too.
pub(super) fn check_uvx(metadata: &Metadata, uvx: &Path, wheel: &Path, folder: &Path) -> Result<()> {
    let started = |command: &str| {
        let mut program = Program::new("uvx", uvx);
        program.command.extend(["--quiet", "--offline", "--from"].map(OsString::from));
        program.command.extend([wheel.into(), command.into()]);
        let settings: [(&str, OsString); 3] = [
            ("UV_CACHE_DIR", folder.join("cache").into()),
            ("UV_NO_CONFIG", "1".into()),
            ("UV_PYTHON_DOWNLOADS", "never".into()),
        ];
        program.environment = settings.map(|(name, value)| (name.into(), value)).into();
        program
    };
    for command in ["bowline", &*metadata.pypi_package] {
        let output = started(command).run(&["--version"])?;
        ensure!(
            output.status.success() && output.stdout == format!("bowline {}\n", metadata.version),
            "`uvx {command} --version` ended with {} and printed {}{}",
            output.status,
            output.stdout,
            output.stderr
        );
    }
    let output = started("bowline").run(&["install", "claude-code", "--dry-run"])?;
    let words = ["--from", &*metadata.pypi_package, "bowline", "serve", "--stdio"];
    let entry = [r#""command": "uvx""#.to_owned(), format!(r#""args": {words:?}"#)];
    ensure!(
        output.status.success() && entry.iter().all(|line| output.stdout.contains(line)),
        "the program does not see that uvx started it: {}{}",
        output.stdout,
        output.stderr
    );
    eprintln!("uvx: ok");
    Ok(())
}
