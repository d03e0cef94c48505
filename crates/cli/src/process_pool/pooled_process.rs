//! [`PooledProcess`]: a process of a server that is kept running, and the command that uses it at the moment.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bowline::types::{code, method};
use bowline::{Cause, Fault, Id, Json, RpcError};
use bowline_proto::wire::outgoing::{self, Frame};
use bowline_proto::wire::{self, Message};
use bowline_transport::pipe::{FrameReader as _, InboundFrame, PipeWriter, Urgency};
use bowline_transport::process::{self, AttachedLine, Grace, Handle, Launch, ProcessReader, StderrListener};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::session_record::{Passage, SessionRecord};
use super::{PooledServer, Shared};

/// A process of a server. What reads it holds a clone of its `Arc`, so it runs until it ends by itself or is closed:
/// whoever has it from the pool has to keep it there or close it.
pub(super) struct PooledProcess {
    writer: PipeWriter,
    handle: Handle,
    /// Locked before `state`, if both are.
    command: Arc<Mutex<CommandSlot>>,
    state: Mutex<ProcessState>,
}

/// The command that uses a process.
#[derive(Default)]
struct CommandSlot {
    /// Writes to it, if there is one.
    writer: Option<PipeWriter>,
    /// What the process has written, beside messages, since the last command: at most [`MAX_EARLY_LINES`].
    early_lines: VecDeque<Frame>,
}

#[derive(Default)]
struct ProcessState {
    record: SessionRecord,
    /// How many probes were sent.
    probes: u64,
    /// Told of the response to the probe with this number.
    probe: Option<(u64, oneshot::Sender<()>)>,
    has_ended: bool,
}

impl PooledProcess {
    /// Starts a process.
    pub(super) async fn start(
        pool: &Arc<Shared>,
        server: &PooledServer,
        folder: Option<&Path>,
    ) -> Result<Arc<Self>, Fault> {
        let mut program = server.program.clone();
        if let Some(folder) = folder {
            program.cwd = Some(folder.to_owned());
        }
        let command = Arc::<Mutex<CommandSlot>>::default();
        let listening = Arc::clone(&command);
        let stderr = StderrListener::new(move |line| {
            let line = AttachedLine::Stderr(line).to_frame();
            if let Some(command) = listening.lock().writer_or_keep(&line) {
                // A command that does not read misses it.
                let _ = command.try_send(&line, Urgency::Batched);
            }
        });
        let started = process::spawn(Launch {
            name: &server.name,
            stdio: &program,
            limit: server.message_limit,
            grace: Grace::default(),
            records: pool.process_records.as_deref(),
            watchdog: true,
            stderr: Some(&stderr),
        });
        let started = started.await?;
        let process = Arc::new(Self {
            writer: started.writer,
            handle: started.handle,
            command,
            state: Mutex::default(),
        });
        tokio::spawn(Arc::clone(&process).read(started.reader, Arc::downgrade(pool)));
        Ok(process)
    }

    /// Gives it to a command with these roots. The first one also gets what it has written as it started.
    pub(super) fn begin_command(&self, command: PipeWriter, roots: &str) {
        let mut slot = self.command.lock();
        let mut state = self.state.lock();
        state.record.begin_command(roots);
        let was_used = state.record.was_used();
        for line in slot.early_lines.drain(..).filter(|_| !was_used) {
            let _ = command.try_send(&line, Urgency::Batched);
        }
        if state.has_ended {
            command.close();
        } else {
            slot.writer = Some(command);
        }
    }

    /// Takes it from the command. Returns whether another one can use it.
    pub(super) fn end_command(&self) -> bool {
        let mut slot = self.command.lock();
        slot.writer = None;
        let mut state = self.state.lock();
        state.record.end_command();
        !state.has_ended && state.record.is_reusable()
    }

    /// Looks at what is known of its session.
    pub(super) fn with_record<T>(&self, look: impl FnOnce(&SessionRecord) -> T) -> T {
        look(&self.state.lock().record)
    }

    /// Sends a frame of the command to the server. Fails if the process cannot be written to, whose end the command
    /// is told otherwise.
    pub(super) async fn forward(&self, frame: &Bytes, messages: &[Message]) -> Result<(), Fault> {
        let passage = {
            let mut state = self.state.lock();
            let passages: Vec<_> =
                messages.iter().map(|message| state.record.command_message(message)).collect();
            if !passages.is_empty() && passages.iter().all(|passage| *passage == Passage::Drop) {
                Passage::Drop
            } else {
                Passage::Forward
            }
        };
        match passage {
            Passage::Forward => self.writer.send(&Frame::from_line(frame)).await,
            Passage::Drop => Ok(()),
        }
    }

