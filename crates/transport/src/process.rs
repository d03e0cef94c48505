//! Servers that run as child processes: how they are started, watched and ended.
//!
//! ```text
//!   program      which file a command means, and the PATH it was found on
//!   environment  which of our environment variables a server inherits
//!   group        the process and everything it starts
//!   mark         the environment variable that all processes of one server carry
//!   members      which processes provably belong to a server
//!   strays       members that left the process group
//!   table        the process table of the operating system
//!   watchdog     the shell that ends servers if we are killed
//!   record       the file that describes a running server to our other processes
//!   sweep, list  ending orphaned servers, and listing running ones
//!   supervise    the task that watches a process and ends it
//!   reader       stdout, up to the reason why the process ended
//!   stderr       the last lines of stderr
//!   login_shell  the PATH of the user's login shell
//!   one_shot     a program that is not a server: run once, to its end
//!   locate       what a command means, without starting it
//!   attached     a process that another program keeps
//! ```

mod attached;
mod environment;
#[cfg(fuzzing)]
pub mod fuzzing {
    //! Entry points for fuzz targets into private code.

    /// Parses `input` as a process table of any supported system, and panics on a broken invariant.
    pub fn table(input: &[u8]) {
        super::table::read_any(input);
    }
}
mod group;
mod line_tail;
mod list;
mod locate;
#[cfg(unix)]
mod login_shell;
#[cfg(unix)]
mod mark;
#[cfg(unix)]
mod members;
mod one_shot;
mod program;
mod reader;
#[cfg(unix)]
mod record;
mod stderr;
#[cfg(unix)]
mod strays;
mod supervise;
mod sweep;
#[cfg(unix)]
mod table;
#[cfg(unix)]
mod watchdog;

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bowline_proto::fault::{Exit, Fault, ProcessEnd, SpawnError};
use parking_lot::Mutex;
use tokio::process::Command;
use tokio::sync::watch;

pub use attached::{AttachedHandle, AttachedLine, AttachedProcess, AttachedReader, attach};
pub use environment::INHERITED_VARIABLES;
pub use list::{RunningProcess, RunningServer, list};
pub use locate::{Interpreter, ProgramLocation, WINDOWS_LINE_END, locate};
#[cfg(unix)]
pub use mark::MARK_VARIABLE;
pub use one_shot::{OneShot, OneShotOutput, program_name};
pub use reader::ProcessReader;
pub use stderr::StderrListener;
pub use sweep::{Orphan, sweep};
#[cfg(unix)]
pub use watchdog::WatchdogGuard;

use self::group::Group;
use self::line_tail::LineTail;
use self::program::Program;
use self::supervise::{ProcessPhase, StderrReader, StopSignal, Supervisor};
use crate::pipe::{PipeWriter, pipe};
use crate::redact::Redactor;

/// The parameters of [`spawn`].
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Name of the server, for the log.
    pub name: &'a str,
    /// Command, arguments, environment and working folder.
    pub stdio: &'a bowline_config::Program,
    /// How many bytes a message may have.
    pub limit: usize,
    /// How long each step of a shutdown may take.
    pub grace: Grace,
    /// Folder for the record of the running server, for [`list()`] and [`sweep()`]; `None` writes
    /// none. Created if missing, for this user alone. A record that cannot be written does not keep
    /// the server from running.
    pub records: Option<&'a Path>,
    /// Whether the watchdog ends the server if this process is killed. Has no effect on Windows,
    /// where a job object does.
    pub watchdog: bool,
    /// Receives each line that the server writes to stderr; `None` if nobody wants them. The log
    /// and the tail get them in any case.
    pub stderr: Option<&'a StderrListener>,
}

/// How long a process may take to end before stronger means are used. Default 2 s each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// Time after its stdin was closed. Then it gets SIGTERM; on Windows its job is ended.
    pub eof: Duration,
    /// Time after SIGTERM. Then it gets SIGKILL.
    pub term: Duration,
}

/// A running server process.
#[derive(Debug)]
pub struct Process {
    /// Writes to its stdin.
    pub writer: PipeWriter,
    /// Reads its stdout, and reports why that ended.
    pub reader: ProcessReader,
    /// Keeps the process alive and ends it.
    pub handle: Handle,
}

/// Controls the lifetime of a server process.
///
/// - The process lives as long as the handle; dropping the reader and the writer does not end it.
/// - [`shutdown`](Self::shutdown) ends it in good order.
/// - Dropping the handle kills it at once and everything it started, inside a runtime or outside.
#[derive(Debug)]
pub struct Handle {
    pid: u32,
    writer: PipeWriter,
    tail: Arc<Mutex<LineTail>>,
    phase: watch::Receiver<ProcessPhase>,
    stop: Arc<StopSignal>,
    #[cfg(unix)]
    descendants: strays::Descendants,
    #[cfg(windows)]
    supervisor: tokio::task::AbortHandle,
}

