//! Decompresses response bodies, complete or streamed.
//!
//! gzip is the only content coding that is accepted. Every server that compresses can use it, and
//! the decoders of brotli and zstd took an optimized build most of a minute.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_compression::tokio::bufread::GzipDecoder;
use bowline_proto::fault::{Fault, Misbehavior};
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

use super::exchange::BodyStream;
use super::media::ContentCoding;
use super::pool::Pool;

/// The chunks of a body, decompressed.
#[derive(Debug)]
pub(super) enum Chunks {
    Plain(BodyStream),
    Compressed(Box<CompressedBody>),
}

/// A body that is decompressed chunk by chunk.
#[derive(Debug)]
pub(super) struct CompressedBody {
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

// === impl Chunks ===

impl Chunks {
    pub(super) fn new(flow: BodyStream, coding: ContentCoding) -> Result<Self, Fault> {
        match coding {
            ContentCoding::Identity => Ok(Self::Plain(flow)),
            ContentCoding::Gzip => {
                let reader = BodyReader { body: flow, chunk: Bytes::new(), fault: None };
                let mut decoder = GzipDecoder::new(reader);
                decoder.multiple_members(true);
                Ok(Self::Compressed(Box::new(CompressedBody { decoder, buffer: BytesMut::new() })))
            }
            ContentCoding::Unknown => {
                Err(Fault::protocol(Misbehavior::Encoding).with_note("a content encoding nobody asked for"))
            }
        }
    }

    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        match self {
            Self::Plain(flow) => flow.poll_chunk(cx),
            Self::Compressed(coded) => coded.poll_chunk(cx),
        }
    }

    pub(super) async fn chunk(&mut self) -> Option<Result<Bytes, Fault>> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// Drops the rest, but keeps the connection if the rest ends soon.
    pub(super) fn release(self) {
        match self {
            Self::Plain(flow) => flow.release(),
            Self::Compressed(coded) => coded.decoder.into_inner().body.release(),
        }
    }

    /// The pool of the connection that the body comes from.
    pub(super) fn pool(&mut self) -> &Arc<Pool> {
        match self {
            Self::Plain(flow) => flow.pool(),
            Self::Compressed(coded) => coded.decoder.get_mut().body.pool(),
        }
    }

    /// How many bytes are still to come, if that is known.
    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Self::Plain(flow) => flow.length(),
            Self::Compressed(_) => None,
        }
    }
}

// === impl CompressedBody ===

impl CompressedBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
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
