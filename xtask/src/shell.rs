//! Runs other programs: what is printed, what is inherited, and how long they may take.

use std::{
    env,
    ffi::OsStr,
    fmt::Write as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// The features that the documentation of the workspace is built with: every public item has a page.
///
/// They do not name their package: cargo would take that for the name of a dependency, and the packages
/// that depend on themselves for their tests would be documented without the feature.
pub(crate) const DOC_FEATURES: &str = "full,schemars";

/// Returns the `cargo` of the toolchain that runs us, in the root of the checkout.
pub(crate) fn cargo(workspace: &Workspace) -> Command {
    cargo_plugin(workspace, env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns a program that runs that `cargo`, in the root of the checkout.
pub(crate) fn cargo_plugin(workspace: &Workspace, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace.root());
    // `cargo run` describes xtask in the environment. Build scripts that watch these names
    // would rebuild whenever one goes from a plain `cargo build` to `cargo xtask` and back.
    for (name, _) in env::vars_os() {
        let shown = name.to_string_lossy();
        if CARGO_RUN_PREFIXES.iter().any(|prefix| shown.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Returns what `cargo metadata` says of the packages of the workspace.
pub(crate) fn cargo_metadata(workspace: &Workspace) -> Result<serde_json::Value> {
    let mut command = cargo(workspace);
    command.args(["metadata", "--format-version", "1", "--no-deps"]);
    Ok(serde_json::from_str(&read(&mut command)?)?)
}

/// Builds a program of the workspace as the tests are built; returns its path.
///
/// By itself a package has fewer features of its dependencies than among all packages and their
/// tests, and all of them would be compiled again. The example makes it such a build.
pub(crate) fn build_program(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    run(cargo(workspace).args(["build", "--workspace", "--example", "ping", "--bin", name]))?;
    program_path(workspace, "debug", name)
}

/// Returns where cargo puts a program of the workspace. `folder`: that of the profile.
pub(crate) fn program_path(workspace: &Workspace, folder: &str, name: &str) -> Result<PathBuf> {
    let metadata = cargo_metadata(workspace)?;
    let target = metadata["target_directory"].as_str().context("cargo metadata names the target folder")?;
    Ok(Path::new(target).join(folder).join(format!("{name}{}", env::consts::EXE_SUFFIX)))
}

/// Returns the platform that cargo builds for by default.
pub(crate) fn host_triple(workspace: &Workspace) -> Result<String> {
    let printed = read(cargo(workspace).args(["--version", "--verbose"]))?;
    let host = printed.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("cargo --version --verbose names its host")?.to_owned())
}

/// Whether `program --version` can be run.
pub(crate) fn is_installed(program: impl AsRef<OsStr>) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Prints the command, runs it with our streams, and returns an error if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = describe(command);
    eprintln!("$ {shown}");
    let status = command.status().with_context(|| format!("could not start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Runs the command quietly and returns its stdout. A failure carries stderr.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let shown = describe(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("could not start `{shown}`"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` failed ({}): {}", output.status, stderr.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` did not print UTF-8"))
}

/// How a command with a time limit ended.
pub(crate) enum CommandEnd {
    Exited(ExitStatus),
    /// It ran out of time and was killed with its whole process group.
    Killed,
}

/// Runs a command in its own process group for at most `limit`.
///
/// An interrupt from the terminal does not reach that group, so the command should have
/// a time limit of its own below `limit`.
pub(crate) fn run_with_timeout(command: &mut Command, limit: Duration) -> Result<CommandEnd> {
    let shown = describe(command);
    own_group(command);
    let mut child =
        command.stdin(Stdio::null()).spawn().with_context(|| format!("could not start `{shown}`"))?;
    let group = child.id();
    let (done, wait) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| done.send(child.wait()));
        let ended = wait.recv_timeout(limit);
        // Also after a normal exit: nothing that the command started may outlive it.
        kill_group(group);
        match ended {
            Ok(status) => Ok(CommandEnd::Exited(status?)),
            Err(_) => Ok(CommandEnd::Killed),
        }
    })
}

/// Formats the command as it would be typed, with the variables set for it.
pub(crate) fn describe(command: &Command) -> String {
    let mut line = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let _ = write!(line, "{}={} ", name.to_string_lossy(), quote(value));
        }
    }
    line += &quote(command.get_program());
    for arg in command.get_args() {
        line.push(' ');
        line += &quote(arg);
    }
    line
}

fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(unix)]
pub(crate) fn own_group(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
}

#[cfg(unix)]
pub(crate) fn kill_group(group: u32) {
    use rustix::process::{Pid, Signal, kill_process_group};
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        // An error means that the group has already exited.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(not(unix))]
pub(crate) fn own_group(_command: &mut Command) {}

#[cfg(not(unix))]
pub(crate) fn kill_group(pid: u32) {
    let mut command = Command::new("taskkill");
    command.args(["/T", "/F", "/PID", &pid.to_string()]);
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

const CARGO_RUN_PREFIXES: &[&str] =
    &["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_described_command_can_be_pasted() {
        let mut command = Command::new("cargo");
        command.args(["nextest", "-E", "binary(/^interop_/)"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(describe(&command), "RUSTDOCFLAGS='-D warnings' cargo nextest -E 'binary(/^interop_/)'");
    }

    #[cfg(unix)]
    #[test]
    fn a_grandchild_that_holds_on_is_killed_at_the_limit() {
        use std::io::Read as _;
        let (mut output, input) = std::io::pipe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & sleep 60"]).stdout(input);
        let started = std::time::Instant::now();
        let ended = run_with_timeout(&mut command, Duration::from_millis(200)).unwrap();
        assert!(matches!(ended, CommandEnd::Killed));
        // The pipe ends when the last process that holds it has exited.
        drop(command);
        output.read_to_end(&mut Vec::new()).unwrap();
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[cfg(unix)]
    #[test]
    fn an_exit_within_the_limit_keeps_its_status() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        let CommandEnd::Exited(status) = run_with_timeout(&mut command, Duration::from_secs(30)).unwrap()
        else {
            panic!("it exits at once");
        };
        assert_eq!(status.code(), Some(3));
    }
}
