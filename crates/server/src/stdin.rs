//! Reads stdin on its own thread.
//!
//! The runtime would wait for its own stdin reader when it shuts down, and a read of stdin ends
//! only when the host closes it. Hosts that signal us wait a few tenths of a second before they
//! kill.

use std::io::{self, Read as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

/// The stdin of this process.
#[derive(Debug)]
pub(crate) struct Stdin {
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    /// The current chunk; the bytes before `position` were taken.
    chunk: Vec<u8>,
    position: usize,
}

/// Size of one read, and how many chunks may be queued: then the host is no longer read.
const READ_SIZE: usize = 64 * 1024;
const MAX_QUEUED_CHUNKS: usize = 4;

impl Stdin {
    /// Starts the reader thread.
    pub(crate) fn new() -> Self {
        let (sender, chunks) = mpsc::channel(MAX_QUEUED_CHUNKS);
        let reading = thread::Builder::new().name("stdin".into()).spawn(move || read_loop(&sender));
        if let Err(error) = reading {
            // The channel is closed, which reads as the end of stdin.
            tracing::error!(%error, "stdin cannot be read");
        }
        Self { chunks, chunk: Vec::new(), position: 0 }
    }
}

fn read_loop(sender: &mpsc::Sender<io::Result<Vec<u8>>>) {
    let mut stdin = io::stdin().lock();
    let mut buffer = vec![0; READ_SIZE];
    loop {
        let chunk = match stdin.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => Ok(buffer[..read].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let last = chunk.is_err();
        if sender.blocking_send(chunk).is_err() || last {
            return;
        }
    }
}

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.position == self.chunk.len() {
            match ready!(self.chunks.poll_recv(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(chunk) => self.chunk = chunk?,
            }
            self.position = 0;
        }
        let taken = buffer.remaining().min(self.chunk.len() - self.position);
        buffer.put_slice(&self.chunk[self.position..self.position + taken]);
        self.position += taken;
        Poll::Ready(Ok(()))
    }
}
