//! A stream that signals when it was dropped, which its writer does once everything is written.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The stream to the host.
pub(crate) struct HostOutput<W> {
    stream: W,
    _flushed: DropGuard,
}

impl<W> HostOutput<W> {
    /// Wraps a stream. The token is canceled when the stream is dropped.
    pub(crate) fn new(stream: W) -> (Self, CancellationToken) {
        let written = CancellationToken::new();
        (Self { stream, _flushed: written.clone().drop_guard() }, written)
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for HostOutput<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl<W> fmt::Debug for HostOutput<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").finish_non_exhaustive()
    }
}
