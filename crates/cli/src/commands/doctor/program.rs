//! The check `program`: whether a command can be found and started, and which version runs it.

use std::path::Path;
use std::time::Instant;

use bowline::config::Program;
use bowline::{Cause, Fault, SpawnError};
use bowline_settings::shell_quote;
use bowline_transport::process::{ProgramLocation, WINDOWS_LINE_END, locate};

use super::check::{Blame, CheckLog, Finding};
use super::interpreter::Versions;
use super::subject::Subject;
use crate::exit::Exit;
use crate::failure::UNIX_LINE_ENDS;

/// Looks for the program, without starting it; only an interpreter or a launcher is asked for its version. Returns
/// whether it was found.
pub(super) async fn check(program: &Program, subject: &Subject<'_>, log: &CheckLog) -> bool {
    let begun = Instant::now();
    let found = locate(program).await;
    let mut finding = finding(program, found.as_ref(), subject);
    if let (Ok(location), false) = (&found, finding.is_failed()) {
        finding.seen = describe(location, &Versions::query(program, location).await);
    }
    log.add("program", begun, finding)
}

/// Describes a program that can be started: `/usr/bin/npx (10.8.1), a script for /usr/bin/node (v22.3.0)`.
fn describe(location: &ProgramLocation, versions: &Versions) -> String {
    let with_version = |file: &Path, version: Option<&str>| match version {
        Some(version) => format!("{} ({version})", file.display()),
        None => file.display().to_string(),
    };
    let command = with_version(&location.file, versions.command.as_deref());
    match location.interpreter.as_ref().and_then(|it| it.file.as_deref()) {
        Some(file) => {
            format!("{command}, a script for {}", with_version(file, versions.interpreter.as_deref()))
        }
        None => command,
    }
}

fn finding(program: &Program, found: Result<&ProgramLocation, &Fault>, subject: &Subject<'_>) -> Finding {
    let command = &program.command;
    match found {
        Ok(found) => match &found.interpreter {
            Some(interpreter) if interpreter.has_windows_line_end => {
                let file = found.file.display().to_string();
                let strip = format!(r"perl -pi -e 's/\r$//' {}", shell_quote(&file));
                let seen = format!("{file} cannot be started: {WINDOWS_LINE_END}");
                Finding::failed(Blame::Machine, Exit::Connection, seen).fix(UNIX_LINE_ENDS).run(strip)
            }
            Some(interpreter) if interpreter.file.is_none() => {
                let file = found.file.display();
                let seen = format!("{file} is a script for `{}`, which was not found", interpreter.name);
                Finding::failed(Blame::Machine, Exit::Connection, seen)
                    .fix(install_advice(&interpreter.name))
                    .run(install_command(&interpreter.name))
            }
            _ => Finding::ok(describe(found, &Versions::default())),
        },
        Err(fault) => {
            let seen = fault.to_string();
            match fault.cause {
                Cause::Spawn(SpawnError::Denied) => {
                    let is_path = Path::new(command).components().count() > 1;
                    let chmod = is_path.then(|| format!("chmod +x {}", shell_quote(command)));
                    Finding::failed(Blame::Machine, Exit::Connection, seen)
                        .fix("mark it as executable, if it is a program")
                        .run(chmod)
                }
                Cause::Spawn(SpawnError::NotFound) if is_command_line(command) => {
                    Finding::failed(Blame::You, Exit::Connection, seen)
                        .fix("`command` is the program alone: write what follows it into `args`")
                        .run(subject.edit_command())
                }
                Cause::Spawn(SpawnError::NotFound) => Finding::failed(Blame::Machine, Exit::Connection, seen)
                    .fix(install_advice(command))
                    .run(install_command(command)),
                _ => Finding::failed(Blame::You, Exit::Connection, seen)
                    .fix("correct `cwd` and `command` in its entry")
                    .run(subject.edit_command()),
            }
        }
    }
}

/// Whether a command has its arguments in it.
fn is_command_line(command: &str) -> bool {
    command.contains(' ') && !command.contains(['/', '\\'])
}

fn install_advice(program: &str) -> String {
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program);
    match name {
        "npx" | "npm" | "node" => "install Node.js (https://nodejs.org)".to_owned(),
        "uvx" | "uv" => "install uv (https://docs.astral.sh/uv)".to_owned(),
        "docker" => "install Docker (https://docs.docker.com/get-started/get-docker)".to_owned(),
        _ => format!("install `{name}`, or write its full path"),
    }
}

/// Returns a command that installs the program, where one works on every system.
fn install_command(program: &str) -> Option<String> {
    let name = Path::new(program).file_name().and_then(|name| name.to_str())?;
    let is_unix_uv = cfg!(unix) && matches!(name, "uvx" | "uv");
    is_unix_uv.then(|| "curl -LsSf https://astral.sh/uv/install.sh | sh".to_owned())
}

#[cfg(test)]
mod tests {
    use bowline::Server;

    use super::*;
    use crate::commands::doctor::check::Remedy;
    use crate::commands::doctor::subject::tests::with_subject;

    fn of(command: &str, cause: SpawnError) -> Finding {
        let server = Server::stdio("s", command).build().unwrap();
        let program = server.transport.program().unwrap();
        let fault = Fault::before_sending(Cause::Spawn(cause));
        with_subject(&server, |subject| finding(program, Err(&fault), subject))
    }

    #[test]
    fn what_fixes_a_missing_program_depends_on_it() {
        let remedy =
            |finding: Finding| finding.remedy.map(|Remedy { text, command }| (text, command)).unwrap();
        let (text, command) = remedy(of("uvx", SpawnError::NotFound));
        assert_eq!(text, "install uv (https://docs.astral.sh/uv)");
        assert_eq!(command.is_some(), cfg!(unix));
        assert_eq!(remedy(of("npx", SpawnError::NotFound)).0, "install Node.js (https://nodejs.org)");
        let line = of("npx -y server", SpawnError::NotFound);
        assert_eq!((line.blame, remedy(line).1), (Some(Blame::You), Some("bowline edit".to_owned())));
        assert_eq!(remedy(of("/a b/s", SpawnError::Denied)).1.as_deref(), Some("chmod +x '/a b/s'"));
        assert_eq!(remedy(of("s", SpawnError::Denied)).1, None);
    }
}
