//! Finds the file that a command means, and the interpreter of a script, without starting anything.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use bowline_proto::fault::Fault;
use which::which_in;

use super::program::Program;
use super::{environment, resolve_working_dir};

/// The file that a command means.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramLocation {
    /// Path of the executable file.
    pub file: PathBuf,
    /// The program that runs it, if it is a script.
    pub interpreter: Option<Interpreter>,
}

/// The program that a script names in its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interpreter {
    /// As the script names it: a path, or a name that `env` searches for. Untrusted.
    pub name: String,
    /// Path of its file; `None` if it was not found.
    pub file: Option<PathBuf>,
    /// Whether the first line ends as on Windows, which keeps the script from being started: the
    /// system takes the carriage return for the end of a name or of an argument.
    pub has_windows_line_end: bool,
}

/// How the note of a fault ends if a script was not started because of its
/// [line end](Interpreter::has_windows_line_end).
pub const WINDOWS_LINE_END: &str = "its first line has a Windows line end (CR LF)";

/// Finds the program of a server the way [`spawn`](super::spawn) does: on the PATH of the
/// environment that the server would have, then on that of the login shell.
///
/// May query the login shell, once in the life of this program and for at most three seconds.
pub async fn locate(stdio: &bowline_config::Program) -> Result<ProgramLocation, Fault> {
    let cwd = resolve_working_dir(stdio)?;
    let configured = stdio.env.iter().find(|(name, _)| environment::normalize_name(name.as_ref()) == "PATH");
    let path = match configured {
        Some((_, path)) => Some(path.expose().into()),
        None => environment::filter_inherited(env::vars_os()).remove(OsStr::new("PATH")),
    };
    let program = Program::find(&stdio.command, path, &cwd).await?;
    let first_line = read_first_line(&program.file);
    let interpreter = first_line.as_deref().and_then(|line| {
        let name = interpreter_name(line)?;
        let file = which_in(&name, program.path.as_ref(), &cwd).ok();
        Some(Interpreter { name, file, has_windows_line_end: has_windows_line_end(line) })
    });
    Ok(ProgramLocation { file: program.file, interpreter })
}

/// Reads the first line of a script, without `#!` and the line feed. `None` if the file is none.
pub(super) fn read_first_line(file: &Path) -> Option<String> {
    let mut head = Vec::new();
    File::open(file).ok()?.take(MAX_FIRST_LINE).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).into_owned())
}

/// Whether a first line has a carriage return at its end. With an option such as `-S`, `env` splits
/// what follows itself, and takes it for a space.
pub(super) fn has_windows_line_end(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let splits_itself =
        words.next().is_some_and(is_env) && words.next().is_some_and(|it| it.starts_with('-'));
    line.ends_with('\r') && !splits_itself
}

/// Returns the program that a first line names: itself, or what it has `env` search for.
fn interpreter_name(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let program = words.next()?;
    if !is_env(program) {
        return Some(program.to_owned());
    }
    // Options of `env` and variables that it sets come before the name.
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='));
    Some(name.unwrap_or(program).to_owned())
}

fn is_env(program: &str) -> bool {
    Path::new(program).file_name() == Some(OsStr::new("env"))
}

/// How many bytes the first line may have. Linux reads 256.
const MAX_FIRST_LINE: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreter_of_a_first_line() {
        for (line, name) in [
            ("/bin/sh", "/bin/sh"),
            ("/usr/bin/python3 -u", "/usr/bin/python3"),
            ("/usr/bin/env node", "node"),
            ("/usr/bin/env -S NODE_ENV=production deno run", "deno"),
            ("/usr/bin/env", "/usr/bin/env"),
        ] {
            assert_eq!(interpreter_name(line).as_deref(), Some(name), "{line}");
        }
        assert_eq!(interpreter_name(""), None);
    }

    #[test]
    fn line_end_of_a_first_line() {
        for (line, is_windows) in [
            ("/bin/sh", false),
            ("/bin/sh\r", true),
            ("/usr/bin/python3 -u\r", true),
            ("/usr/bin/env node\r", true),
            ("/usr/bin/env -S node\r", false),
            ("\r", true),
            ("", false),
        ] {
            assert_eq!(has_windows_line_end(line), is_windows, "{line:?}");
        }
        assert_eq!(interpreter_name("/usr/bin/env node\r").as_deref(), Some("node"));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn missing_interpreter_of_a_script_is_named() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server");
        std::fs::write(&file, "#!/usr/bin/env no-such-interpreter\n").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        let server = bowline_config::Server::stdio("s", file.display().to_string()).build().unwrap();
        let found = locate(server.transport.program().unwrap()).await.unwrap();
        let interpreter =
            Interpreter { name: "no-such-interpreter".to_owned(), file: None, has_windows_line_end: false };
        assert_eq!(found, ProgramLocation { file, interpreter: Some(interpreter) });
    }
}
