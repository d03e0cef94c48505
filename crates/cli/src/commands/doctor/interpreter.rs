//! Which version of an interpreter or launcher a server is started with, such as node, python3 or uvx.

use std::path::Path;
use std::time::Duration;

use bowline::config::Program;
use bowline_transport::process::{OneShot, ProgramLocation};

/// The versions of what runs a server.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// Of the command itself, if it is an interpreter or a launcher.
    pub(super) command: Option<String>,
    /// Of the interpreter of a script.
    pub(super) interpreter: Option<String>,
}

/// Programs that are known to print their version with `--version` and to do nothing else. No other program is run: it
/// may be the server itself, which would start. The shims of yarn and pnpm may download what they print the version of.
const KNOWN: [&str; 13] =
    ["bun", "bunx", "deno", "docker", "dotnet", "node", "npm", "npx", "pipx", "pypy3", "ruby", "uv", "uvx"];

/// How long a program may take to print its version. Launchers that are scripts take half a second.
const VERSION_TIMEOUT: Duration = Duration::from_secs(3);
/// How many bytes of its output are kept.
const MAX_OUTPUT: usize = 256;
/// How many characters of a version are shown.
const MAX_VERSION_CHARS: usize = 60;

impl Versions {
    /// Runs what starts a server with `--version`, with the environment and in the folder of the server. Only for an
    /// entry whose command will be started anyway.
    ///
    /// Dropping the future kills what it started.
    pub(super) async fn query(program: &Program, location: &ProgramLocation) -> Self {
        let interpreter = location.interpreter.as_ref().and_then(|it| it.file.as_deref());
        let of = async |file: Option<&Path>| match file.filter(|file| is_known(file)) {
            Some(file) => query_version(program, file).await,
            None => None,
        };
        let (command, interpreter) = tokio::join!(of(Some(&location.file)), of(interpreter));
        Self { command, interpreter }
    }
}

/// Whether a file has the name of a program that prints its version.
fn is_known(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = [".exe", ".cmd", ".bat"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    // Such as `python`, `python3` and `python3.12`.
    let is_python = name
        .strip_prefix("python")
        .is_some_and(|version| version.chars().all(|digit| digit.is_ascii_digit() || digit == '.'));
    is_python || KNOWN.contains(&name)
}

async fn query_version(program: &Program, file: &Path) -> Option<String> {
    let run = OneShot {
        program: file.to_str()?,
        args: &["--version".to_owned()],
        env: &program.env,
        extra_env: &[],
        cwd: program.cwd.as_deref(),
        stdin_text: None,
        timeout: VERSION_TIMEOUT,
        max_stdout: MAX_OUTPUT,
    };
    let output = run.run().await.ok()?;
    output.exit.filter(std::process::ExitStatus::success)?;
    first_line(&output.stdout)
}

/// Returns the beginning of the first line with text in it.
fn first_line(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(MAX_VERSION_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_interpreters_and_launchers_are_known() {
        for name in ["node", "/usr/bin/python3.12", "python", "uvx", "npx", "node.exe", "npx.cmd"] {
            assert!(is_known(Path::new(name)), "{name}");
        }
        for name in ["server", "python-server", "python3-config", "nodemon", "sh", "", "/opt/node/server"] {
            assert!(!is_known(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn version_is_the_first_line_with_text() {
        assert_eq!(first_line(b"\n  v22.1.0 \nmore\n").as_deref(), Some("v22.1.0"));
        assert_eq!(first_line(b" \n"), None);
        assert_eq!(first_line(&[b'x'; 200]).unwrap().len(), MAX_VERSION_CHARS);
    }
}
