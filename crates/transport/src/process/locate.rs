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
}

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
    let interpreter = read_first_line(&program.file).and_then(|line| interpreter_name(&line));
    let interpreter = interpreter.map(|name| {
        let file = which_in(&name, program.path.as_ref(), &cwd).ok();
        Interpreter { name, file }
    });
    Ok(ProgramLocation { file: program.file, interpreter })
}

/// Reads the first line of a script, without `#!`. `None` if the file is none.
fn read_first_line(file: &Path) -> Option<String> {
    let mut head = Vec::new();
    File::open(file).ok()?.take(MAX_FIRST_LINE).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).trim().to_owned())
}

/// Returns the program that a first line names: itself, or what it has `env` search for.
fn interpreter_name(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let program = words.next()?;
    if Path::new(program).file_name() != Some(OsStr::new("env")) {
        return Some(program.to_owned());
    }
    // Options of `env` and variables that it sets come before the name.
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='));
    Some(name.unwrap_or(program).to_owned())
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
        let interpreter = Interpreter { name: "no-such-interpreter".to_owned(), file: None };
        assert_eq!(found, ProgramLocation { file, interpreter: Some(interpreter) });
    }
}
