//! A link that carries messages both ways, one per line, over any pair of byte streams.
//!
//! [`PipeWriter`] owns how frames leave: whole, in order, never mixed. [`PipeReader`] owns how lines come
//! in and how the link ends. Neither knows which answer belongs to which request.

mod reader;
mod writer;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bowline_proto::fault::Fault;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

pub use reader::PipeReader;
pub use writer::{Pace, PipeWriter, QUEUE};

/// What arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// What begins like a message.
    Message(Bytes),
    /// A line that is none: a banner, a log line (ST-02). Bounded by the link's limit.
    Noise(Bytes),
    /// A message over the limit. The rest of it is skipped; what follows is received as usual.
    TooLarge {
        /// How it begins: enough to find the id.
        head: Bytes,
        /// The limit.
        limit: usize,
    },
}

/// The receiving half of a link.
pub trait Inbound: Send {
    /// The next thing that arrives, or why nothing will any more. Once ended, it says the same for ever.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: what it was about to return is returned by the next call.
    fn recv(&mut self) -> impl Future<Output = Result<Received, Fault>> + Send;
}

/// Makes a link of two byte streams. A message may have `limit` bytes.
///
/// The writer must not buffer: what it takes counts as sent. It is shut down and dropped when the link
/// is closed.
///
/// # Panics
///
/// Outside a tokio runtime: frames that the stream does not take at once are written by a task.
pub fn pipe<R, W>(reader: R, writer: W, limit: usize) -> (PipeWriter, PipeReader)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let heard = Arc::new(AtomicBool::new(true));
    (PipeWriter::new(writer, heard.clone()), PipeReader::new(reader, limit, heard))
}
