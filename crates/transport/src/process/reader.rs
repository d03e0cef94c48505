//! Reads the stdout of a process, and ends with the reason why it ended.
//!
//! Stdout can end before the process does, and the process before its stdout: something it started
//! may hold the pipe open forever. Whichever comes first, the other is waited for only briefly.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_proto::fault::{Cause, Exit, Fault};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep};

use super::line_tail::LineTail;
use super::supervise::ProcessPhase;
use crate::pipe::{FrameReader, InboundFrame, PipeReader};
use crate::redact::Redactor;

/// The receiving half of a server process.
pub struct ProcessReader {
    pipe: PipeReader,
    /// Resolves with the exit of the process. Kept across polls, which makes polling cheap; not
    /// polled again once it is ready.
    exit: Pin<Box<dyn Future<Output = Exit> + Send>>,
    /// What the process wrote to stderr.
    tail: Arc<Mutex<LineTail>>,
    /// What it wrote to stdout that is no message, such as how it is used.
    noise: LineTail,
    stage: Stage,
    /// Removes the secrets that the server was given.
    redactor: Arc<Redactor>,
}

enum Stage {
    Open,
    /// Stdout ended with this fault; the exit of the process is awaited until the timer ends.
    StdoutClosed(Fault, Pin<Box<Sleep>>),
    /// The process ended; the rest of the pipe is read until it is idle, or until the deadline.
    Draining(Exit, Pin<Box<Sleep>>, Instant),
    Ended(Fault),
}

/// How long a process may take to exit after it closed its stdout, before its exit counts as
/// unknown.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long the pipe of an ended process may be idle. Its output is in the pipe already; this is
/// the time the system takes to deliver it.
const DRAIN_IDLE_TIMEOUT: Duration = Duration::from_millis(100);
/// How long the pipe of an ended process is read in any case, if something it started floods it.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

impl ProcessReader {
    pub(super) fn new(
        pipe: PipeReader,
        mut phase: watch::Receiver<ProcessPhase>,
        tail: Arc<Mutex<LineTail>>,
        redactor: Arc<Redactor>,
    ) -> Self {
        let exit = async move {
            // Without a supervisor the process was killed with the runtime.
            let life = phase.wait_for(|life| life.exit().is_some()).await.map(|life| *life);
            life.ok().and_then(ProcessPhase::exit).unwrap_or(Exit::Eof)
        };
        let noise = LineTail::default();
        Self { pipe, exit: Box::pin(exit), tail, noise, stage: Stage::Open, redactor }
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<InboundFrame, Fault>> {
        loop {
            let fault = match &mut self.stage {
                Stage::Open => match self.pipe.poll_recv(cx) {
                    Poll::Ready(Err(fault)) => {
                        self.stage = Stage::StdoutClosed(fault, Box::pin(sleep(EXIT_TIMEOUT)));
                        continue;
                    }
                    Poll::Ready(received) => return Poll::Ready(received),
                    Poll::Pending => match self.exit.as_mut().poll(cx) {
                        Poll::Ready(exit) => {
                            let until = Instant::now() + DRAIN_TIMEOUT;
                            self.stage = Stage::Draining(exit, Box::pin(sleep(DRAIN_IDLE_TIMEOUT)), until);
                            continue;
                        }
                        Poll::Pending => return Poll::Pending,
                    },
                },
                Stage::StdoutClosed(fault, wait) => match self.exit.as_mut().poll(cx) {
                    Poll::Ready(Exit::Eof) => fault.clone(),
                    Poll::Ready(exit) => exit_fault(exit),
                    Poll::Pending => match wait.as_mut().poll(cx) {
                        Poll::Ready(()) => fault.clone(),
                        Poll::Pending => return Poll::Pending,
                    },
                },
                Stage::Draining(exit, quiet, until) => match self.pipe.poll_recv(cx) {
                    Poll::Ready(Ok(received)) if Instant::now() < *until => {
                        return Poll::Ready(Ok(received));
                    }
                    Poll::Ready(_) => exit_fault(*exit),
                    Poll::Pending => match quiet.as_mut().poll(cx) {
                        Poll::Ready(()) => exit_fault(*exit),
                        Poll::Pending => return Poll::Pending,
                    },
                },
                Stage::Ended(fault) => return Poll::Ready(Err(fault.clone())),
            };
            let stderr = self.tail.lock().lines();
            self.stage = Stage::Ended(fault.with_stderr(stderr).with_stdout(self.noise.lines()));
        }
    }
}

/// Redaction of what the server writes.
impl ProcessReader {
    fn redact(&self, received: InboundFrame) -> InboundFrame {
        let text =
            |line: &[u8]| Bytes::from(self.redactor.redact_text(&String::from_utf8_lossy(line)).into_owned());
        match received {
            _ if self.redactor.is_empty() => received,
            InboundFrame::Message(frame) => InboundFrame::Message(self.redactor.redact_json(frame)),
            InboundFrame::Noise(line) => InboundFrame::Noise(text(&line)),
            InboundFrame::TooLarge { head, limit } => InboundFrame::TooLarge { head: text(&head), limit },
        }
    }
}

fn exit_fault(exit: Exit) -> Fault {
    Fault::new(Cause::Exited(exit))
}

impl FrameReader for ProcessReader {
    async fn recv(&mut self) -> Result<InboundFrame, Fault> {
        let received = poll_fn(|cx| self.poll_recv(cx)).await?;
        let received = self.redact(received);
        if let InboundFrame::Noise(line) = &received {
            self.noise.push(line, |_| ());
            self.noise.finish(|_| ());
        }
        Ok(received)
    }
}

impl fmt::Debug for ProcessReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessReader").field("pipe", &self.pipe).finish_non_exhaustive()
    }
}
