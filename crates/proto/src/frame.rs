//! Decoders that split a byte stream into messages: lines and server-sent events.
//!
//! Both take chunks as they arrive, whatever their boundaries, and return what is complete. They
//! hold no more than one message up to their limit, and do not copy a message that arrived in one
//! chunk.

pub mod lines;
mod spare_buffer;
pub mod sse;

pub use spare_buffer::SpareBuffer;

/// Default limit of one message in bytes: 64 MiB.
pub const DEFAULT_MESSAGE_LIMIT: usize = 64 * 1024 * 1024;

/// Maximum number of bytes kept of a message over the limit: enough to find its id, which servers
/// write first.
pub const MAX_HEAD_LEN: usize = 256;
