//! Makes the npm packages: one for each platform, which carries the program, and one that depends on
//! all of them and starts the program of the platform that it is on.
//!
//! npm installs only the optional dependencies that fit the platform, so nothing is downloaded by a
//! script. Each platform package has the command `bowline` itself. Where npm puts both packages into
//! one folder, as `npx` does, it links the command of the package whose name sorts first, and the
//! scope sorts before the name: the command is then the program, without Node in between.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::{archive::FileSet, contents::Contents, metadata::Metadata, target::Target};

/// Returns the file name of the package that starts the program, as `npm pack` would call it.
pub(crate) fn launcher_file_name(metadata: &Metadata) -> String {
    format!("{}-{}.tgz", metadata.npm_package, metadata.version)
}

/// Returns the file name of a platform's package, as `npm pack` would call it.
pub(crate) fn platform_file_name(metadata: &Metadata, target: &Target) -> String {
    let scope = metadata.npm_scope.trim_start_matches('@');
    format!("{scope}-{}-{}.tgz", target.npm_name(), metadata.version)
}

/// Returns the name of a platform's package.
pub(crate) fn platform_package(metadata: &Metadata, target: &Target) -> String {
    format!("{}/{}", metadata.npm_scope, target.npm_name())
}

/// Builds the package that starts the program. It is the same on each platform.
pub(crate) fn build_launcher(metadata: &Metadata, contents: &Contents, time: u64) -> Result<Vec<u8>> {
    let mut files = FileSet::default();
    files.add("package/package.json", to_json(&launcher_manifest(metadata))?);
    files.add_program("package/bin/bowline.js", LAUNCHER.as_bytes());
    files.add("package/README.md", &contents.readme);
    contents.add_licenses(&mut files, "package/");
    files.to_tar_gz(time)
}

/// Builds the package that carries the program of a platform.
pub(crate) fn build_platform(
    metadata: &Metadata,
    target: &Target,
    contents: &Contents,
    time: u64,
) -> Result<Vec<u8>> {
    let mut files = FileSet::default();
    files.add("package/package.json", to_json(&platform_manifest(metadata, target))?);
    files.add_program(format!("package/bin/{}", target.program_name()), &contents.program);
    let readme = format!(
        "# {}\n\nThe program of [{}]({}) for {target}. Install `{}`, which selects it.\n",
        platform_package(metadata, target),
        metadata.npm_package,
        metadata.homepage,
        metadata.npm_package
    );
    files.add("package/README.md", readme.into_bytes());
    files.add("package/bowline.cdx.json", &contents.sbom);
    contents.add_licenses(&mut files, "package/");
    files.to_tar_gz(time)
}

pub(crate) fn launcher_manifest(metadata: &Metadata) -> Value {
    let platforms: Map<String, Value> = metadata
        .targets
        .iter()
        .map(|target| (platform_package(metadata, target), json!(metadata.version)))
        .collect();
    json!({
        "name": metadata.npm_package,
        "version": metadata.version,
        "description": metadata.summary,
        "homepage": metadata.homepage,
        "license": metadata.license,
        "bin": { "bowline": "bin/bowline.js" },
        "engines": { "node": ">=18" },
        "optionalDependencies": platforms,
    })
}

pub(crate) fn platform_manifest(metadata: &Metadata, target: &Target) -> Value {
    let mut manifest = json!({
        "name": platform_package(metadata, target),
        "version": metadata.version,
        "description": format!("{} ({target})", metadata.summary),
        "homepage": metadata.homepage,
        "license": metadata.license,
        "bin": { "bowline": format!("bin/{}", target.program_name()) },
        "os": [target.npm_os()],
        "cpu": [target.npm_cpu()],
        // A program cannot be started from inside an archive.
        "preferUnplugged": true,
    });
    if let Some(libc) = target.npm_libc() {
        manifest["libc"] = json!([libc]);
    }
    manifest
}

fn to_json(value: &Value) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}

/// The script that starts the program; it reads the names of the platforms' packages from its own
/// `package.json`.
const LAUNCHER: &str = include_str!("../../data/dist/bowline.js");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    #[test]
    fn the_launcher_depends_on_each_platform_in_exactly_its_version() {
        let manifest = launcher_manifest(&Metadata::example());
        assert_eq!(
            manifest["optionalDependencies"],
            json!({
                "@knot/darwin-arm64": "1.2.3",
                "@knot/linux-x64": "1.2.3",
                "@knot/linux-x64-musl": "1.2.3",
                "@knot/win32-x64": "1.2.3",
            })
        );
        assert!(manifest.get("scripts").is_none(), "nothing runs at installation");
    }

    #[test]
    fn a_platform_package_is_installed_on_its_platform_alone() {
        let metadata = Metadata::example();
        let [mac, windows, gnu, _] = &metadata.targets[..] else { panic!("four targets") };
        let manifest = platform_manifest(&metadata, gnu);
        assert_eq!(manifest["os"], json!(["linux"]));
        assert_eq!(manifest["cpu"], json!(["x64"]));
        assert_eq!(manifest["libc"], json!(["glibc"]));
        assert_eq!(manifest["bin"], json!({ "bowline": "bin/bowline" }));
        assert_eq!(platform_manifest(&metadata, mac).get("libc"), None);
        assert_eq!(platform_manifest(&metadata, windows)["bin"], json!({ "bowline": "bin/bowline.exe" }));
        assert_eq!(platform_file_name(&metadata, gnu), "knot-linux-x64-1.2.3.tgz");
    }

    #[test]
    fn platform_packages_sort_before_the_launcher() {
        let metadata = Metadata::read(&Workspace::find().unwrap()).unwrap();
        for target in &metadata.targets {
            assert!(platform_package(&metadata, target) < metadata.npm_package, "{target}");
        }
    }
}
