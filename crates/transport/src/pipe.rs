//! A link that carries messages both ways, one per line, over any pair of byte streams.
//!
//! [`PipeWriter`] decides how frames leave: whole, in order, never interleaved. [`PipeReader`]
//! decides how lines are read and how the link ends. Neither knows which response belongs to which
//! request.

mod reader;
mod writer;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bowline_proto::fault::Fault;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

pub use reader::PipeReader;
pub use writer::{MAX_QUEUED_BYTES, PipeWriter, Urgency};

/// One line that arrived on a pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboundFrame {
    /// A line that begins like a JSON-RPC message.
    Message(Bytes),
    /// A line that is not a message, such as a banner or a log line. Bounded by the limit of the
    /// link.
    Noise(Bytes),
    /// A message over the limit. The rest of it is skipped; later lines are received as usual.
    TooLarge {
        /// The beginning of the message: enough to find its id.
        head: Bytes,
        /// The limit of the link, in bytes.
        limit: usize,
    },
}

/// The receiving half of a link.
pub trait FrameReader: Send {
    /// Receives the next frame, or the fault that ended the link. After the end every call returns
    /// the same fault.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: what it was about to return is returned by the next call.
    fn recv(&mut self) -> impl Future<Output = Result<InboundFrame, Fault>> + Send;
}

/// Makes a link of two byte streams. A message may have at most `limit` bytes.
///
/// `writer` must not buffer, because bytes that it accepts count as sent. It is shut down and
/// dropped when the link is closed.
///
/// # Panics
///
/// Outside a tokio runtime: a task writes the frames that the stream does not accept at once.
pub fn pipe<R, W>(reader: R, writer: W, limit: usize) -> (PipeWriter, PipeReader)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let has_received = Arc::new(AtomicBool::new(true));
    (PipeWriter::new(writer, has_received.clone()), PipeReader::new(reader, limit, has_received))
}
