//! Runs a program that is not a server once, to its end: within a time limit, with bounded output,
//! and with only the environment variables that it was given.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bowline_config::Secret;
use parking_lot::Mutex;
use process_wrap::tokio::{ChildWrapper, CommandWrap};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};
use tokio::time;

use super::environment::filter_inherited;
#[cfg(unix)]
use super::{MARK_VARIABLE, WatchdogGuard};

/// A program to run once.
#[derive(Clone, Copy)]
pub struct OneShot<'a> {
    /// A path, or a name to be searched for on the PATH.
    pub program: &'a str,
    /// Command-line arguments.
    pub args: &'a [String],
    /// Variables added to the few that every program inherits.
    pub env: &'a BTreeMap<String, Secret>,
    /// Variables added last, so that configuration cannot override them.
    pub extra_env: &'a [(&'static str, String)],
    /// The working directory; `None` is ours.
    pub cwd: Option<&'a Path>,
    /// Text for its standard input; `None` closes it.
    pub stdin_text: Option<&'a [u8]>,
    /// How long it may run before it is killed.
    pub timeout: Duration,
    /// How many bytes of its stdout are kept. The rest is read and dropped, so that it never blocks
    /// on a full pipe.
    pub max_stdout: usize,
}

/// How a [`OneShot`] ended.
#[derive(Debug)]
pub struct OneShotOutput {
    /// Exit status; `None` if it ran into the timeout and was killed.
    pub exit: Option<ExitStatus>,
    /// The beginning of its stdout.
    pub stdout: Vec<u8>,
    /// The beginning of its stderr: at most 4 KiB.
    pub stderr: Vec<u8>,
}

/// How many bytes of its stderr are kept.
const MAX_STDERR: usize = 4096;
/// How long output is read after the program ended: processes that it left running may hold the
/// pipe.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

impl OneShot<'_> {
    /// Runs the program. Dropping the future kills it, and everything in its process group.
    ///
    /// At the timeout it is killed the same way. If the program ends in time, processes that it
    /// left running in the background are left alone, as its author intended.
    pub async fn run(&self) -> io::Result<OneShotOutput> {
        let mut group = OneShotGroup::start(self.command())?;
        let child = group.child.as_mut();
        let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
        let (out, err) = (OutputHead::new(self.max_stdout), OutputHead::new(MAX_STDERR));
        let mut pumps = pin!(async {
            tokio::join!(
                write_stdin(stdin, self.stdin_text.unwrap_or_default()),
                out.fill(stdout),
                err.fill(stderr)
            );
        });
        let mut pumping = true;
        let ended = time::timeout(self.timeout, async {
            loop {
                tokio::select! {
                    // The exit of the leader counts; the wrapper would wait for the whole group.
                    exit = group.child.inner_mut().wait() => return exit,
                    () = &mut pumps, if pumping => pumping = false,
                }
            }
        })
        .await;
        let exit = if let Ok(exit) = ended {
            group.over();
            Some(exit?)
        } else {
            group.kill().await;
            None
        };
        if pumping {
            let _ = time::timeout(DRAIN_TIMEOUT, pumps).await;
        }
        Ok(OneShotOutput { exit, stdout: out.take(), stderr: err.take() })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.args(self.args).env_clear().envs(filter_inherited(env::vars_os()));
        command.envs(self.env.iter().map(|(name, value)| (name, value.expose())));
        command.envs(self.extra_env.iter().map(|(name, value)| (name, value)));
        if let Some(cwd) = self.cwd {
            command.current_dir(cwd);
        }
        command.stdin(if self.stdin_text.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// The last part of the path of a program: how logs and errors name it, because they must not show
/// its arguments.
pub fn program_name(program: &str) -> OsString {
    Path::new(program).file_name().unwrap_or(OsStr::new(program)).to_owned()
}

/// A started program and its process group. Dropped before it has ended, it kills them; if we are
/// killed first, the watchdog does. Unlike the group of a server it ends with its leader, and
/// strays are not followed.
struct OneShotGroup {
    child: Box<dyn ChildWrapper>,
    over: bool,
    #[cfg(unix)]
    watchdog: Option<WatchdogGuard>,
}

impl OneShotGroup {
    fn start(#[cfg_attr(windows, expect(unused_mut))] mut command: Command) -> io::Result<Self> {
        // Registered before the program starts, so that there is no moment at which nobody would
        // end it.
        #[cfg(unix)]
        let (mut watched, mark) = WatchdogGuard::with_new_mark();
        #[cfg(unix)]
        command.env(MARK_VARIABLE, mark);
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
            watchdog: Some(watched),
            child,
        })
    }

    /// Records that the leader has ended and was reaped: from now on the number of the group may be
    /// reused.
    fn over(&mut self) {
        self.over = true;
        #[cfg(unix)]
        drop(self.watchdog.take());
    }

    async fn kill(&mut self) {
        let _ = self.child.start_kill();
        let _ = time::timeout(DRAIN_TIMEOUT, self.child.inner_mut().wait()).await;
        self.over();
    }
}

impl Drop for OneShotGroup {
    fn drop(&mut self) {
        if !self.over {
            let _ = self.child.start_kill();
        }
    }
}

/// Writes the standard input of the program, which need not read it.
async fn write_stdin(stdin: Option<ChildStdin>, text: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(text).await;
    }
}

/// Keeps the first `limit` bytes of a stream and discards the rest.
struct OutputHead {
    bytes: Mutex<Vec<u8>>,
    limit: usize,
}

impl OutputHead {
    fn new(limit: usize) -> Self {
        Self { bytes: Mutex::default(), limit }
    }

    async fn fill(&self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            let mut head = self.bytes.lock();
            let room = self.limit - head.len();
            head.extend_from_slice(&buffer[..count.min(room)]);
        }
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes.lock())
    }
}
