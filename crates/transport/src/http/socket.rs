//! The socket below a connection, of TCP or of Unix: whether the peer has closed it, how many bytes it has
//! accepted, and how it is cut from outside.
//!
//! A failed write says that the connection is gone, not whether the request is. If the system has
//! accepted no byte of the request, no server has seen it. A successful write proves nothing either
//! way, so a connection that was idle is checked for a close right before the first byte of a
//! request is written to it.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use socket2::SockRef;
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

/// A connected socket, as hyper reads and writes it.
#[derive(Debug)]
pub(super) struct Socket<S> {
    stream: TokioIo<S>,
    state: Arc<State>,
}

/// A stream of bytes that the system can be queried about.
pub(super) trait SystemStream {
    fn socket(&self) -> SockRef<'_>;
}

/// A handle to a socket that is in use elsewhere.
#[derive(Clone, Debug)]
pub(super) struct SocketControl(Arc<State>);

/// The open sockets of one server.
#[derive(Debug, Default)]
pub(super) struct OpenSockets(Mutex<Vec<Weak<State>>>);

#[derive(Debug)]
struct State {
    /// How many bytes the system has accepted so far.
    written: AtomicU64,
    /// Whether the next write is the first of a request on a connection that was idle.
    check_before_write: AtomicBool,
    /// Whether reads and writes fail from now on.
    cut: AtomicBool,
    /// The task that waits for bytes to read.
    reader: Mutex<Waker>,
}

// === impl Socket ===

impl SystemStream for TcpStream {
    fn socket(&self) -> SockRef<'_> {
        SockRef::from(self)
    }
}

#[cfg(unix)]
impl SystemStream for UnixStream {
    fn socket(&self) -> SockRef<'_> {
        SockRef::from(self)
    }
}

impl<S: SystemStream> Socket<S> {
    pub(super) fn new(stream: TokioIo<S>) -> (Self, SocketControl) {
        let state = Arc::new(State {
            written: AtomicU64::new(0),
            check_before_write: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            reader: Mutex::new(Waker::noop().clone()),
        });
        (Self { stream, state: Arc::clone(&state) }, SocketControl(state))
    }

    #[cfg(test)]
    pub(super) fn system(&self) -> SockRef<'_> {
        self.stream.inner().socket()
    }

    fn ensure_writable(&self) -> io::Result<()> {
        self.state.ensure_not_cut()?;
        if self.state.check_before_write.load(Ordering::Relaxed) { self.ensure_silent() } else { Ok(()) }
    }

    /// Fails if the peer has closed or reset the connection, or has sent something unrequested.
    ///
    /// This queries the system itself. The runtime learns of a close only when it next waits for
    /// events, and a client that sends requests one after the other can be faster than that.
    fn ensure_silent(&self) -> io::Result<()> {
        let socket = self.stream.inner().socket();
        loop {
            let told = match socket.peek(&mut [MaybeUninit::uninit()]) {
                Ok(0) => "the server has closed the idle connection",
                Ok(_) => "the server has spoken on the idle connection",
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, told));
        }
    }

    fn record_written(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes @ 1..)) = written {
            self.state.written.fetch_add(*bytes as u64, Ordering::Relaxed);
            self.state.check_before_write.store(false, Ordering::Relaxed);
        }
    }
}

impl<S: SystemStream> Read for Socket<S>
where
    TokioIo<S>: Read + Unpin,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.state.ensure_not_cut()?;
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if read.is_pending() {
            self.state.set_reader(cx.waker());
            // A cut between the first check and the registration woke nobody.
            self.state.ensure_not_cut()?;
        }
        read
    }
}

impl<S: SystemStream> Write for Socket<S>
where
    TokioIo<S>: Write + Unpin,
{
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.ensure_writable()?;
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.record_written(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.ensure_writable()?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.record_written(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

// === impl SocketControl ===

impl SocketControl {
    /// How many bytes the system has accepted so far.
    pub(super) fn written(&self) -> u64 {
        self.0.written.load(Ordering::Relaxed)
    }

    /// Makes the next write fail, with nothing written, if the peer has closed the connection by
    /// then.
    pub(super) fn check_before_write(&self) {
        self.0.check_before_write.store(true, Ordering::Relaxed);
    }
}

// === impl OpenSockets ===

impl OpenSockets {
    pub(super) fn insert(&self, socket: &SocketControl) {
        let mut open = self.open();
        open.retain(|state| state.strong_count() > 0);
        open.push(Arc::downgrade(&socket.0));
    }

    /// Makes every read and write on these sockets fail from now on, and wakes their readers.
    pub(super) fn cut_all(&self) {
        // Not under the lock: a woken task may open the next socket.
        let cut = std::mem::take(&mut *self.open());
        for state in cut.iter().filter_map(Weak::upgrade) {
            state.cut.store(true, Ordering::SeqCst);
            let reader = state.reader.lock().clone();
            reader.wake();
        }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Weak<State>>> {
        self.0.lock()
    }
}

// === impl State ===

impl State {
    fn ensure_not_cut(&self) -> io::Result<()> {
        if self.cut.load(Ordering::SeqCst) {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the connection was given up"));
        }
        Ok(())
    }

    fn set_reader(&self, waker: &Waker) {
        let mut reader = self.reader.lock();
        if !reader.will_wake(waker) {
            reader.clone_from(waker);
        }
    }
}
