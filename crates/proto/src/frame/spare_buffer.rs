//! [`SpareBuffer`]: the memory of one large message, kept for the next one.
//!
//! Allocators return large blocks to the system. New ones then cost a page fault for every 4 KiB,
//! which takes longer for a message of a megabyte than validating it.

use bytes::BytesMut;

/// The buffer of the last large message, if one is kept.
///
/// The message is a slice of that buffer and belongs to its receiver. The memory is reused only when no
/// slice of it is left.
#[derive(Debug, Default)]
pub struct SpareBuffer(Option<BytesMut>);

/// Maximum size of a buffer that is kept, in bytes.
const MAX_SPARE: usize = 4 * 1024 * 1024;

impl SpareBuffer {
    /// Keeps the memory of a message of `length` bytes. `rest` is the rest of its buffer after the
    /// message was split off.
    pub fn keep(&mut self, mut rest: BytesMut, length: usize) {
        rest.clear();
        self.0 = (length <= MAX_SPARE).then_some(rest);
    }

    /// Returns an empty buffer with room for `size` bytes, if one is kept and nobody holds its
    /// message.
    pub fn take(&mut self, size: usize) -> Option<BytesMut> {
        self.0.take_if(|spare| spare.try_reclaim(size))
    }

    /// Releases the memory.
    pub fn release(&mut self) {
        self.0 = None;
    }

    /// Whether no memory is kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_when_the_message_is_dropped() {
        let mut spare = SpareBuffer::default();
        let mut buffer = BytesMut::zeroed(100_000);
        let place = buffer.as_ptr();
        let message = buffer.split().freeze();
        spare.keep(buffer, message.len());
        assert!(spare.take(100_000).is_none(), "the message is still held");
        drop(message);
        assert!(spare.take(200_000).is_none(), "there is not so much of it");
        let again = spare.take(100_000).unwrap();
        assert_eq!((again.len(), again.as_ptr()), (0, place));
        assert!(spare.is_empty());
    }

    #[test]
    fn the_memory_of_huge_messages_is_not_kept() {
        let mut spare = SpareBuffer::default();
        let mut buffer = BytesMut::zeroed(MAX_SPARE + 1);
        let message = buffer.split();
        spare.keep(buffer, message.len());
        assert!(spare.is_empty());
    }
}
