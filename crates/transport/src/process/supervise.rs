//! The supervisor task of a process: drains stderr, ends the process on request, and publishes how
//! it ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_proto::fault::{Exit, ProcessEnd, ShutdownStep};
use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::select;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::Grace;
use super::group::Group;
use super::line_tail::LineTail;
#[cfg(unix)]
use super::record::RecordFile;
use super::stderr::StderrListener;
use crate::pipe::PipeWriter;

/// Lifecycle phase of a server process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessPhase {
    Running,
    /// The child has ended. Processes that it started may still run.
    Exited(Exit),
    /// The child and everything it started are gone, or could not be ended.
    Cleared(ProcessEnd),
}

impl ProcessPhase {
    /// How the child ended, if it has.
    pub(super) fn exit(self) -> Option<Exit> {
        match self {
            Self::Running => None,
            Self::Exited(exit) => Some(exit),
            Self::Cleared(end) => Some(end.exit),
        }
    }
}

/// Owns a process group until nothing of it is left.
pub(super) struct Supervisor {
    pub(super) group: Group,
    /// Writes to its stdin.
    pub(super) writer: PipeWriter,
    pub(super) stderr: StderrReader,
    pub(super) grace: Grace,
    pub(super) stop: Arc<StopSignal>,
    pub(super) phase: watch::Sender<ProcessPhase>,
    /// Removed from disk when the group is gone.
    #[cfg(unix)]
    pub(super) record: Option<RecordFile>,
}

/// Asks the supervisor to end the process.
#[derive(Debug, Default)]
pub(super) struct StopSignal {
    /// Notified when the process is to end.
    pub(super) requested: Notify,
    /// Set when nobody waits for a graceful end: kill at once.
    pub(super) immediate: AtomicBool,
}

/// Step of the shutdown, with the deadline of that step.
#[derive(Clone, Copy)]
enum Stage {
    Serving,
    AfterEof(Instant),
    AfterTerm(Instant),
    AfterKill(Instant),
}

/// Whether a group was cleared completely.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cleanup {
    Complete,
    Incomplete,
}

/// How long to wait for a killed process: it can hang in the kernel.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long other processes may hold the stderr of an ended child open before we stop reading it.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// First and longest interval between checks whether a group still has members: the system does not
/// notify us.
const MIN_GROUP_POLL_INTERVAL: Duration = Duration::from_millis(5);
const MAX_GROUP_POLL_INTERVAL: Duration = Duration::from_millis(80);

impl Supervisor {
    /// Runs until the group is gone. Dropped early (the runtime is shut down), it kills the group.
    pub(super) async fn run(mut self) {
        let (exit, stage) = self.wait_for_exit().await;
        let last_words = Instant::now() + STDERR_DRAIN_TIMEOUT;
        while self.stderr.is_open() && timeout_at(last_words, self.stderr.fill()).await.is_ok() {}
        self.phase.send_replace(ProcessPhase::Exited(exit));
        let mut end = ProcessEnd::new(exit, stage.step());
        // A job object cannot be checked for members.
        end.left_processes = !cfg!(windows) && !self.group.is_cleared().await;
        let cleared = if end.left_processes || cfg!(windows) {
            self.clear_group(stage).await
        } else {
            Cleanup::Complete
        };
        // The record of what is left is kept, so that it is listed and a later sweep can end what
        // is not detached.
        #[cfg(unix)]
        if (cleared == Cleanup::Incomplete || self.group.has_detached())
            && let Some(record) = self.record.take()
        {
            record.keep();
        }
        #[cfg(windows)]
        let _ = cleared;
        self.phase.send_replace(ProcessPhase::Cleared(end));
    }

    async fn wait_for_exit(&mut self) -> (Exit, Stage) {
        let mut stage = Stage::Serving;
        loop {
            select! {
                biased;
                exit = self.group.wait_for_exit() => return (exit, stage),
                () = self.stop.requested.notified(), if stage.deadline().is_none() => {
                    self.record_descendants().await;
                    self.writer.close();
                    stage = Stage::AfterEof(Instant::now() + self.grace.eof);
                    continue;
                }
                () = sleep_until_deadline(stage.deadline()) => {}
                () = self.stderr.fill(), if self.stderr.is_open() => continue,
            }
            stage = match stage {
                Stage::Serving | Stage::AfterEof(_) => {
                    self.group.terminate();
                    Stage::AfterTerm(Instant::now() + self.grace.term)
                }
                Stage::AfterTerm(_) => {
                    self.group.kill();
                    Stage::AfterKill(Instant::now() + KILL_TIMEOUT)
                }
                Stage::AfterKill(_) => return (Exit::Eof, stage),
            };
        }
    }

    /// Records who descends from the server. On a blocking thread: a machine can have thousands of
    /// processes.
    async fn record_descendants(&self) {
        #[cfg(unix)]
        {
            let (descendants, pid) = (self.group.descendants().clone(), self.group.pid());
            let _ = tokio::task::spawn_blocking(move || descendants.record(pid)).await;
        }
        #[cfg(windows)]
        std::future::ready(()).await;
    }