/// Starts a server process in its own process group, with a cleaned environment
/// ([`INHERITED_VARIABLES`] and the configured variables).
///
/// Neither the process nor anything it starts outlives this process, however this process ends: a
/// watchdog enforces that on Unix, a job object on Windows. On Linux this includes processes that
/// left the group, with two exceptions: a process that is detached, which means that it has its own
/// session and no parent among the processes of the server (such as a browser that was opened for a
/// person), and one that dropped its environment ([`MARK_VARIABLE`]).
///
/// May query the user's login shell for its PATH, once in the life of this program and for at most
/// three seconds. Dropping the future starts nothing.
pub async fn spawn(launch: Launch<'_>) -> Result<Process, Fault> {
    let Launch { name, stdio, limit, grace, records, watchdog, stderr: listener } = launch;
    let cwd = resolve_working_dir(stdio)?;
    let mut environment = environment::filter_inherited(env::vars_os());
    for (name, value) in &stdio.env {
        environment.insert(environment::normalize_name(name.as_ref()), value.expose().into());
    }
    let path = environment.get(OsStr::new("PATH")).cloned();
    let program = Program::find(&stdio.command, path, &cwd).await?;
    if let Some(path) = &program.path {
        environment.insert("PATH".into(), path.clone());
    }

    let mut command = Command::new(&program.file);
    command.args(&stdio.args).env_clear().envs(environment).current_dir(cwd);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    let mark = mark::Mark::new();
    let group = Group::spawn(
        command,
        #[cfg(unix)]
        &mark,
        #[cfg(unix)]
        if watchdog { WatchdogGuard::default() } else { WatchdogGuard::disabled() },
    );
    let mut group = group.map_err(|error| program.spawn_failure(&error))?;

    let (Some(stdin), Some(stdout)) = (group.stdin(), group.stdout()) else {
        unreachable!("both were asked for")
    };
    let (writer, reader) = pipe(stdout, stdin, limit);
    let pid = group.pid();
    let redactor = Arc::new(Redactor::from_environment(&stdio.env));
    let tail = Arc::new(Mutex::new(LineTail::with_redactor(Arc::clone(&redactor))));
    let stop = Arc::new(StopSignal::default());
    #[cfg(unix)]
    let record = records.and_then(|folder| {
        record::Record::write(folder, name, pid, &mark)
            .inspect_err(|error| tracing::warn!(server = name, pid, %error, "cannot be written down"))
            .ok()
    });
    #[cfg(windows)]
    let _ = (records, watchdog);
    let (phase_tx, phase) = watch::channel(ProcessPhase::Running);
    let reader = ProcessReader::new(reader, phase.clone(), tail.clone(), redactor);
    let stderr = StderrReader::new(group.stderr(), tail.clone(), name, listener.cloned());
    #[cfg(unix)]
    let descendants = group.descendants().clone();
    let supervisor = Supervisor {
        group,
        writer: writer.clone(),
        stderr,
        grace,
        stop: stop.clone(),
        phase: phase_tx,
        #[cfg(unix)]
        record,
    };
    #[cfg_attr(unix, expect(unused_variables, reason = "only a job object is ended through its task"))]
    let supervisor = tokio::spawn(supervisor.run());
    tracing::debug!(server = name, pid, program = %program.file.display(), "started");

    let handle = Handle {
        pid,
        writer: writer.clone(),
        tail,
        phase,
        stop,
        #[cfg(unix)]
        descendants,
        #[cfg(windows)]
        supervisor: supervisor.abort_handle(),
    };
    Ok(Process { writer, reader, handle })
}

// === impl Grace ===

impl Default for Grace {
    fn default() -> Self {
        Self { eof: Duration::from_secs(2), term: Duration::from_secs(2) }
    }
}

// === impl Handle ===

impl Handle {
    /// The process id, which on Unix is also the id of its group.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The last lines that the process wrote to stderr. Server text: untrusted.
    pub fn stderr_tail(&self) -> Vec<String> {
        self.tail.lock().lines()
    }

    /// How the process ended and what it took, once everything that it started has ended too.
    pub fn end(&self) -> Option<ProcessEnd> {
        match *self.phase.borrow() {
            ProcessPhase::Cleared(end) => Some(end),
            ProcessPhase::Running | ProcessPhase::Exited(_) => None,
        }
    }

    /// Ends the process: closes its stdin, then sends SIGTERM to its group, then SIGKILL, each step
    /// after its [`Grace`] has passed. Everything the process started and left behind is ended the
    /// same way.
    ///
    /// Can be called again, and after the process ended by itself. Dropping the future does not
    /// stop the sequence; dropping the handle cuts it short.
    pub async fn shutdown(&self) -> Exit {
        self.stop.requested.notify_one();
        let mut phase = self.phase.clone();
        let cleared = phase.wait_for(|life| matches!(life, ProcessPhase::Cleared(_))).await.map(|life| *life);
        // Nobody reads the frames that are still queued.
        self.writer.abort();
        cleared.ok().and_then(ProcessPhase::exit).unwrap_or(Exit::Eof)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Recorded before its stdin is closed, which may end it: its children lose their parent
        // then.
        #[cfg(unix)]
        if self.phase.has_changed().is_ok() && *self.phase.borrow() == ProcessPhase::Running {
            self.descendants.record(self.pid);
        }
        self.writer.abort();
        // Without a supervisor there is no group: it was killed when the runtime shut down.
        if self.phase.has_changed().is_err() || matches!(*self.phase.borrow(), ProcessPhase::Cleared(_)) {
            return;
        }
        self.stop.immediate.store(true, Ordering::Relaxed);
        #[cfg(unix)]
        group::kill_group(self.pid);
        #[cfg(windows)]
        self.supervisor.abort();
    }
}

fn resolve_working_dir(stdio: &bowline_config::Program) -> Result<PathBuf, Fault> {
    let ours = env::current_dir().map_err(|error| {
        program::spawn_fault(SpawnError::Other).with_note(format!("no working folder: {error}"))
    })?;
    let Some(cwd) = &stdio.cwd else { return Ok(ours) };
    let cwd = ours.join(cwd);
    if cwd.is_dir() {
        return Ok(cwd);
    }
    Err(program::spawn_fault(SpawnError::Other)
        .with_note(format!("the working folder {} does not exist", cwd.display())))
}
