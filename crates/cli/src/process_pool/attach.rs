//! The end of the command: it looks for a pool that has a process of its server, and asks for it. Whatever is in the
//! way of that, the command starts the process itself.

use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline::host::Root;
use bowline::{ClientBuilder, Server};
use bowline_store::private::refuse_shared_folder;
use futures_util::future::ready;
use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt as _};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::lease::{AttachReply, AttachRequest};
use super::process_key::{hash_files, starting_folder};
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

/// The offer of a pool that has the server.
#[derive(Debug)]
struct Offer {
    stream: UnixStream,
    /// Whether a process waits there. It may have what an earlier command has left in its memory, such as a task.
    has_idle: bool,
}

impl PoolUse {
    /// Says whether the server that was resolved may be used over a pool.
    pub(crate) fn set_allowed(&self, is_allowed: bool) {
        self.is_allowed.store(is_allowed, Ordering::Relaxed);
    }

    /// Says whether the connection uses a process that outlives this command.
    pub(crate) fn set_attached(&self, is_attached: bool) {
        self.is_attached.store(is_attached, Ordering::Relaxed);
    }

    /// Whether the last connection used a process that outlives this command.
    pub(crate) fn is_attached(&self) -> bool {
        self.is_attached.load(Ordering::Relaxed)
    }
}

impl Attachment {
    /// Has a client use the process.
    pub(crate) fn add_to(self, builder: ClientBuilder) -> ClientBuilder {
        let (reader, writer) = self.0.into_split();
        builder.attached(reader, writer)
    }
}

/// Asks the pools of this user for a process of `server`, for at most [`ATTACH_TIMEOUT`] and the time that it
/// may take to connect. `None` if there is none, or if the command is to start its own.
pub(crate) async fn attach(settings: &Settings, server: &Server, roots: &[Root]) -> Option<Attachment> {
    let pool_use = &settings.pool_use;
    pool_use.set_attached(false);
    if !pool_use.is_allowed.load(Ordering::Relaxed) {
        return None;
    }
    let (program, key) = pooled_program(server)?;
    let sockets = find_sockets(settings.socket_folders());
    if sockets.is_empty() {
        return None;
    }
    let folder = starting_folder(program).ok()?;
    let files = hash_files(program, folder.as_deref());
    let request = AttachRequest { key, folder, files, roots: hash_roots(roots) };
    let mut line = serde_json::to_vec(&request).ok()?;
    line.push(b'\n');
    let asking: FuturesUnordered<_> = sockets.iter().map(|socket| ask(socket, &line)).collect();
    let connect_timeout = server.timeouts.connect;
    let stream = match choose_offer(asking.filter_map(ready), ATTACH_TIMEOUT.min(connect_timeout)).await {
        Some(offer) => timeout(START_TIMEOUT.min(connect_timeout), accept(offer.stream)).await.ok().flatten(),
        None => None,
    };
    tracing::debug!(
        server = server.name,
        found = stream.is_some(),
        "looked for a process that is kept running"
    );
    pool_use.set_attached(stream.is_some());
    stream.map(Attachment)
}

/// The sockets of the pools of this user, which are in these folders.
fn find_sockets(folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let folders = folders.into_iter().filter(|folder| refuse_shared_folder(folder).is_ok());
    let files = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let sockets = files.filter(|file| file.file_type().is_ok_and(|kind| kind.is_socket()));
    let paths = sockets.map(|file| file.path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == SOCKET_EXTENSION))
        .take(MAX_SOCKETS)
        .collect()
}

/// Asks one pool. The socket of a process that was killed is removed.
async fn ask(socket: &Path, line: &[u8]) -> Option<Offer> {
    let mut stream = match UnixStream::connect(socket).await {
        Ok(stream) => stream,
        Err(error) => {
            if error.kind() == io::ErrorKind::ConnectionRefused && is_abandoned(socket) {
                let _ = std::fs::remove_file(socket);
            }
            return None;
        }
    };
    if !is_same_user(&stream) {
        return None;
    }
    stream.write_all(line).await.ok()?;
    let reply = read_grant(&mut stream).await?;
    Some(Offer { stream, has_idle: reply.has_idle })
}

