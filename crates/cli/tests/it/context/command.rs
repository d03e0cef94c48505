//! The `bowline` command as tests start it: a [`std::process::Command`] whose output is searched
//! for credentials.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::Arc;

use super::watch::{Capture, Descriptor, Watch};

/// A command of a [`Context`](super::Context). It has the methods of [`std::process::Command`] that
/// tests need and does not expose that command, so all output passes the [`Watch`] of the context.
///
/// A stream that a test does not set is read and discarded, except that stderr is copied to the
/// stderr of the test.
pub(crate) struct Command {
    inner: std::process::Command,
    watch: Arc<Watch>,
    is_set: Streams<bool>,
    is_direct: bool,
}

#[derive(Clone, Copy, Default)]
struct Streams<T> {
    stdout: T,
    stderr: T,
}

/// Converts the pipe of an asynchronous child to a file that a thread reads.
macro_rules! file_of {
    ($pipe:expr) => {{
        #[cfg(unix)]
        let pipe = $pipe.into_owned_fd()?;
        #[cfg(windows)]
        let pipe = $pipe.into_owned_handle()?;
        std::fs::File::from(pipe)
    }};
}

impl Command {
    pub(super) fn new(program: impl AsRef<OsStr>, watch: Arc<Watch>) -> Self {
        let inner = std::process::Command::new(program);
        Self { inner, watch, is_set: Streams::default(), is_direct: false }
    }

    /// Wraps this command in another program such as a tracer: `program args… bowline …`.
    pub(crate) fn run_by<S: AsRef<OsStr>>(self, program: &str, args: impl IntoIterator<Item = S>) -> Self {
        let mut inner = std::process::Command::new(program);
        inner.args(args).arg(self.inner.get_program()).args(self.inner.get_args()).env_clear();
        inner.envs(self.inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = self.inner.get_current_dir() {
            inner.current_dir(folder);
        }
        inner.stdin(Stdio::null());
        Self { inner, is_set: Streams::default(), ..self }
    }

    /// Gives the pipes of this command directly to the test, for this reason. Its output is not
    /// searched.
    pub(crate) fn unwatched(&mut self, _reason: &'static str) -> &mut Self {
        self.is_direct = true;
        self
    }

    pub(crate) fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.inner.arg(arg);
        self
    }

    pub(crate) fn args<S: AsRef<OsStr>>(&mut self, args: impl IntoIterator<Item = S>) -> &mut Self {
        self.inner.args(args);
        self
    }

