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

use super::flow::Flow;
use super::media::Coding;
use super::pool::Pool;

/// The chunks of a body, decompressed.
#[derive(Debug)]
pub(super) enum Chunks {
    Plain(Flow),
    Coded(Box<Coded>),
}

/// A body that is decompressed chunk by chunk.
#[derive(Debug)]
pub(super) struct Coded {
    decoder: Decoder,
    buffer: BytesMut,
}

#[derive(Debug)]
enum Decoder {
    Gzip(GzipDecoder<Inflow>),
    Brotli(BrotliDecoder<Inflow>),
    Zstd(ZstdDecoder<Inflow>),
}

/// Adapts a [`BodyStream`] to the reader that the decoders need.
#[derive(Debug)]
struct Inflow {
    flow: Flow,
    chunk: Bytes,
    /// Why the body broke off, if it did: decoders can only pass on I/O errors.
    fault: Option<Fault>,
}

// === impl Chunks ===

impl Chunks {
    pub(super) fn new(flow: Flow, coding: Coding) -> Result<Self, Fault> {
        let inflow = |flow| Inflow { flow, chunk: Bytes::new(), fault: None };
        let decoder = match coding {
            Coding::Identity => return Ok(Self::Plain(flow)),
            Coding::Gzip => {
                let mut decoder = GzipDecoder::new(inflow(flow));
                decoder.multiple_members(true);
                Decoder::Gzip(decoder)
            }
            Coding::Brotli => Decoder::Brotli(BrotliDecoder::new(inflow(flow))),
            Coding::Zstd => {
                let window = DParameter::window_log_max(ZSTD_WINDOW);
                let mut decoder = ZstdDecoder::with_params(inflow(flow), &[window]);
                decoder.multiple_members(true);
                Decoder::Zstd(decoder)
            }
            Coding::Unknown => {
                return Err(
                    Fault::protocol(Misbehavior::Encoding).with_note("a content encoding nobody asked for")
                );
            }
        };
        Ok(Self::Coded(Box::new(Coded { decoder, buffer: BytesMut::new() })))
    }

    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        match self {
            Self::Plain(flow) => flow.poll_chunk(cx),
            Self::Coded(coded) => coded.poll_chunk(cx),
        }
    }

    pub(super) async fn chunk(&mut self) -> Option<Result<Bytes, Fault>> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// Drops the rest, but keeps the connection if the rest ends soon.
    pub(super) fn release(self) {
        match self {
            Self::Plain(flow) => flow.release(),
            Self::Coded(coded) => coded.decoder.into_flow().release(),
        }
    }

    /// The pool of the connection that the body comes from.
    pub(super) fn pool(&mut self) -> &Arc<Pool> {
        match self {
            Self::Plain(flow) => flow.pool(),
            Self::Coded(coded) => coded.decoder.inflow().flow.pool(),
        }
    }

    /// How many bytes are still to come, if that is known.
    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Self::Plain(flow) => flow.length(),
            Self::Coded(_) => None,
        }
    }
}

/// Log2 of 8 MiB, the largest window that compressed HTTP bodies may use (RFC 9659).
const ZSTD_WINDOW: u32 = 23;

// === impl Coded ===

impl Coded {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        self.buffer.resize(PIECE, 0);
        let mut piece = ReadBuf::new(&mut self.buffer);
        let read = ready!(self.decoder.poll_read(cx, &mut piece));
        let filled = piece.filled().len();
        match read {
            Ok(()) if filled == 0 => {
                // The decoder may have seen its end before the body has. Poll once, so that the
                // connection can be reused, but do not wait.
                let _ = Pin::new(self.decoder.inflow()).poll_fill_buf(cx);
                Poll::Ready(None)
            }
            Ok(()) => Poll::Ready(Some(Ok(self.buffer.split_to(filled).freeze()))),
            Err(error) => {
                let fault = self.decoder.inflow().fault.take();
                let fault = fault
                    .unwrap_or_else(|| Fault::protocol(Misbehavior::Encoding).with_note(error.to_string()));
                Poll::Ready(Some(Err(fault)))
            }
        }
    }
}

/// Size of a decompressed chunk.
const PIECE: usize = 16 * 1024;

impl Decoder {
    fn poll_read(&mut self, cx: &mut Context<'_>, piece: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Gzip(decoder) => Pin::new(decoder).poll_read(cx, piece),
            Self::Brotli(decoder) => Pin::new(decoder).poll_read(cx, piece),
            Self::Zstd(decoder) => Pin::new(decoder).poll_read(cx, piece),
        }
    }

    fn into_flow(self) -> Flow {
        match self {
            Self::Gzip(decoder) => decoder.into_inner().flow,
            Self::Brotli(decoder) => decoder.into_inner().flow,
            Self::Zstd(decoder) => decoder.into_inner().flow,
        }
    }

    fn inflow(&mut self) -> &mut Inflow {
        match self {
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Brotli(decoder) => decoder.get_mut(),
            Self::Zstd(decoder) => decoder.get_mut(),
        }
    }
}

// === impl Inflow ===

impl AsyncBufRead for Inflow {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.chunk.is_empty() {
            match ready!(this.flow.poll_chunk(cx)) {
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
impl AsyncRead for Inflow {
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
