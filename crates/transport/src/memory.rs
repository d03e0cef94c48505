//! A link inside one process: for tests, and for servers that run beside their client.

use crate::pipe::{PipeReader, PipeWriter, pipe};

/// One end of an in-process link. What one end writes, the other reads.
#[derive(Debug)]
pub struct MemoryLink {
    /// Sends to the other end.
    pub writer: PipeWriter,
    /// Receives from the other end.
    pub reader: PipeReader,
}

/// How many bytes each direction buffers before its writer has to queue: as many as a pipe of the
/// operating system.
const DUPLEX_CAPACITY: usize = 64 * 1024;

/// Returns the two ends of a new link. A message may have at most `limit` bytes.
///
/// # Panics
///
/// Outside a tokio runtime.
pub fn pair(limit: usize) -> (MemoryLink, MemoryLink) {
    // One stream per direction, so that closing one leaves the other open.
    let (left_out, right_in) = tokio::io::duplex(DUPLEX_CAPACITY);
    let (right_out, left_in) = tokio::io::duplex(DUPLEX_CAPACITY);
    let (writer, reader) = pipe(left_in, left_out, limit);
    let left = MemoryLink { writer, reader };
    let (writer, reader) = pipe(right_in, right_out, limit);
    (left, MemoryLink { writer, reader })
}
