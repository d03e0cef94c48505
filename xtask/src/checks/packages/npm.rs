//! Installs the npm packages in the ways that users do.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::{program::Program, server::Server};
use crate::{
    dist::{metadata::Metadata, npm::platform_package, target::Target},
    shell,
};

/// Returns the ways to start the program. `node` is one that can become another program.
pub(super) fn install(
    metadata: &Metadata,
    target: &Target,
    server: &Server,
    node: &Path,
    folder: &Path,
) -> Result<Vec<Program>> {
    fs::create_dir_all(folder)?;
    let npm = Npm { registry: server.registry_url(), folder };
    let package = format!("{}@{}", metadata.npm_package, metadata.version);

    let launcher = npm.install_globally("global", &package)?;
    let without_platform = npm.install_without_optional("project", &package)?;
    check_missing_platform(metadata, target, node, &without_platform)?;
    check_unknown_platform(node, &launcher, folder)?;

    let without_execve = folder.join("without-execve.js");
    fs::write(&without_execve, "process.execve = undefined;\n")?;
    let root = launcher.ancestors().nth(2).context("the script is in a folder of its package")?;
    let scope = root.join("node_modules").join(&metadata.npm_scope);
    let platforms: Vec<OsString> =
        fs::read_dir(&scope)?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
    ensure!(platforms == [target.npm_name().as_str()], "npm installed the platforms {platforms:?}");
    let native = scope.join(target.npm_name()).join("bin").join(target.program_name());
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    install_other_libc(&native)?;
    let with_node = |label: &str, options: &[&Path], executed_file: Option<PathBuf>| {
        let mut program = Program::new(label, node);
        program.command.extend(options.iter().map(OsString::from));
        program.command.push(launcher.clone().into());
        program.executed_file = executed_file;
        program
    };
    let mut programs = vec![
        with_node("npm, where Node becomes the program", &[], cfg!(unix).then_some(native)),
        with_node("npm, where Node starts the program", &[Path::new("--require"), &without_execve], None),
    ];

    // It installs into its cache at the first start, and links the command of either package there.
    let npx = Program {
        label: "npx".to_owned(),
        command: [if cfg!(windows) { "npx.cmd" } else { "npx" }, "--yes", &package]
            .map(OsString::from)
            .into(),
        environment: npm.environment("npx"),
        executed_file: None,
        forwards_signals: false,
    };
    npx.run(&["--version"])?;
    let linked = find_npx_command(&folder.join("npx/cache"))?;
    let resolved = linked.canonicalize()?;
    if cfg!(unix) {
        let platform = platform_package(metadata, target);
        ensure!(
            resolved.ends_with(Path::new(&platform).join("bin").join(target.program_name())),
            "npx starts {}, not the program of {platform}",
            resolved.display()
        );
        let mut linked_program = Program::new("the command that npx links", linked);
        linked_program.executed_file = Some(resolved);
        programs.push(linked_program);
    }
    programs.push(npx);
    Ok(programs)
}

/// npm with one registry and folders of its own.
struct Npm<'a> {
    registry: String,
    folder: &'a Path,
}

impl Npm<'_> {
    fn environment(&self, name: &str) -> Vec<(OsString, OsString)> {
        let folder = self.folder.join(name);
        let settings: [(&str, OsString); 9] = [
            ("registry", self.registry.clone().into()),
            ("noproxy", "127.0.0.1".into()),
            ("cache", folder.join("cache").into()),
            ("prefix", folder.join("prefix").into()),
            ("userconfig", folder.join("npmrc").into()),
            ("globalconfig", folder.join("global-npmrc").into()),
            ("audit", "false".into()),
            ("fund", "false".into()),
            ("update_notifier", "false".into()),
        ];
        settings.map(|(name, value)| (format!("npm_config_{name}").into(), value)).into()
    }

    /// Installs a package into an empty prefix; returns the script that starts the program.
    fn install_globally(&self, name: &str, package: &str) -> Result<PathBuf> {
        let modules = if cfg!(windows) { "prefix/node_modules" } else { "prefix/lib/node_modules" };
        self.install(name, package, &["--global"], modules)
    }

    /// Installs a package into an empty project, without the packages of platforms; returns the
    /// script that starts the program. A global installation does not heed the option.
    fn install_without_optional(&self, name: &str, package: &str) -> Result<PathBuf> {
        self.install(name, package, &["--omit=optional"], "node_modules")
    }

    fn install(&self, name: &str, package: &str, options: &[&str], modules: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("package.json"), "{}")?;
        let mut npm = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
        npm.args(["install", "--loglevel=error"]).args(options).arg(package);
        // Options of an npm that runs us are not for this one.
        for (variable, _) in env::vars_os() {
            if variable.to_string_lossy().to_lowercase().starts_with("npm_config_") {
                npm.env_remove(variable);
            }
        }
        npm.envs(self.environment(name)).current_dir(&folder);
        shell::read(&mut npm).context("npm could not install the packages")?;
        let (package, _) = package.rsplit_once('@').context("a package with a version")?;
        let script = folder.join(modules).join(package).join("bin/bowline.js");
        ensure!(script.is_file(), "npm did not install {}", script.display());
        Ok(script)
    }
}

/// Checks what is said where the package of the platform was not installed.
fn check_missing_platform(metadata: &Metadata, target: &Target, node: &Path, launcher: &Path) -> Result<()> {
    let mut program = Program::new("npm without optional packages", node);
    program.command.push(launcher.into());
    let output = program.run(&["--version"])?;
    let platform = platform_package(metadata, target);
    ensure!(output.status.code() == Some(1), "without {platform} it ended with {}", output.status);
    for part in [format!("the package {platform}"), "--omit=optional".to_owned()] {
        ensure!(output.stderr.contains(&part), "it did not say `{part}`:\n{}", output.stderr);
    }
    Ok(())
}

/// Checks what is said on a platform that has no package.
fn check_unknown_platform(node: &Path, launcher: &Path, folder: &Path) -> Result<()> {
    let script = folder.join("unknown-platform.js");
    fs::write(&script, "Object.defineProperty(process, 'platform', { value: 'sunos' });\n")?;
    let mut program = Program::new("npm on an unknown platform", node);
    program.command.extend(["--require".into(), script.into(), launcher.into()]);
    let output = program.run(&["--version"])?;
    ensure!(output.status.code() == Some(1), "on an unknown platform it ended with {}", output.status);
    ensure!(output.stderr.contains("there is no package for sunos-"), "it printed {}", output.stderr);
    Ok(())
}

/// Puts a package for musl beside the one for glibc, as package managers do that know no difference;
/// its program does not start.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn install_other_libc(native: &Path) -> Result<()> {
    let package = native.ancestors().nth(2).context("the program is in a folder of its package")?;
    let name = package.file_name().context("a package has a name")?.to_string_lossy();
    let folder = package.with_file_name(format!("{name}-musl")).join("bin");
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join("bowline"), "not a program")?)
}

/// Returns the command that npx linked in its cache.
fn find_npx_command(cache: &Path) -> Result<PathBuf> {
    let folder = cache.join("_npx");
    let mut entries = fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    let entry = entries.next().context("npx installed nothing")??;
    Ok(entry.path().join("node_modules/.bin/bowline"))
}