    /// Ends what the child started, after the child has ended.
    async fn clear_group(&mut self, stage: Stage) -> Cleanup {
        // A job object has no graceful end.
        if cfg!(windows) {
            self.group.kill();
            return Cleanup::Complete;
        }
        let mut deadline = match stage {
            Stage::AfterKill(_) => Instant::now(),
            Stage::AfterTerm(deadline) => {
                self.group.terminate_strays();
                deadline
            }
            Stage::Serving | Stage::AfterEof(_) => {
                self.group.terminate();
                Instant::now() + self.grace.term
            }
        };
        let (mut killed, mut ask) = (false, MIN_GROUP_POLL_INTERVAL);
        while !self.group.is_cleared().await {
            if killed && Instant::now() >= deadline {
                tracing::warn!(server = self.stderr.server, "what the server started cannot be ended");
                return Cleanup::Incomplete;
            }
            if !killed && (Instant::now() >= deadline || self.stop.immediate.load(Ordering::Relaxed)) {
                (killed, deadline) = (true, Instant::now() + KILL_TIMEOUT);
            }
            // On every pass: processes that are being killed may have started more.
            if killed {
                self.group.kill();
            }
            sleep(ask).await;
            ask = (ask * 2).min(MAX_GROUP_POLL_INTERVAL);
        }
        Cleanup::Complete
    }
}

impl Stage {
    fn step(self) -> ShutdownStep {
        match self {
            Self::Serving => ShutdownStep::Unasked,
            Self::AfterEof(_) => ShutdownStep::InputClosed,
            Self::AfterTerm(_) => ShutdownStep::Terminated,
            Self::AfterKill(_) => ShutdownStep::Killed,
        }
    }

    fn deadline(self) -> Option<Instant> {
        match self {
            Self::Serving => None,
            Self::AfterEof(deadline) | Self::AfterTerm(deadline) | Self::AfterKill(deadline) => {
                Some(deadline)
            }
        }
    }
}

async fn sleep_until_deadline(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Reads stderr into its tail and the log, and tells the listener.
pub(super) struct StderrReader {
    io: Option<ChildStderr>,
    buffer: BytesMut,
    tail: Arc<Mutex<LineTail>>,
    server: String,
    listener: Option<StderrListener>,
}

/// How many bytes of stderr are read at once.
const STDERR_READ_SIZE: usize = 16 * 1024;

impl StderrReader {
    pub(super) fn new(
        io: Option<ChildStderr>,
        tail: Arc<Mutex<LineTail>>,
        server: &str,
        listener: Option<StderrListener>,
    ) -> Self {
        Self { io, buffer: BytesMut::new(), tail, server: server.to_owned(), listener }
    }

    fn is_open(&self) -> bool {
        self.io.is_some()
    }

    /// Reads once. Dropping the future loses nothing.
    async fn fill(&mut self) {
        let Some(io) = &mut self.io else { return };
        self.buffer.clear();
        self.buffer.reserve(STDERR_READ_SIZE);
        let read = io.read_buf(&mut self.buffer).await;
        let log = |line: &str| {
            tracing::debug!(target: "bowline::stderr", server = self.server, "{}", line.escape_debug());
            if let Some(listener) = &self.listener {
                listener.notify(line);
            }
        };
        let mut tail = self.tail.lock();
        if matches!(read, Ok(1..)) {
            tail.push(&self.buffer, log);
        } else {
            tail.finish(log);
            self.io = None;
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io;
    use std::process::Stdio;

    use tokio::process::Command;

    use super::super::mark::Mark;
    use super::super::record::{Record, read_folder};
    use super::*;
    use crate::process::watchdog::WatchdogGuard;

    /// Runs the supervisor of a server that leaves a child behind, and returns how many records are
    /// left.
    async fn count_records_left(spawn: fn(Command, &Mark) -> io::Result<Group>) -> usize {
        let folder = tempfile::tempdir().unwrap();
        let mark = Mark::new();
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM; sleep 300 & exit 0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let group = spawn(command, &mark).unwrap();
        let record = Record::write(folder.path(), "files", group.pid(), &mark).unwrap();
        let (writer, _) = crate::pipe::pipe(tokio::io::empty(), tokio::io::sink(), 1024);
        let supervisor = Supervisor {
            group,
            writer,
            stderr: StderrReader::new(None, Arc::default(), "files", None),
            grace: Grace { eof: Duration::ZERO, term: Duration::ZERO },
            stop: Arc::default(),
            phase: watch::Sender::new(ProcessPhase::Running),
            record: Some(record),
        };
        supervisor.run().await;
        read_folder(folder.path()).unwrap().len()
    }

    #[tokio::test]
    async fn record_of_an_unkillable_server_is_kept() {
        assert_eq!(count_records_left(Group::spawn_hanging).await, 1);
    }

    #[tokio::test]
    async fn record_of_an_ended_server_is_removed() {
        assert_eq!(
            count_records_left(|command, mark| Group::spawn(command, mark, WatchdogGuard::default())).await,
            0
        );
    }
}
