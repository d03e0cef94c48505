//! One TCP connection, and the ways to end it on purpose.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// The handle that ends a connection.
#[derive(Debug, Default)]
pub(crate) struct Conn {
    pub(crate) number: u64,
    reset: AtomicBool,
    close_when_flushed: AtomicBool,
    ended: Notify,
}

impl Conn {
    pub(crate) fn new(number: u64) -> Arc<Self> {
        Arc::new(Self { number, ..Self::default() })
    }

    /// Ends the connection with FIN.
    pub(crate) fn close(&self) {
        self.ended.notify_one();
    }

    /// Ends the connection with RST.
    pub(crate) fn reset(&self) {
        self.reset.store(true, Ordering::Relaxed);
        self.ended.notify_one();
    }

    /// Resolves, once, when the connection is to end.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }
}

/// The byte stream of a connection.
pub(crate) struct ConnIo {
    pub(crate) stream: TcpStream,
    pub(crate) conn: Arc<Conn>,
}

impl AsyncRead for ConnIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for ConnIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        // hyper flushes only after writing all it has, so the cut is exact.
        if self.conn.close_when_flushed.load(Ordering::Relaxed) {
            self.conn.close();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Drop for ConnIo {
    fn drop(&mut self) {
        if self.conn.reset.load(Ordering::Relaxed) {
            // Fails only if the peer has reset it already.
            let _ = self.stream.set_zero_linger();
        }
    }
}

/// A body that breaks off after some bytes and closes its connection.
pub(crate) struct CutBody<B> {
    pub(crate) body: B,
    pub(crate) left: u64,
    pub(crate) conn: Arc<Conn>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for CutBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if self.left == 0 {
            // Pending makes hyper flush what it has, and the flush ends the connection.
            self.conn.close_when_flushed.store(true, Ordering::Relaxed);
            return Poll::Pending;
        }
        let Some(Ok(frame)) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
            return Poll::Ready(None);
        };
        let Ok(mut data) = frame.into_data() else {
            return Poll::Ready(None);
        };
        let keep = usize::try_from(self.left).unwrap_or(usize::MAX).min(data.remaining());
        data.truncate(keep);
        self.left -= keep as u64;
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    /// The size of the whole body, so that the client can tell that something is missing.
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
