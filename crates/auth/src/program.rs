//! Owns how a program that proves who we are is run: for a limited time, with a limited output, and with nothing of
//! our environment that was not meant for it.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bowline_config::Program;
#[cfg(unix)]
use bowline_transport::process;
use bowline_transport::process::INHERITED;
use process_wrap::tokio::{ChildWrapper, CommandWrap};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use crate::error::{AuthError, AuthErrorKind, said};

/// The most that a program may print. More is an error: half a token is none.
const STDOUT: usize = 64 * 1024;
/// How much of what it complains about is kept.
const STDERR: usize = 4096;
/// How long output is waited for after the program ended: what it left running may hold on to it.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Runs a program and gives what it printed. What it prints is taken for a secret: it is in no error.
///
/// Dropping the future kills the program, and everything in its process group. So does the limit.
pub(crate) async fn run(program: &Program, limit: Duration) -> Result<Vec<u8>, AuthError> {
    let name = shown(&program.command);
    let started = Group::start(command(program));
    let mut group = started.map_err(|error| {
        AuthError::new(AuthErrorKind::Setup, format!("{name} could not be started: {error}"))
            .hint("check the command in the configuration: a full path always works")
    })?;
    let child = group.child.as_mut();
    let (stdout, stderr) = (child.stdout().take(), child.stderr().take());
    // One byte more than may be, to tell what is too much.
    let (out, err) = (Head::new(STDOUT + 1), Head::new(STDERR));
    let mut pumps = pin!(async {
        tokio::join!(out.fill(stdout), err.fill(stderr));
    });
    let mut pumping = true;
    let ended = timeout(limit, async {
        loop {
            tokio::select! {
                // The leader's end is the end; the wrapper would wait for the whole group.
                exit = group.child.inner_mut().wait() => return exit,
                () = &mut pumps, if pumping => pumping = false,
            }
        }
    })
    .await;
    let Ok(exit) = ended else {
        group.kill().await;
        let seconds = limit.as_secs_f32();
        return Err(unavailable(format!("{name} took longer than {seconds} s and was ended")));
    };
    group.over();
    if pumping {
        let _ = timeout(LAST_WORDS, pumps).await;
    }
    let exit = exit.map_err(|error| unavailable(format!("{name} could not be waited for: {error}")))?;
    if !exit.success() {
        let complaint = said(&String::from_utf8_lossy(&err.take()));
        let sep = if complaint.is_empty() { "" } else { ": " };
        return Err(unavailable(format!("{name} failed ({exit}){sep}{complaint}")));
    }
    let printed = out.take();
    if printed.len() > STDOUT {
        return Err(unavailable(format!("{name} printed more than {STDOUT} bytes")));
    }
    Ok(printed)
}

fn unavailable(what: String) -> AuthError {
    AuthError::new(AuthErrorKind::Unavailable, what)
}

fn command(program: &Program) -> Command {
    let Program { command, args, env, cwd } = program;
    let mut command = Command::new(command);
    command.args(args).env_clear();
    command.envs(env::vars_os().filter(|(name, _)| is_inherited(name)));
    command.envs(env.iter().map(|(name, value)| (name, value.expose())));
    if let Some(cwd) = cwd {
        command.current_dir(cwd);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A started program and its group. Dropped before it is over, it kills them; if we are killed first, the watchdog
/// does.
struct Group {
    child: Box<dyn ChildWrapper>,
    over: bool,
    #[cfg(unix)]
    watched: Option<process::Watched>,
}

impl Group {
    fn start(#[cfg_attr(windows, expect(unused_mut))] mut command: Command) -> io::Result<Self> {
        // Before it is started, so that there is no moment at which nobody would end it.
        #[cfg(unix)]
        let (mut watched, mark) = process::Watched::marked();
        #[cfg(unix)]
        command.env(process::MARK, mark);
        let mut command = CommandWrap::from(command);
        #[cfg(unix)]
        command.wrap(process_wrap::tokio::ProcessGroup::leader());
        #[cfg(windows)]
        command.wrap(process_wrap::tokio::JobObject);
        let child = command.spawn()?;
        #[cfg(unix)]
        if let Some(leader) = child.id() {
            watched.add_group(leader);
        }
        Ok(Self {
            over: false,
            #[cfg(unix)]
            watched: Some(watched),
            child,
        })
    }

    /// Its leader has ended and was reaped: the group's number may be another's from now on.
    fn over(&mut self) {
        self.over = true;
        #[cfg(unix)]
        drop(self.watched.take());
    }

    async fn kill(&mut self) {
        let _ = self.child.start_kill();
        let _ = timeout(LAST_WORDS, self.child.inner_mut().wait()).await;
        self.over();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.over {
            let _ = self.child.start_kill();
        }
    }
}

/// The beginning of a stream.
struct Head {
    bytes: Mutex<Vec<u8>>,
    most: usize,
}

impl Head {
    fn new(most: usize) -> Self {
        Self { bytes: Mutex::default(), most }
    }

    /// Reads to the end and keeps the beginning, so that the program never blocks on its output.
    async fn fill(&self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            let mut head = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            let room = self.most - head.len();
            head.extend_from_slice(&buffer[..count.min(room)]);
        }
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The rule for servers holds here: what is in our environment is not theirs unless they are given it.
fn is_inherited(name: &OsStr) -> bool {
    let upper;
    let name = match name.to_str() {
        Some(name) if cfg!(windows) => {
            upper = name.to_ascii_uppercase();
            upper.as_str()
        }
        Some(name) => name,
        None => return false,
    };
    INHERITED.iter().any(|known| match known.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *known,
    })
}

/// The last part of a path: arguments do not belong into an error.
fn shown(command: &str) -> String {
    Path::new(command).file_name().unwrap_or(OsStr::new(command)).to_string_lossy().into_owned()
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::Instant;

    use bowline_config::Secret;

    use super::*;

    fn sh(script: &str) -> Program {
        let env = [("GIVEN".to_owned(), Secret::new("here"))].into();
        Program { command: "sh".into(), args: vec!["-c".into(), script.into()], env, cwd: None }
    }

    #[tokio::test]
    async fn gives_what_was_printed() {
        let printed = run(&sh("printf \"$GIVEN\""), Duration::from_secs(10)).await.unwrap();
        assert_eq!(printed, b"here");
    }

    #[tokio::test]
    async fn the_environment_is_not_passed_on() {
        // Cargo sets this for every test; no server and no program is to see such a thing.
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
        let program = Program { command: "/nowhere/token".into(), args: vec![], env: [].into(), cwd: None };
        let error = run(&program, Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Setup);
        assert!(error.what.starts_with("token could not be started"), "{error}");
    }
}
