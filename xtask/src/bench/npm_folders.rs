//! Creates the folders of the npm packages as `npm install` creates them, with the program that is measured.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{
    dist::{metadata::Metadata, npm, target::Target},
    shell,
    workspace::Workspace,
};

/// Creates the packages in `folder`, which is emptied, and returns the path of the script that starts the program.
pub(super) fn create(workspace: &Workspace, program: &Path, folder: &Path) -> Result<PathBuf> {
    let metadata = Metadata::read(workspace)?;
    let target = Target::parse(&shell::host_triple(workspace)?)?;
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    let modules = folder.join("node_modules");
    let launcher = modules.join(&metadata.npm_package);
    write_manifest(&launcher, &npm::launcher_manifest(&metadata))?;
    let script = launcher.join("bin/bowline.js");
    fs::copy(workspace.root().join("xtask/data/dist/bowline.js"), &script)
        .context("copying the script of the npm package")?;
    let platform = modules.join(npm::platform_package(&metadata, &target));
    write_manifest(&platform, &npm::platform_manifest(&metadata, &target))?;
    let installed = platform.join("bin").join(target.program_name());
    fs::hard_link(program, &installed)
        .or_else(|_| fs::copy(program, &installed).map(drop))
        .with_context(|| format!("copying {}", workspace.show(program)))?;
    Ok(script)
}

/// Writes the manifest of a package into its folder, which it creates with a folder for programs.
fn write_manifest(package: &Path, manifest: &Value) -> Result<()> {
    fs::create_dir_all(package.join("bin"))?;
    let text = serde_json::to_vec_pretty(manifest)?;
    fs::write(package.join("package.json"), text).context("writing the manifest of an npm package")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_finds_the_program_beside_its_package() {
        let workspace = Workspace::find().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, "the program").unwrap();
        let script = create(&workspace, &program, &folder.path().join("npm")).unwrap();
        let modules = folder.path().join("npm/node_modules");
        assert_eq!(script, modules.join("bowline/bin/bowline.js"));
        let manifest: Value =
            serde_json::from_slice(&fs::read(modules.join("bowline/package.json")).unwrap()).unwrap();
        let packages = manifest["optionalDependencies"].as_object().unwrap();
        let programs = packages.keys().map(|name| modules.join(name).join("bin"));
        let found: Vec<_> = programs.filter(|folder| folder.is_dir()).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        let installed = fs::read_dir(&found[0]).unwrap().next().unwrap().unwrap().path();
        assert_eq!(fs::read(installed).unwrap(), b"the program");
    }
}
