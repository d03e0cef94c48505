//! Owns how a hook's command is run: with facts on stdin and in the environment, and for a limited time.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[cfg(unix)]
use bowline_transport::process;
use bowline_transport::process::INHERITED;
use process_wrap::tokio::{ChildWrapper, CommandWrap};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};
use tokio::time::timeout;

use super::notice::Notice;

/// What is run.
pub(super) struct Run<'a> {
    pub(super) program: &'a str,
    pub(super) args: &'a [String],
    pub(super) env: &'a std::collections::BTreeMap<String, bowline_config::Secret>,
    pub(super) cwd: Option<&'a Path>,
    pub(super) limit: Duration,
}

/// How it went.
#[derive(Debug)]
pub(super) struct Ran {
    /// `None`: it took too long and was killed.
    pub(super) exit: Option<ExitStatus>,
    /// The beginning of what it wrote.
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// How much of its output is kept for the log. The rest is read and dropped.
const OUTPUT: usize = 4096;
/// How long output is waited for after the command ended: what it left running may hold on to it.
const LAST_WORDS: Duration = Duration::from_millis(100);

impl Run<'_> {
    /// Runs it once. Dropping the future kills it, and everything in its process group.
    ///
    /// At the limit it is killed the same way. What a command that ended in time left running in the
    /// background is left alone: that was its author's intention.
    pub(super) async fn run(&self, notice: &Notice) -> io::Result<Ran> {
        let mut group = Group::start(self.command(notice))?;
        let child = group.child.as_mut();
        let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
        let (out, err) = (Head::default(), Head::default());
        let json = format!("{}\n", notice.to_json());
        let pumps = async {
            tokio::join!(tell(stdin, json.as_bytes()), out.fill(stdout), err.fill(stderr));
        };
        let mut pumps = pin!(pumps);
        let mut pumping = true;
        let ended = timeout(self.limit, async {
            loop {
                tokio::select! {
                    // The leader's end is the end; the wrapper would wait for the whole group.
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
            let _ = timeout(LAST_WORDS, pumps).await;
        }
        Ok(Ran { exit, stdout: out.text(), stderr: err.text() })
    }

    fn command(&self, notice: &Notice) -> Command {
        let mut command = Command::new(self.program);
        command.args(self.args).env_clear();
        command.envs(env::vars_os().filter(|(name, _)| is_inherited(name)));
        command.envs(self.env.iter().map(|(name, value)| (name, value.expose())));
        // Last: these say what happened, whatever else is set.
        command.envs(notice.variables());
        if let Some(cwd) = self.cwd {
            command.current_dir(cwd);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// A started command and its group. Dropped before it is over, it kills them; if we are killed first, the
/// watchdog does.
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

/// A command need not read what it is told.
async fn tell(stdin: Option<ChildStdin>, text: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(text).await;
    }
}

/// The beginning of a stream.
#[derive(Default)]
struct Head(Mutex<Vec<u8>>);

impl Head {
    /// Reads to the end and keeps the beginning, so that the command never blocks on its output.
    async fn fill(&self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            let mut head = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let room = OUTPUT - head.len();
            head.extend_from_slice(&buffer[..count.min(room)]);
        }
    }

    fn text(&self) -> String {
        let head = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&head).trim_end().to_owned()
    }
}

/// The rule for servers holds for hooks: tokens in our environment are not theirs unless they are given them.
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

/// The last part of a path: what a command is called in the log, where its arguments do not belong.
pub(super) fn shown(program: &str) -> OsString {
    Path::new(program).file_name().unwrap_or(OsStr::new(program)).to_owned()
}