    pub(crate) fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.inner.env(name, value);
        self
    }

    pub(crate) fn envs<N: AsRef<OsStr>, V: AsRef<OsStr>>(
        &mut self,
        vars: impl IntoIterator<Item = (N, V)>,
    ) -> &mut Self {
        self.inner.envs(vars);
        self
    }

    pub(crate) fn env_clear(&mut self) -> &mut Self {
        self.inner.env_clear();
        self
    }

    /// Runs as this user.
    #[cfg(target_os = "linux")]
    pub(crate) fn uid(&mut self, user: u32) -> &mut Self {
        std::os::unix::process::CommandExt::uid(&mut self.inner, user);
        self
    }

    pub(crate) fn current_dir(&mut self, folder: impl AsRef<Path>) -> &mut Self {
        self.inner.current_dir(folder);
        self
    }

    pub(crate) fn stdin(&mut self, from: impl Into<Stdio>) -> &mut Self {
        self.inner.stdin(from);
        self
    }

    /// Sets stdout, usually to a pipe. A caller that passes something else, such as a terminal,
    /// must feed its output to [`Command::capture`].
    pub(crate) fn stdout(&mut self, to: impl Into<Stdio>) -> &mut Self {
        self.inner.stdout(to);
        self.is_set.stdout = true;
        self
    }

    /// See [`Command::stdout`].
    pub(crate) fn stderr(&mut self, to: impl Into<Stdio>) -> &mut Self {
        self.inner.stderr(to);
        self.is_set.stderr = true;
        self
    }

    /// Returns whether a variable is set for the command.
    #[cfg(unix)]
    pub(crate) fn has_env(&self, name: &str) -> bool {
        self.inner.get_envs().any(|(set, _)| set == name)
    }

    /// Starts a capture for a stream that is no pipe.
    pub(crate) fn capture(&self, stream: &str) -> Arc<Capture> {
        let args: Vec<_> = self.inner.get_args().map(OsStr::to_string_lossy).collect();
        self.watch.capture(format!("{stream} of `bowline {}`", args.join(" ")))
    }

    pub(crate) fn output(&mut self) -> io::Result<Output> {
        self.prepare();
        self.inner.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = self.inner.spawn()?.wait_with_output()?;
        if !self.is_direct {
            for (stream, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
                let capture = self.capture(stream);
                capture.add(bytes);
                capture.end();
            }
        }
        Ok(output)
    }

    /// Starts the command. The test gets the far ends of pipes whose content is searched on the
    /// way.
    pub(crate) fn spawn(&mut self) -> io::Result<Child> {
        self.prepare();
        let mut child = self.inner.spawn()?;
        if self.is_direct {
            return Ok(child);
        }
        let is_set = self.is_set;
        child.stdout = match child.stdout.take() {
            Some(from) if is_set.stdout => Some(self.relay_pipe("stdout", from)?.into()),
            Some(from) => self.drain_pipe("stdout", from, io::sink()),
            None => None,
        };
        child.stderr = match child.stderr.take() {
            Some(from) if is_set.stderr => Some(self.relay_pipe("stderr", from)?.into()),
            Some(from) => self.drain_pipe("stderr", from, io::stderr()),
            None => None,
        };
        Ok(child)
    }

    /// Starts the command for an asynchronous test. The child is killed on drop.
    pub(crate) fn spawn_async(mut self) -> io::Result<tokio::process::Child> {
        self.prepare();
        let (watched, is_set) = (!self.is_direct, self.is_set);
        let inner = std::mem::replace(&mut self.inner, std::process::Command::new(""));
        // The name of a capture is made of the arguments.
        self.inner.args(inner.get_args());
        let mut child = tokio::process::Command::from(inner).kill_on_drop(true).spawn()?;
        if !watched {
            return Ok(child);
        }
        child.stdout = match child.stdout.take() {
            Some(from) if is_set.stdout => {
                let from = file_of!(from);
                Some(tokio::process::ChildStdout::from_std(self.relay_pipe("stdout", from)?.into())?)
            }
            Some(from) => self.drain_pipe("stdout", file_of!(from), io::sink()),
            None => None,
        };
        child.stderr = match child.stderr.take() {
            Some(from) if is_set.stderr => {
                let from = file_of!(from);
                Some(tokio::process::ChildStderr::from_std(self.relay_pipe("stderr", from)?.into())?)
            }
            Some(from) => self.drain_pipe("stderr", file_of!(from), io::stderr()),
            None => None,
        };
        Ok(child)
    }

    /// Makes sure that every stream the test did not set is read.
    fn prepare(&mut self) {
        if !self.is_set.stdout {
            self.inner.stdout(Stdio::piped());
        }
        if !self.is_set.stderr {
            self.inner.stderr(Stdio::piped());
        }
    }

    fn relay_pipe(
        &self,
        stream: &str,
        from: impl io::Read + Descriptor + Send + 'static,
    ) -> io::Result<Pipe> {
        let (reader, writer) = io::pipe()?;
        self.capture(stream).relay(from, writer);
        Ok(reader.into())
    }

    fn drain_pipe<T>(
        &self,
        stream: &str,
        from: impl io::Read + Send + 'static,
        to: impl io::Write + Send + 'static,
    ) -> Option<T> {
        self.capture(stream).drain(from, to);
        None
    }
}

#[cfg(unix)]
type Pipe = std::os::fd::OwnedFd;
#[cfg(windows)]
type Pipe = std::os::windows::io::OwnedHandle;