    /// Whether the process has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().has_ended
    }

    /// Whether the server answers at all, within `limit`. A process that was stopped or that hangs does not, and a
    /// command would wait for it until its time is up.
    pub(super) async fn answers_within(&self, limit: Duration) -> bool {
        let (answered, answer) = oneshot::channel();
        let number = {
            let mut state = self.state.lock();
            if state.has_ended {
                return false;
            }
            state.probes += 1;
            state.probe = Some((state.probes, answered));
            state.probes
        };
        // Any response to it will do.
        let probe = format!(r#"{{"jsonrpc":"2.0","id":"{PROBE_ID_PREFIX}{number}","method":"ping"}}"#);
        let asked = async {
            self.writer.send(&Frame::from_line(probe.as_bytes())).await.ok()?;
            answer.await.ok()
        };
        matches!(timeout(limit, asked).await, Ok(Some(())))
    }

    /// Ends it in good order.
    pub(super) async fn close(&self) {
        self.handle.shutdown().await;
    }

    /// Reads what the server writes, to its end.
    async fn read(self: Arc<Self>, mut reader: ProcessReader, pool: Weak<Shared>) {
        let fault = loop {
            match reader.recv().await {
                Ok(InboundFrame::Message(frame)) => self.receive(&frame).await,
                Ok(InboundFrame::Noise(line)) => self.tell(&AttachedLine::Noise(&line).to_frame()).await,
                Ok(InboundFrame::TooLarge { head, .. }) => {
                    self.tell(&AttachedLine::TooLarge(&head).to_frame()).await;
                }
                Err(fault) => break fault,
            }
        };
        let (command, is_in_use) = {
            let mut slot = self.command.lock();
            let mut state = self.state.lock();
            state.has_ended = true;
            state.probe = None;
            (slot.writer.take(), state.record.is_in_use())
        };
        if let Some(command) = command {
            // If the command has sent nothing yet, it starts a process itself, as if there had been none here.
            if let (true, Cause::Exited(exit)) = (is_in_use, &fault.cause) {
                let _ = command.send(&AttachedLine::Exit(*exit).to_frame()).await;
            }
            command.close();
        }
        if let Some(pool) = pool.upgrade() {
            pool.forget(&self);
        }
        self.close().await;
    }

    /// Takes a frame of the server.
    async fn receive(&self, frame: &Bytes) {
        let mut answers = Vec::new();
        let (command, is_forwarded) = {
            // Held until the message is recorded: what is sent to a command that leaves now is still open then.
            let slot = self.command.lock();
            let command = slot.writer.clone();
            let mut is_forwarded = command.is_some();
            let mut state = self.state.lock();
            wire::parse(frame, |message| {
                let Ok(message) = message else { return };
                match &message {
                    Message::Result { id, .. } | Message::Error { id: Some(id), .. }
                        if probe_number(id).is_some() =>
                    {
                        is_forwarded = false;
                        state.receive_probe_response(id);
                    }
                    message if command.is_some() => {
                        is_forwarded &= state.record.server_message(message) == Passage::Forward;
                    }
                    Message::Request { id, method, .. } => {
                        answers.push(answer_for_nobody(id, method));
                        // The server may remember the error, such as that there are no roots.
                        if **method != *method::PING {
                            state.record.spend();
                        }
                    }
                    _ => {}
                }
            });
            (command, is_forwarded)
        };
        match command {
            Some(command) if is_forwarded => {
                // If it has left, its process is not used again.
                let _ = command.send(&Frame::from_line(frame)).await;
            }
            _ => {
                for answer in answers {
                    let _ = self.writer.send(&answer).await;
                }
            }
        }
    }

    /// Sends a line to the command that uses it, or keeps it for the first one.
    async fn tell(&self, line: &Frame) {
        let command = self.command.lock().writer_or_keep(line);
        if let Some(command) = command {
            let _ = command.send(line).await;
        }
    }
}

impl ProcessState {
    /// Takes the response to a probe. One to an earlier probe has no effect.
    fn receive_probe_response(&mut self, id: &Id) {
        let number = probe_number(id);
        if let Some((_, probe)) = self.probe.take_if(|(awaited, _)| Some(*awaited) == number) {
            let _ = probe.send(());
        }
    }
}

impl CommandSlot {
    /// Returns what writes to the command. If there is none, the line is kept.
    fn writer_or_keep(&mut self, line: &Frame) -> Option<PipeWriter> {
        if self.writer.is_none() && line.line().len() <= MAX_EARLY_LINE_BYTES {
            if self.early_lines.len() == MAX_EARLY_LINES {
                self.early_lines.pop_front();
            }
            self.early_lines.push_back(line.clone());
        }
        self.writer.clone()
    }
}

/// The response to a request of the server while no command uses it.
fn answer_for_nobody(id: &Id, method: &str) -> Frame {
    if method == method::PING {
        return outgoing::response(id, Ok(&Json::empty_object()));
    }
    outgoing::response(id, Err(&RpcError::new(code::INTERNAL_ERROR, "no client is connected")))
}

/// The number of the probe with this id. `None` if it is the id of something else.
fn probe_number(id: &Id) -> Option<u64> {
    let Id::Text(text) = id else { return None };
    text.as_str().strip_prefix('"')?.strip_prefix(PROBE_ID_PREFIX)?.strip_suffix('"')?.parse().ok()
}

/// As many as a fault shows.
const MAX_EARLY_LINES: usize = 64;
const MAX_EARLY_LINE_BYTES: usize = 4096;
/// A number follows: a late response to one probe must not be taken for that to the next.
const PROBE_ID_PREFIX: &str = "bowline-probe-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_response_to_one_probe_is_not_that_to_the_next() {
        let (answered, mut answer) = oneshot::channel();
        let mut state = ProcessState { probe: Some((2, answered)), ..ProcessState::default() };
        let id = |number: u64| Id::Text(Json::parse(format!(r#""{PROBE_ID_PREFIX}{number}""#)).unwrap());
        state.receive_probe_response(&id(1));
        assert!(answer.try_recv().is_err());
        state.receive_probe_response(&id(2));
        assert_eq!(answer.try_recv(), Ok(()));
    }
}
