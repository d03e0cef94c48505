//! The end of the command: it looks for a pool that has a process of its server, and asks for it. Whatever is in the
//! way of that, the command starts the process itself.

use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline::host::Root;
use bowline::{Builder, Server};
use bowline_store::private::refuse_shared_folder;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::lease::{AttachReply, AttachRequest};
use super::process_key::starting_folder;
use super::{SOCKET_EXTENSION, pooled_program};
use crate::key_hasher::KeyHasher;
use crate::private_socket::is_same_user;
use crate::settings::Settings;

/// Whether a command may use a process that `bowline serve` keeps, and whether it does.
#[derive(Debug, Default)]
pub(crate) struct PoolUse {
    is_allowed: AtomicBool,
    is_attached: AtomicBool,
}

/// A process that `bowline serve` keeps, for this command.
pub(crate) struct Attachment(UnixStream);

impl PoolUse {
    /// Says whether the server that was resolved may be used over a pool.
    pub(crate) fn set_allowed(&self, is_allowed: bool) {
        self.is_allowed.store(is_allowed, Ordering::Relaxed);
    }

    /// Whether the last connection used a process that outlives this command.
    pub(crate) fn is_attached(&self) -> bool {
        self.is_attached.load(Ordering::Relaxed)
    }
}

impl Attachment {
    /// Has a client use the process.
    pub(crate) fn add_to(self, builder: Builder) -> Builder {
        let (reader, writer) = self.0.into_split();
        builder.attached(reader, writer)
    }
}

/// Asks the pools of this user for a process of `server`, for at most [`ATTACH_TIMEOUT`]. `None` if there is none, or
/// if the command is to start its own.
pub(crate) async fn attach(settings: &Settings, server: &Server, roots: &[Root]) -> Option<Attachment> {
    let pool_use = &settings.pool_use;
    pool_use.is_attached.store(false, Ordering::Relaxed);
    if !pool_use.is_allowed.load(Ordering::Relaxed) {
        return None;
    }
    let (program, key) = pooled_program(server)?;
    let sockets = find_sockets(settings);
    if sockets.is_empty() {
        return None;
    }
    let request = AttachRequest { key, folder: starting_folder(program).ok()?, roots: hash_roots(roots) };
    let mut line = serde_json::to_vec(&request).ok()?;
    line.push(b'\n');
    let asking: FuturesUnordered<_> = sockets.iter().map(|socket| ask(socket, &line)).collect();
    let mut offers = std::pin::pin!(asking.filter_map(async |offer| offer));
    let offer = timeout(ATTACH_TIMEOUT, offers.next()).await.ok().flatten();
    let stream = match offer {
        Some(offer) => timeout(START_TIMEOUT, accept(offer)).await.ok().flatten(),
        None => None,
    };
    tracing::debug!(
        server = server.name,
        found = stream.is_some(),
        "looked for a process that is kept running"
    );
    pool_use.is_attached.store(stream.is_some(), Ordering::Relaxed);
    stream.map(Attachment)
}

/// The sockets of the pools of this user.
fn find_sockets(settings: &Settings) -> Vec<PathBuf> {
    let folders = settings.socket_folders();
    let folders = folders.into_iter().filter(|folder| refuse_shared_folder(folder).is_ok());
    let files = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let paths = files.map(|file| file.path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == SOCKET_EXTENSION))
        .take(MAX_SOCKETS)
        .collect()
}

/// Asks one pool. The socket of a process that was killed is removed.
async fn ask(socket: &Path, line: &[u8]) -> Option<UnixStream> {
    let mut stream = match UnixStream::connect(socket).await {
        Ok(stream) => stream,
        Err(error) => {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                let _ = std::fs::remove_file(socket);
            }
            return None;
        }
    };
    if !is_same_user(&stream) {
        return None;
    }
    stream.write_all(line).await.ok()?;
    is_granted(&mut stream).await.then_some(stream)
}

/// Accepts the offer of a pool, and waits until it has a process.
async fn accept(mut stream: UnixStream) -> Option<UnixStream> {
    stream.write_all(b"{}\n").await.ok()?;
    is_granted(&mut stream).await.then_some(stream)
}

/// Reads a reply, byte by byte, so that nothing is read of what follows.
async fn is_granted(stream: &mut UnixStream) -> bool {
    let mut reply = Vec::new();
    while reply.len() < MAX_REPLY_BYTES {
        match stream.read_u8().await {
            Ok(b'\n') => break,
            Ok(byte) => reply.push(byte),
            Err(_) => return false,
        }
    }
    serde_json::from_slice(&reply).is_ok_and(|reply: AttachReply| reply.granted)
}

fn hash_roots(roots: &[Root]) -> String {
    let mut hasher = KeyHasher::default();
    hasher.write_usize(roots.len());
    roots.iter().for_each(|root| format!("{root:?}").hash(&mut hasher));
    hasher.finish_hex()
}

/// How long all pools together may take to answer. A `bowline serve` that was stopped never does.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the pool that has answered may take to start a process.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How many pools are asked.
const MAX_SOCKETS: usize = 16;
const MAX_REPLY_BYTES: usize = 256;