/// Whether the process of a socket that refuses a connection is gone. Elsewhere than on Linux, one that has too many
/// connections to accept refuses more of them too.
fn is_abandoned(socket: &Path) -> bool {
    if cfg!(target_os = "linux") {
        return true;
    }
    let pid = socket.file_stem().and_then(|stem| stem.to_str()?.parse().ok()).and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// Chooses the first offer of a pool in which a process waits. If no such offer comes soon after the first one, that
/// one is chosen.
async fn choose_offer(offers: impl Stream<Item = Offer>, limit: Duration) -> Option<Offer> {
    let mut offers = pin!(offers);
    let first = timeout(limit, offers.next()).await.ok().flatten()?;
    if first.has_idle {
        return Some(first);
    }
    let mut better = offers.filter(|offer| ready(offer.has_idle));
    let better = timeout(BETTER_OFFER_TIMEOUT, better.next()).await.ok().flatten();
    better.or(Some(first))
}

/// Accepts the offer of a pool, and waits until it has a process.
async fn accept(mut stream: UnixStream) -> Option<UnixStream> {
    stream.write_all(b"{}\n").await.ok()?;
    read_grant(&mut stream).await.map(|_| stream)
}

/// Reads a reply, byte by byte, so that nothing is read of what follows. `None` if it does not grant what was asked for.
async fn read_grant(stream: &mut UnixStream) -> Option<AttachReply> {
    let mut reply = Vec::new();
    while reply.len() < MAX_REPLY_BYTES {
        match stream.read_u8().await {
            Ok(b'\n') => break,
            Ok(byte) => reply.push(byte),
            Err(_) => return None,
        }
    }
    serde_json::from_slice(&reply).ok().filter(|reply: &AttachReply| reply.granted)
}

fn hash_roots(roots: &[Root]) -> String {
    let mut hasher = KeyHasher::default();
    hasher.write_usize(roots.len());
    for root in roots {
        format!("{root:?}").hash(&mut hasher);
    }
    hasher.finish_hex()
}

/// How long all pools together may take to answer. A `bowline serve` that was stopped never does.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the other pools may take after the first one, if no process waits there.
const BETTER_OFFER_TIMEOUT: Duration = Duration::from_millis(20);
/// How long the pool that has answered may take to start a process.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How many pools are asked.
const MAX_SOCKETS: usize = 16;
const MAX_REPLY_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use futures_util::stream::{empty, iter, pending};

    use super::*;

    /// Returns the position of the offer that is chosen of these, after which no other one comes.
    async fn choose(has_idle: &[bool]) -> Option<usize> {
        let offers: Vec<_> = has_idle
            .iter()
            .map(|has_idle| Offer { stream: UnixStream::pair().unwrap().0, has_idle: *has_idle })
            .collect();
        let streams: Vec<_> = offers.iter().map(|offer| offer.stream.as_raw_fd()).collect();
        let chosen = choose_offer(iter(offers).chain(pending()), ATTACH_TIMEOUT).await?;
        streams.iter().position(|stream| *stream == chosen.stream.as_raw_fd())
    }

    #[tokio::test]
    async fn the_first_pool_in_which_a_process_waits_is_chosen() {
        assert_eq!(choose(&[false, true, true]).await, Some(1));
        assert_eq!(choose(&[true, false]).await, Some(0));
        assert_eq!(choose(&[false, false]).await, Some(0));
        assert!(choose_offer(empty(), ATTACH_TIMEOUT).await.is_none());
    }

    /// A socket that nobody listens on is removed, so nothing else may be taken for one.
    #[tokio::test]
    async fn only_sockets_are_asked() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, socket] = ["1.pool", "2.pool", "3.pool"].map(|name| folder.path().join(name));
        std::fs::write(&file, "").unwrap();
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        std::os::unix::fs::symlink(&socket, &link).unwrap();
        assert_eq!(find_sockets(vec![folder.path().to_owned()]), std::slice::from_ref(&socket));
        assert!(ask(&socket, b"{}\n").await.is_none());
        assert!(file.exists() && !socket.exists());
    }
}
