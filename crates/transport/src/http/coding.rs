//! Decompresses response bodies, complete or streamed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_compression::tokio::bufread::{BrotliDecoder, GzipDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
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
    decoder: Decoder,
    buffer: BytesMut,
}

#[derive(Debug)]
enum Decoder {
    Gzip(GzipDecoder<BodyReader>),
    Brotli(BrotliDecoder<BodyReader>),
    Zstd(ZstdDecoder<BodyReader>),
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
        let inflow = |flow| BodyReader { body: flow, chunk: Bytes::new(), fault: None };
        let decoder = match coding {
            ContentCoding::Identity => return Ok(Self::Plain(flow)),
            ContentCoding::Gzip => {
                let mut decoder = GzipDecoder::new(inflow(flow));
                decoder.multiple_members(true);
                Decoder::Gzip(decoder)
            }
            ContentCoding::Brotli => Decoder::Brotli(BrotliDecoder::new(inflow(flow))),
            ContentCoding::Zstd => {
                let window = DParameter::window_log_max(ZSTD_WINDOW_LOG_MAX);
                let mut decoder = ZstdDecoder::with_params(inflow(flow), &[window]);
                decoder.multiple_members(true);
                Decoder::Zstd(decoder)
            }
            ContentCoding::Unknown => {
                return Err(
                    Fault::protocol(Misbehavior::Encoding).with_note("a content encoding nobody asked for")
                );
            }
        };
        Ok(Self::Compressed(Box::new(CompressedBody { decoder, buffer: BytesMut::new() })))
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
            Self::Compressed(coded) => coded.decoder.into_body().release(),
        }
    }

    /// The pool of the connection that the body comes from.
    pub(super) fn pool(&mut self) -> &Arc<Pool> {
        match self {
            Self::Plain(flow) => flow.pool(),
            Self::Compressed(coded) => coded.decoder.reader_mut().body.pool(),
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

/// Log2 of 8 MiB, the largest window that compressed HTTP bodies may use (RFC 9659).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

// === impl Coded ===

impl CompressedBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        self.buffer.resize(CHUNK_SIZE, 0);
        let mut piece = ReadBuf::new(&mut self.buffer);
        let read = ready!(self.decoder.poll_read(cx, &mut piece));
        let filled = piece.filled().len();
        match read {
            Ok(()) if filled == 0 => {
                // The decoder may have seen its end before the body has. Poll once, so that the
                // connection can be reused, but do not wait.
                let _ = Pin::new(self.decoder.reader_mut()).poll_fill_buf(cx);
                Poll::Ready(None)
            }
            Ok(()) => Poll::Ready(Some(Ok(self.buffer.split_to(filled).freeze()))),
            Err(error) => {
                let fault = self.decoder.reader_mut().fault.take();
                let fault = fault
                    .unwrap_or_else(|| Fault::protocol(Misbehavior::Encoding).with_note(error.to_string()));
                Poll::Ready(Some(Err(fault)))
            }
        }
    }
}

/// Size of a decompressed chunk.
const CHUNK_SIZE: usize = 16 * 1024;

impl Decoder {
    fn poll_read(&mut self, cx: &mut Context<'_>, piece: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Gzip(decoder) => Pin::new(decoder).poll_read(cx, piece),
            Self::Brotli(decoder) => Pin::new(decoder).poll_read(cx, piece),
            Self::Zstd(decoder) => Pin::new(decoder).poll_read(cx, piece),
        }
    }

    fn into_body(self) -> BodyStream {
        match self {
            Self::Gzip(decoder) => decoder.into_inner().body,
            Self::Brotli(decoder) => decoder.into_inner().body,
            Self::Zstd(decoder) => decoder.into_inner().body,
        }
    }

    fn reader_mut(&mut self) -> &mut BodyReader {
        match self {
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Brotli(decoder) => decoder.get_mut(),
            Self::Zstd(decoder) => decoder.get_mut(),
        }
    }
}

// === impl Inflow ===

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
