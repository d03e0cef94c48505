//! One command that uses a process: which process it gets, and what passes between the two.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline::types::method;
use bowline::{Fault, Id, Json};
use bowline_proto::wire::outgoing::{self, Frame};
use bowline_proto::wire::{self, Message};
use bowline_transport::pipe::{FrameReader as _, InboundFrame, PipeReader, PipeWriter, pipe};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::pooled_process::PooledProcess;
use super::process_key::ProcessKey;
use super::session_record::{InitializeIdentity, SessionRecord};
use super::{PoolSlot, Shared};

/// The first line of a command: which process it wants.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AttachRequest {
    pub(super) key: ProcessKey,
    /// The folder that the program runs in, if it depends on where it is started.
    pub(super) folder: Option<PathBuf>,
    /// A hash of the files of the program.
    pub(super) files: String,
    /// The roots of the command, as a hash.
    pub(super) roots: String,
}

/// What the pool replies: at once, whether it has the server; and when the command has agreed, by any line, whether
/// there is a process. Then messages follow.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AttachReply {
    pub(super) granted: bool,
    /// Whether a process waits for such a command.
    pub(super) has_idle: bool,
}

/// Serves one command to its end.
pub(super) async fn serve(pool: Arc<Shared>, stream: UnixStream) {
    let (reader, writer) = stream.into_split();
    let (command, mut reader) = pipe(reader, writer, MAX_COMMAND_MESSAGE_BYTES);
    let Some(request) = read_request(&mut reader).await else { return };
    let slot = PoolSlot { key: request.key, folder: request.folder, files: request.files };
    let granted = pool.has_room() && pool.server(&slot).is_some();
    if !reply(&command, &AttachReply { granted, has_idle: granted && pool.has_idle(&slot) }).await {
        return;
    }
    // The command may have taken the offer of another pool.
    let Ok(Ok(InboundFrame::Message(_))) = timeout(REQUEST_TIMEOUT, reader.recv()).await else { return };
    // Every command asks every pool, so one that only asks does not count as a use of this one.
    let guard = pool.begin_lease();
    pool.close_outdated(&slot);
    let granted = guard.is_some() && prepare(&pool, &slot).await;
    if !reply(&command, &AttachReply { granted, has_idle: granted }).await {
        return;
    }
    let ended = pool.ended.clone();
    let mut lease = Lease { pool, slot, roots: request.roots, command, process: None };
    let serving = async {
        while let Ok(InboundFrame::Message(frame)) = reader.recv().await {
            if lease.handle(&frame).await.is_err() {
                break;
            }
        }
    };
    ended.run_until_cancelled(serving).await;
}

async fn read_request(reader: &mut PipeReader) -> Option<AttachRequest> {
    match timeout(REQUEST_TIMEOUT, reader.recv()).await {
        Ok(Ok(InboundFrame::Message(line))) => serde_json::from_slice(&line).ok(),
        _ => None,
    }
}

/// Sends a reply. Returns whether it grants what was asked for, and was sent.
async fn reply(command: &PipeWriter, reply: &AttachReply) -> bool {
    let line = serde_json::to_vec(reply).expect("it is JSON");
    command.send(&Frame::from_line(&line)).await.is_ok() && reply.granted
}

/// The stdin of a process has no limit either, and only the user can send anything here.
const MAX_COMMAND_MESSAGE_BYTES: usize = usize::MAX;
/// How long a command may take to say what it wants.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server may leave its full stdin unread.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Whether there is a process for a slot. If none waits, one is started, so that a program that cannot be started is
/// the command's own affair.
async fn prepare(pool: &Arc<Shared>, slot: &PoolSlot) -> bool {
    if pool.has_idle(slot) {
        return true;
    }
    match pool.start(slot).await {
        Ok(process) => {
            pool.keep(slot, process);
            true
        }
        Err(fault) => {
            tracing::debug!(?fault, "a process could not be started for a command");
            false
        }
    }
}

/// A command, and the process that it uses. The process is given back when this is dropped.
struct Lease {
    pool: Arc<Shared>,
    slot: PoolSlot,
    roots: String,
    /// Writes to the command.
    command: PipeWriter,
    /// Chosen by the first message that needs it.
    process: Option<Arc<PooledProcess>>,
}

/// Why a lease ends before the command does.
struct LeaseEnd;

impl From<Fault> for LeaseEnd {
    fn from(_: Fault) -> Self {
        Self
    }
}

impl Lease {
    /// Takes a frame of the command.
    async fn handle(&mut self, frame: &Bytes) -> Result<(), LeaseEnd> {
        let mut messages = Vec::new();
        wire::parse(frame, |message| messages.extend(message.ok()));
        let process = if let Some(process) = &self.process {
            Arc::clone(process)
        } else {
            if let [Message::Request { id, method, params }] = &*messages
                && self.answer(id, method, params.as_ref()).await?
            {
                return Ok(());
            }
            self.choose().await?
        };
        // While this waits, it is not noticed that the command has left.
        let forwarded = timeout(STALL_TIMEOUT, process.forward(frame, &messages)).await;
        // Whoever reads the process reports that it cannot be written to.
        let _ = forwarded.map_err(|_| LeaseEnd)?;
        Ok(())
    }

