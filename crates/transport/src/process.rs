//! Servers that run as child processes: how they are started, watched and ended.
//!
//! ```text
//!   program      which file a command means, and the PATH it was found on
//!   environment  what of our environment it gets
//!   group        the process and everything it starts
//!   mark         what all of these have in common, wherever they go
//!   watchdog     what ends them if we are killed
//!   record       what another process of ours can know of them
//!   sweep, list  what it does with that
//!   supervise    the task that watches it and ends it
//!   reader       its stdout, up to the reason why it ended
//!   stderr       its last words
//!   one_shot     a program that is no server: run once, to its end
//! ```

mod environment;
#[cfg(fuzzing)]
pub mod fuzzing {
    //! What a fuzz target asks of code that is private.

    /// Reads the process table as a system may tell it, and panics where a promise is broken.
    pub fn table(input: &[u8]) {
        super::table::read_any(input);
    }
}
mod group;
#[cfg(unix)]
mod kin;
mod list;
#[cfg(unix)]
mod login;
#[cfg(unix)]
mod mark;
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
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_proto::fault::{Exit, Fault, Spawn};
use tokio::process::Command;
use tokio::sync::watch;

pub use environment::INHERITED;
pub use list::{Entry, Running, list};
#[cfg(unix)]
pub use mark::MARK;
pub use one_shot::{OneShot, OneShotOutput, program_name};
pub use reader::ProcessReader;
pub use sweep::{Orphan, sweep};
#[cfg(unix)]
pub use watchdog::Watched;

use self::group::Group;
use self::program::Program;
use self::stderr::Tail;
use self::supervise::{Life, Stderr, Stop, Supervisor};
use crate::pipe::{PipeWriter, pipe};
use crate::redact::Redactor;

/// What to start, and how.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The server's name, for the log.
    pub name: &'a str,
    /// The program.
    pub stdio: &'a bowline_config::Stdio,
    /// How many bytes a message may have.
    pub limit: usize,
    /// How patiently it is ended.
    pub grace: Grace,
    /// The folder where it is written down while it runs, for [`list()`] and [`sweep()`]. Made if need be,
    /// for this user alone. A server that cannot be written down runs all the same.
    pub records: Option<&'a Path>,
}

/// How long a process may take to end before stronger means are used (ST-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// After its stdin was closed. Then it gets SIGTERM, or on Windows its job is ended.
    pub eof: Duration,
    /// After SIGTERM. Then it gets SIGKILL.
    pub term: Duration,
}

/// A server process.
#[derive(Debug)]
pub struct Process {
    /// Its stdin.
    pub writer: PipeWriter,
    /// Its stdout, and why that ended.
    pub reader: ProcessReader,
    /// Its life.
    pub handle: Handle,
}

/// Holds a process.
///
/// - The process lives as long as the handle, not as the reader and writer.
/// - [`shutdown`](Self::shutdown) ends it in good order.
/// - Dropping the handle kills it at once and everything it started, inside a runtime or outside.
#[derive(Debug)]
pub struct Handle {
    pid: u32,
    writer: PipeWriter,
    tail: Arc<Mutex<Tail>>,
    life: watch::Receiver<Life>,
    stop: Arc<Stop>,
    #[cfg(unix)]
    descendants: strays::Descendants,
    #[cfg(windows)]
    supervisor: tokio::task::AbortHandle,
}

/// Starts a process, in a group of its own, with a cleaned environment ([`INHERITED`] and what is
/// configured).
///
/// It does not outlive this process, nor does what it starts, however this process ends: a watchdog sees
/// to that on Unix, and the system on Windows. On Linux that holds too for what leaves its group, unless it is detached:
/// it has a session of its own and no parent among the server's processes, as a browser that was opened for a person;
/// or it leaves its environment as well ([`MARK`]).
///
/// May ask the user's login shell for its PATH, once in the life of this program and for three seconds at
/// most. Dropping the future starts nothing.
pub async fn spawn(launch: Launch<'_>) -> Result<Process, Fault> {
    let Launch { name, stdio, limit, grace, records } = launch;
    let cwd = working_folder(stdio)?;
    let mut environment = environment::inherited(env::vars_os());
    for (name, value) in &stdio.env {
        environment.insert(environment::key(name.as_ref()), value.expose().into());
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
    );
    let mut group = group.map_err(|error| program.refused(&error))?;

    let (Some(stdin), Some(stdout)) = (group.stdin(), group.stdout()) else {
        unreachable!("both were asked for")
    };
    let (writer, reader) = pipe(stdout, stdin, limit);
    let pid = group.pid();
    let redactor = Arc::new(Redactor::of_environment(&stdio.env));
    let tail = Arc::new(Mutex::new(Tail::redacted(Arc::clone(&redactor))));
    let stop = Arc::new(Stop::default());
    #[cfg(unix)]
    let record = records.and_then(|folder| {
        record::Record::write(folder, name, pid, &mark)
            .inspect_err(|error| tracing::warn!(server = name, pid, %error, "cannot be written down"))
            .ok()
    });
    #[cfg(windows)]
    let _ = records;
    let (life_tx, life) = watch::channel(Life::Running);
    let reader = ProcessReader::new(reader, life.clone(), tail.clone(), redactor);
    let stderr = Stderr::new(group.stderr(), tail.clone(), name);
    #[cfg(unix)]
    let descendants = group.descendants().clone();
    let supervisor = Supervisor {
        group,
        writer: writer.clone(),
        stderr,
        grace,
        stop: stop.clone(),
        life: life_tx,
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
        life,
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
    /// The process id, which is also the id of its group on Unix.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The last lines it wrote to stderr. Server text: untrusted.
    pub fn stderr_tail(&self) -> Vec<String> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).lines()
    }

    /// Ends the process: its stdin is closed; if that does not move it, SIGTERM to its group, then SIGKILL,
    /// each after its [`Grace`] (ST-04). Whatever it started and left behind goes the same way.
    ///
    /// Can be called again, and of a process that ended by itself. Dropping the future does not stop the
    /// sequence; dropping the handle cuts it short.
    pub async fn shutdown(&self) -> Exit {
        self.stop.told.notify_one();
        let mut life = self.life.clone();
        let gone = life.wait_for(|life| matches!(life, Life::Gone(_))).await.map(|life| *life);
        // Nobody reads what is still queued.
        self.writer.abort();
        gone.ok().and_then(Life::exit).unwrap_or(Exit::Eof)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Before its input ends, which may be the end of it.
        #[cfg(unix)]
        if self.life.has_changed().is_ok() && *self.life.borrow() == Life::Running {
            self.descendants.note(self.pid);
        }
        self.writer.abort();
        // Without a supervisor there is no group: it was killed when the runtime shut down.
        if self.life.has_changed().is_err() || matches!(*self.life.borrow(), Life::Gone(_)) {
            return;
        }
        self.stop.at_once.store(true, Ordering::Relaxed);
        #[cfg(unix)]
        group::kill(self.pid);
        #[cfg(windows)]
        self.supervisor.abort();
    }
}

fn working_folder(stdio: &bowline_config::Stdio) -> Result<PathBuf, Fault> {
    let ours = env::current_dir()
        .map_err(|error| program::spawn(Spawn::Other).note(format!("no working folder: {error}")))?;
    let Some(cwd) = &stdio.cwd else { return Ok(ours) };
    let cwd = ours.join(cwd);
    if cwd.is_dir() {
        return Ok(cwd);
    }
    Err(program::spawn(Spawn::Other).note(format!("the working folder {} does not exist", cwd.display())))
}
