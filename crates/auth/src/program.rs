//! Runs a command that prints credentials, and decides what its errors show.

use std::time::Duration;

use bowline_config::Program;
use bowline_transport::process::{self, OneShot};

use crate::error::{AuthError, AuthErrorKind, sanitize};

/// How many bytes the command may print. More is an error, since half a token is useless.
const MAX_OUTPUT: usize = 64 * 1024;

/// Runs a command and returns its output, which is treated as a secret: no error contains it.
///
/// Dropping the future kills the command with its process group; so does the timeout.
pub(crate) async fn run(program: &Program, timeout: Duration) -> Result<Vec<u8>, AuthError> {
    let name = process::program_name(&program.command).to_string_lossy().into_owned();
    let command = OneShot {
        program: &program.command,
        args: &program.args,
        env: &program.env,
        extra_env: &[],
        cwd: program.cwd.as_deref(),
        stdin_text: None,
        timeout,
        // One byte more than allowed, to detect excess.
        max_stdout: MAX_OUTPUT + 1,
    };
    let ran = command.run().await.map_err(|error| {
        AuthError::new(AuthErrorKind::Setup, format!("{name} could not be started: {error}"))
            .hint("check the command in the configuration: a full path always works")
    })?;
    let Some(exit) = ran.exit else {
        let seconds = timeout.as_secs_f32();
        return Err(unavailable(format!("{name} took longer than {seconds} s and was ended")));
    };
    if !exit.success() {
        let complaint = sanitize(&String::from_utf8_lossy(&ran.stderr));
        let sep = if complaint.is_empty() { "" } else { ": " };
        return Err(unavailable(format!("{name} failed ({exit}){sep}{complaint}")));
    }
    if ran.stdout.len() > MAX_OUTPUT {
        return Err(unavailable(format!("{name} printed more than {} KiB", MAX_OUTPUT / 1024)));
    }
    Ok(ran.stdout)
}

fn unavailable(what: String) -> AuthError {
    AuthError::new(AuthErrorKind::Unavailable, what)
}

#[cfg(all(test, unix))]
mod tests {
    use bowline_testkit::with;
    use std::env;
    use std::time::Instant;

    use bowline_config::Secret;

    use super::*;

    fn sh(script: &str) -> Program {
        let env = [("GIVEN".to_owned(), Secret::new("here"))].into();
        with!(Program::new("sh", ["-c", script]), env: env)
    }

    #[tokio::test]
    async fn gives_what_was_printed() {
        let printed = run(&sh("printf \"$GIVEN\""), Duration::from_secs(10)).await.unwrap();
        assert_eq!(printed, b"here");
    }

    #[tokio::test]
    async fn the_environment_is_not_passed_on() {
        // Cargo sets this for every test; commands must not inherit such variables.
        assert!(env::var_os("CARGO_MANIFEST_DIR").is_some());
        let printed =
            run(&sh("printf \"${CARGO_MANIFEST_DIR-none}\""), Duration::from_secs(10)).await.unwrap();
        assert_eq!(printed, b"none");
    }

    #[tokio::test]
    async fn a_failure_tells_what_was_complained_about_and_not_what_was_printed() {
        let error =
            run(&sh("echo s3cret; echo 'no\tkey' >&2; exit 3"), Duration::from_secs(10)).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Unavailable);
        assert!(error.what.contains("no key") && error.what.contains('3'), "{error}");
        assert!(!format!("{error:?}").contains("s3cret"));
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_ended_with_what_it_started() {
        let begun = Instant::now();
        let error = run(&sh("sleep 100 & wait"), Duration::from_millis(200)).await.unwrap_err();
        assert!(error.what.contains("took longer"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[tokio::test]
    async fn too_much_output_is_an_error() {
        let error = run(&sh("head -c 70000 /dev/zero"), Duration::from_secs(10)).await.unwrap_err();
        assert!(error.what.contains("more than"), "{error}");
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_a_matter_of_setup() {
        let program = Program::new("/nowhere/token", [""; 0]);
        let error = run(&program, Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Setup);
        assert!(error.what.starts_with("token could not be started"), "{error}");
    }
}
