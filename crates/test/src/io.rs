//! [`FakeIoServer`]: the fake server on byte streams, one JSON-RPC message per line.

use std::collections::HashMap;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use bowline::{Client, Server};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::control::FakeControl;
use crate::engine::{Engine, Response, STREAM_SESSION};
use crate::fake_server::FakeServer;
use crate::listeners::{Audience, Notifications};
use crate::request_outcome::RequestOutcome;

/// A fake server on byte streams in this process, for [`ClientBuilder::connect_io`].
///
/// It serves one connection: when that has ended, so has the server.
///
/// [`ClientBuilder::connect_io`]: bowline::ClientBuilder::connect_io
pub struct FakeIoServer {
    control: FakeControl,
    streams: Mutex<Option<ClientStreams>>,
    task: AbortHandle,
}

/// The client's ends of the streams: what it reads, and what it writes to.
type ClientStreams = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

impl FakeServer {
    /// Serves over byte streams in this process, without the operating system. Works with a paused
    /// clock; see the [crate documentation](crate#a-paused-clock).
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn serve_io(self) -> FakeIoServer {
        let engine = Arc::new(Engine::new(self));
        let (client, server) = duplex(BUFFER_BYTES);
        let serving = Arc::clone(&engine);
        let serve_until_end = async move {
            // An error means that the client left.
            let _ = serve(&serving, server).await;
            serving.end();
        };
        let task = tokio::spawn(serve_until_end).abort_handle();
        FakeIoServer { control: FakeControl { engine }, streams: Mutex::new(Some(split(client))), task }
    }
}

impl FakeIoServer {
    /// Connects a client without further settings. Dropping the future closes the streams.
    ///
    /// # Panics
    /// If the streams are already taken.
    pub async fn connect(&self) -> bowline::Result<Client> {
        let (reader, writer) = self.streams();
        Client::builder(self.server()).connect_io(reader, writer).await
    }

    /// Takes the client's ends of the streams: what it reads, and what it writes to.
    ///
    /// # Panics
    /// If they are already taken: the server serves one connection.
    pub fn streams(&self) -> (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>) {
        self.streams.lock().take().expect("the streams are taken once")
    }

    /// Returns an entry for [`Client::builder`] with the server's name and default limits. There is
    /// no program behind it: it is for [`ClientBuilder::connect_io`](bowline::ClientBuilder::connect_io) only.
    pub fn server(&self) -> Server {
        Server::stdio(self.control.engine.script.name.clone(), "in-process")
            .build()
            .expect("the entry has no setting that could be invalid")
    }

    /// Returns a handle that outlives the server.
    pub fn control(&self) -> FakeControl {
        self.control.clone()
    }
}

impl Deref for FakeIoServer {
    type Target = FakeControl;

    fn deref(&self) -> &FakeControl {
        &self.control
    }
}

impl Drop for FakeIoServer {
    fn drop(&mut self) {
        self.task.abort();
        self.control.engine.end();
    }
}

impl std::fmt::Debug for FakeIoServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FakeIoServer").field(&self.control).finish()
    }
}

/// How many bytes each direction holds before its writer waits: as many as a pipe of the system.
const BUFFER_BYTES: usize = 64 * 1024;

/// Serves the connection until the client closes it, or a fault cuts it.
async fn serve(engine: &Arc<Engine>, stream: DuplexStream) -> io::Result<()> {
    let (reader, mut writer) = split(stream);
    let mut lines = BufReader::new(reader).lines();
    let (outbox, mut outgoing) = mpsc::unbounded_channel::<Value>();
    // Ends the running calls when the connection ends.
    let mut tasks = JoinSet::new();
    let mut running: HashMap<String, AbortHandle> = HashMap::new();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line?,
            Some(message) = outgoing.recv() => {
                writer.write_all(format!("{message}\n").as_bytes()).await?;
                continue;
            }
            Some(_) = tasks.join_next() => continue,
        };
        let Some(line) = line else { return Ok(()) };
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let faults = engine.receive(&message);
        if faults.cut {
            return Ok(());
        }
        if message["method"].is_null() {
            engine.handle_response(&message);
        } else if message["id"].is_null() {
            if message["method"] == "notifications/cancelled" {
                let canceled = &message["params"]["requestId"];
                if let Some(call) = running.remove(&canceled.to_string()) {
                    call.abort();
                }
                engine.cancel_parked(canceled);
            }
        } else {
            let (engine, outbox, id) = (Arc::clone(engine), outbox.clone(), message["id"].to_string());
            let task = tasks.spawn(async move {
                if let Some(delay) = faults.delay {
                    tokio::time::sleep(delay).await;
                }
                answer(&engine, &message, &outbox).await;
            });
            running.retain(|_, task| !task.is_finished());
            running.insert(id, task);
        }
    }
}

/// Answers one request. What the connection no longer takes is dropped.
async fn answer(engine: &Arc<Engine>, message: &Value, outbox: &mpsc::UnboundedSender<Value>) {
    let id = &message["id"];
    if message["method"] == "initialize" {
        let answer = engine.initialize(STREAM_SESSION, &message["params"]);
        let is_open = matches!(answer, RequestOutcome::Result(_));
        let _ = outbox.send(answer.into_message(id));
        if is_open {
            let audience = Audience::Session(STREAM_SESSION.to_owned());
            let notifications = engine.state.lock().listeners.listen(audience);
            forward(notifications, outbox).await;
        }
        return;
    }
    let answer = match engine.start(STREAM_SESSION, message) {
        Response::Ready(answer) => answer,
        Response::Running(call) => engine.finish(call, |message| drop(outbox.send(message))).await,
        Response::Subscription(acknowledged, notifications) => {
            let _ = outbox.send(acknowledged);
            return forward(notifications, outbox).await;
        }
    };
    let _ = outbox.send(answer.into_message(id));
}

/// Sends notifications until the connection ends, which drops this.
async fn forward(mut notifications: Notifications, outbox: &mpsc::UnboundedSender<Value>) {
    while let Some(message) = notifications.recv().await {
        let _ = outbox.send(message);
    }
}
