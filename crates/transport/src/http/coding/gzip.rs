//! Decompresses gzip, the only content coding that is accepted: every server that compresses can
//! use it, and the decoders of brotli and zstd took an optimized build most of a minute.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_compression::tokio::bufread::GzipDecoder;
use bowline_proto::fault::{Fault, Misbehavior};
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

use crate::http::exchange::BodyStream;
use crate::http::pool::Pool;

/// A body that is decompressed chunk by chunk.
#[derive(Debug)]
pub(in crate::http) struct CompressedBody {
    decoder: GzipDecoder<BodyReader>,
    buffer: BytesMut,
}

/// Adapts a [`BodyStream`] to the reader that the decoders need.
#[derive(Debug)]
struct BodyReader {
    body: BodyStream,
    chunk: Bytes,
    /// Why the body broke off, if it did: decoders can only pass on I/O errors.
    fault: Option<Fault>,
}

// === impl CompressedBody ===

impl CompressedBody {
    pub(super) fn new(body: BodyStream) -> Self {
        let reader = BodyReader { body, chunk: Bytes::new(), fault: None };
        let mut decoder = GzipDecoder::new(reader);
        decoder.multiple_members(true);
        Self { decoder, buffer: BytesMut::new() }
    }

    pub(super) fn release(self) {
        self.decoder.into_inner().body.release();
    }

    pub(super) fn pool(&mut self) -> &Arc<Pool> {
        self.decoder.get_mut().body.pool()
    }

    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        self.buffer.resize(CHUNK_SIZE, 0);
        let mut piece = ReadBuf::new(&mut self.buffer);
        let read = ready!(Pin::new(&mut self.decoder).poll_read(cx, &mut piece));
        let filled = piece.filled().len();
        match read {
            Ok(()) if filled == 0 => {
                // The decoder may have seen its end before the body has. Poll once, so that the
                // connection can be reused, but do not wait.
                let _ = Pin::new(self.decoder.get_mut()).poll_fill_buf(cx);
                Poll::Ready(None)
            }
            Ok(()) => Poll::Ready(Some(Ok(self.buffer.split_to(filled).freeze()))),
            Err(error) => {
                let fault = self.decoder.get_mut().fault.take();
                let fault = fault
                    .unwrap_or_else(|| Fault::protocol(Misbehavior::Encoding).with_note(error.to_string()));
                Poll::Ready(Some(Err(fault)))
            }
        }
    }
}

/// Size of a decompressed chunk.
const CHUNK_SIZE: usize = 16 * 1024;

// === impl BodyReader ===

impl AsyncBufRead for BodyReader {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.chunk.is_empty() {
            match ready!(this.body.poll_chunk(cx)) {
                Some(Ok(chunk)) => this.chunk = chunk,
                Some(Err(fault)) => {
                    this.fault = Some(fault);
                    return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
                }
                None => {}
            }
        }
        Poll::Ready(Ok(&this.chunk))
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        self.get_mut().chunk.advance(amount);
    }
}

/// Required by the bounds of `AsyncBufRead`.
impl AsyncRead for BodyReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let available = ready!(self.as_mut().poll_fill_buf(cx))?;
        let amount = available.len().min(out.remaining());
        out.put_slice(&available[..amount]);
        self.consume(amount);
        Poll::Ready(Ok(()))
    }
}
