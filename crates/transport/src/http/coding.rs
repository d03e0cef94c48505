//! Chooses how response bodies, complete or streamed, are decompressed.

#[cfg(feature = "compression")]
mod gzip;

use std::sync::Arc;
use std::task::{Context, Poll};

use bowline_proto::fault::{Fault, Misbehavior};
use bytes::Bytes;

use super::exchange::BodyStream;
use super::media::ContentCoding;
use super::pool::Pool;

/// The chunks of a body, decompressed.
#[derive(Debug)]
pub(super) enum Chunks {
    Plain(BodyStream),
    #[cfg(feature = "compression")]
    Compressed(Box<gzip::CompressedBody>),
}

// === impl Chunks ===

impl Chunks {
    pub(super) fn new(flow: BodyStream, coding: ContentCoding) -> Result<Self, Fault> {
        match coding {
            ContentCoding::Identity => Ok(Self::Plain(flow)),
            #[cfg(feature = "compression")]
            ContentCoding::Gzip => Ok(Self::Compressed(Box::new(gzip::CompressedBody::new(flow)))),
            _ => Err(Fault::protocol(Misbehavior::Encoding).with_note("a content encoding nobody asked for")),
        }
    }

    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        match self {
            Self::Plain(flow) => flow.poll_chunk(cx),
            #[cfg(feature = "compression")]
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
            #[cfg(feature = "compression")]
            Self::Compressed(coded) => coded.release(),
        }
    }

    /// The pool of the connection that the body comes from.
    pub(super) fn pool(&mut self) -> &Arc<Pool> {
        match self {
            Self::Plain(flow) => flow.pool(),
            #[cfg(feature = "compression")]
            Self::Compressed(coded) => coded.pool(),
        }
    }

    /// How many bytes are still to come, if that is known.
    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Self::Plain(flow) => flow.length(),
            #[cfg(feature = "compression")]
            Self::Compressed(_) => None,
        }
    }
}
