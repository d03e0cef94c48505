//! A link within the process: for tests, and for servers that live beside their client.

use crate::pipe::{PipeReader, PipeWriter, pipe};

/// One end of a pair. What one end writes, the other reads.
#[derive(Debug)]
pub struct End {
    /// To the other end.
    pub writer: PipeWriter,
    /// From the other end.
    pub reader: PipeReader,
}

/// How much each direction holds before its writer has to queue, as much as a pipe of the system does.
const CAPACITY: usize = 64 * 1024;

/// Two ends that are linked. A message may have `limit` bytes.
///
/// # Panics
///
/// Outside a tokio runtime.
pub fn pair(limit: usize) -> (End, End) {
    // A stream per direction: closing one leaves the other open.
    let (left_out, right_in) = tokio::io::duplex(CAPACITY);
    let (right_out, left_in) = tokio::io::duplex(CAPACITY);
    let (writer, reader) = pipe(left_in, left_out, limit);
    let left = End { writer, reader };
    let (writer, reader) = pipe(right_in, right_out, limit);
    (left, End { writer, reader })
}
