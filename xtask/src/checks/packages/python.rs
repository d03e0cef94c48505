//! Installs the wheel into an empty environment.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

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