    /// Answers the first request of a command, if an earlier command has got the answer. Returns whether it did.
    async fn answer(&mut self, id: &Id, asked: &str, params: Option<&Json>) -> Result<bool, LeaseEnd> {
        match asked {
            method::INITIALIZE => {
                let identity = InitializeIdentity::of(params);
                let result = |process: &PooledProcess| {
                    process.with_record(|record| record.initialize_result(&identity, &self.roots).cloned())
                };
                let Some(process) = self.pool.take(&self.slot, |process| result(process).is_some()).await
                else {
                    return Ok(false);
                };
                let Some(result) = result(&process) else {
                    self.pool.spawn_close(process);
                    return Ok(false);
                };
                self.bind(process);
                self.command.send(&outgoing::response(id, Ok(&result))).await?;
                Ok(true)
            }
            // A server whose session can be gone on with has refused this before.
            method::DISCOVER => {
                let Some(refusal) = self.pool.discover_refusal(&self.slot) else { return Ok(false) };
                self.command.send(&outgoing::response(id, Err(&refusal))).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Chooses a process without a session: one that waits, or a new one.
    async fn choose(&mut self) -> Result<Arc<PooledProcess>, LeaseEnd> {
        let has_no_session = |process: &PooledProcess| process.with_record(SessionRecord::has_no_session);
        let process = match self.pool.take(&self.slot, has_no_session).await {
            Some(process) => process,
            None => self.pool.start(&self.slot).await.map_err(|_| LeaseEnd)?,
        };
        Ok(self.bind(process))
    }

    fn bind(&mut self, process: Arc<PooledProcess>) -> Arc<PooledProcess> {
        process.begin_command(self.command.clone(), &self.roots);
        Arc::clone(self.process.insert(process))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(process) = self.process.take() else { return };
        let is_reusable = process.end_command();
        if is_reusable {
            self.pool.keep(&self.slot, process);
        } else {
            self.pool.spawn_close(process);
        }
    }
}

#[cfg(test)]
mod tests {
    use bowline::Server;

    use super::super::{MAX_IDLE, pooled_program};
    use super::*;

    /// A pool with one server, and a slot of it for each number.
    fn open_pool() -> (Arc<Shared>, impl Fn(usize) -> PoolSlot) {
        let server = Server::stdio("s", "cat").build().unwrap();
        let (_, key) = pooled_program(&server).unwrap();
        let pool = Arc::new(Shared::new(None));
        pool.set_servers(&[server]);
        let slot = move |number: usize| PoolSlot {
            key: key.clone(),
            folder: Some("/".into()),
            files: number.to_string(),
        };
        (pool, slot)
    }

    /// Returns the reply to a command that then leaves.
    async fn ask(pool: &Arc<Shared>, PoolSlot { key, folder, files }: PoolSlot) -> AttachReply {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let serving = tokio::spawn(serve(Arc::clone(pool), theirs));
        let (reader, writer) = ours.into_split();
        let (writer, mut reader) = pipe(reader, writer, 1024);
        let request = AttachRequest { key, folder, files, roots: String::new() };
        writer.send(&Frame::from_line(&serde_json::to_vec(&request).unwrap())).await.unwrap();
        let Ok(InboundFrame::Message(line)) = reader.recv().await else { panic!("there is no reply") };
        drop((writer, reader));
        serving.await.unwrap();
        serde_json::from_slice(&line).unwrap()
    }

    /// If it were ended instead of another one, the command would start a second process.
    #[tokio::test]
    async fn a_process_that_was_just_started_is_kept_in_a_full_pool() {
        let (pool, slot) = open_pool();
        for number in 0..=MAX_IDLE {
            assert!(prepare(&pool, &slot(number)).await);
            assert!(pool.has_idle(&slot(number)), "{number}");
        }
        let kept: Vec<_> = (0..=MAX_IDLE).filter(|number| pool.has_idle(&slot(*number))).collect();
        assert_eq!(kept, (1..=MAX_IDLE).collect::<Vec<_>>(), "the one that has waited longest is ended");
        pool.closing.close();
        pool.closing.wait().await;
    }

    #[tokio::test]
    async fn a_reply_says_whether_a_process_waits_and_counts_as_no_use() {
        let (pool, slot) = open_pool();
        let last_use = pool.state.lock().last_use;
        let first = ask(&pool, slot(1)).await;
        assert_eq!((first.granted, first.has_idle), (true, false));
        assert!(prepare(&pool, &slot(1)).await);
        let second = ask(&pool, slot(1)).await;
        assert_eq!((second.granted, second.has_idle), (true, true));
        let other = ask(&pool, slot(2)).await;
        assert_eq!((other.granted, other.has_idle), (true, false));
        assert_eq!(pool.state.lock().last_use, last_use);
    }
}
