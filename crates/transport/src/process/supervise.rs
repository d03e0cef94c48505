//! The one task of a process: it drains stderr, ends the process when told to, and says how it ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_proto::fault::Exit;
use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::select;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::Grace;
use super::group::Group;
#[cfg(unix)]
use super::record::RecordFile;
use super::stderr::Tail;
use crate::pipe::PipeWriter;

/// How far a process has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Running,
    /// The child has ended. What it started may live on.
    Exited(Exit),
    /// Nothing of it is left.
    Gone(Exit),
}

impl Life {
    /// How the child ended, if it has.
    pub(super) fn exit(self) -> Option<Exit> {
        match self {
            Self::Running => None,
            Self::Exited(exit) | Self::Gone(exit) => Some(exit),
        }
    }
}

pub(super) struct Supervisor {
    pub(super) group: Group,
    /// Its stdin.
    pub(super) writer: PipeWriter,
    pub(super) stderr: Stderr,
    pub(super) grace: Grace,
    pub(super) stop: Arc<Stop>,
    pub(super) life: watch::Sender<Life>,
    /// Gone from the disk when the group is gone.
    #[cfg(unix)]
    pub(super) record: Option<RecordFile>,
}

/// How the supervisor is told to end the process.
#[derive(Debug, Default)]
pub(super) struct Stop {
    /// The process is to end.
    pub(super) told: Notify,
    /// Nobody waits for a good end.
    pub(super) at_once: AtomicBool,
}

/// How far ending the process has come: what is waited for, and until when.
#[derive(Clone, Copy)]
enum Stage {
    Serving,
    AfterEof(Instant),
    AfterTerm(Instant),
    AfterKill(Instant),
}

/// Whether nothing is left of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cleared {
    Yes,
    No,
}

/// How long a killed process may take to be gone before we no longer wait: it can hang in the kernel.
const KILLED: Duration = Duration::from_secs(2);
/// How long an ended child's stderr may be held open by others before what was read has to do.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How soon a group is asked whether it still has members, and how seldom in the end. The system does not
/// tell by itself.
const ASK: Duration = Duration::from_millis(5);
const ASK_LATER: Duration = Duration::from_millis(80);

impl Supervisor {
    /// Dropped early (the runtime is shut down), it kills the group.
    pub(super) async fn run(mut self) {
        let (exit, stage) = self.until_exit().await;
        let last_words = Instant::now() + LAST_WORDS;
        while self.stderr.is_open() && timeout_at(last_words, self.stderr.fill()).await.is_ok() {}
        self.life.send_replace(Life::Exited(exit));
        let cleared = self.clear_group(stage).await;
        // What is left stays written down, so that it is listed, and a later sweep can end what is not the user's.
        #[cfg(unix)]
        if (cleared == Cleared::No || self.group.are_some_detached())
            && let Some(record) = self.record.take()
        {
            record.leave();
        }
        #[cfg(windows)]
        let _ = cleared;
        self.life.send_replace(Life::Gone(exit));
    }

    async fn until_exit(&mut self) -> (Exit, Stage) {
        let mut stage = Stage::Serving;
        loop {
            select! {
                biased;
                exit = self.group.exit() => return (exit, stage),
                () = self.stop.told.notified(), if stage.deadline().is_none() => {
                    self.note_descendants().await;
                    self.writer.close();
                    stage = Stage::AfterEof(Instant::now() + self.grace.eof);
                    continue;
                }
                () = until(stage.deadline()) => {}
                () = self.stderr.fill(), if self.stderr.is_open() => continue,
            }
            stage = match stage {
                Stage::Serving | Stage::AfterEof(_) => {
                    self.group.terminate();
                    Stage::AfterTerm(Instant::now() + self.grace.term)
                }
                Stage::AfterTerm(_) => {
                    self.group.kill();
                    Stage::AfterKill(Instant::now() + KILLED)
                }
                Stage::AfterKill(_) => return (Exit::Eof, stage),
            };
        }
    }

    /// On another thread: a machine can have thousands of processes.
    async fn note_descendants(&self) {
        #[cfg(unix)]
        {
            let (descendants, pid) = (self.group.descendants().clone(), self.group.pid());
            let _ = tokio::task::spawn_blocking(move || descendants.note(pid)).await;
        }
        #[cfg(windows)]
        std::future::ready(()).await;
    }

    /// The child has ended; what it started goes the same way.
    async fn clear_group(&mut self, stage: Stage) -> Cleared {
        // A job has no other way to end, and nobody can tell whether it is empty.
        if cfg!(windows) {
            self.group.kill();
            return Cleared::Yes;
        }
        if self.group.is_cleared().await {
            return Cleared::Yes;
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
        let (mut killed, mut ask) = (false, ASK);
        while !self.group.is_cleared().await {
            if killed && Instant::now() >= deadline {
                tracing::warn!(server = self.stderr.server, "what the server started cannot be ended");
                return Cleared::No;
            }
            if !killed && (Instant::now() >= deadline || self.stop.at_once.load(Ordering::Relaxed)) {
                (killed, deadline) = (true, Instant::now() + KILLED);
            }
            // Every time: what is being killed may have started more.
            if killed {
                self.group.kill();
            }
            sleep(ask).await;
            ask = (ask * 2).min(ASK_LATER);
        }
        Cleared::Yes
    }
}

impl Stage {
    fn deadline(self) -> Option<Instant> {
        match self {
            Self::Serving => None,
            Self::AfterEof(deadline) | Self::AfterTerm(deadline) | Self::AfterKill(deadline) => {
                Some(deadline)
            }
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The reading end of stderr, and what is kept of it.
pub(super) struct Stderr {
    io: Option<ChildStderr>,
    buffer: BytesMut,
    tail: Arc<Mutex<Tail>>,
    server: String,
}

/// How much of stderr is read at once.
const READ: usize = 16 * 1024;

impl Stderr {
    pub(super) fn new(io: Option<ChildStderr>, tail: Arc<Mutex<Tail>>, server: &str) -> Self {
        Self { io, buffer: BytesMut::new(), tail, server: server.to_owned() }
    }

    fn is_open(&self) -> bool {
        self.io.is_some()
    }

    /// Reads once. Dropping the future loses nothing.
    async fn fill(&mut self) {
        let Some(io) = &mut self.io else { return };
        self.buffer.clear();
        self.buffer.reserve(READ);
        let read = io.read_buf(&mut self.buffer).await;
        let log = |line: &str| tracing::debug!(target: "bowline::stderr", server = self.server, "{}", line.escape_debug());
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
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
    use super::super::record::{Record, read};
    use super::*;

    /// Sees to the end of a server that leaves a child behind; gives how many records there are then.
    async fn records_left(spawn: fn(Command, &Mark) -> io::Result<Group>) -> usize {
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
            stderr: Stderr::new(None, Arc::default(), "files"),
            grace: Grace { eof: Duration::ZERO, term: Duration::ZERO },
            stop: Arc::default(),
            life: watch::Sender::new(Life::Running),
            record: Some(record),
        };
        supervisor.run().await;
        read(folder.path()).unwrap().len()
    }

    #[tokio::test]
    async fn what_cannot_be_ended_stays_written_down() {
        assert_eq!(records_left(Group::spawn_hanging).await, 1);
    }

    #[tokio::test]
    async fn what_was_ended_is_forgotten() {
        assert_eq!(records_left(Group::spawn).await, 0);
    }
}
