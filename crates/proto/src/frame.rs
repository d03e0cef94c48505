//! Bytes to messages.
//!
//! Both decoders are fed chunks as they arrive, whatever their boundaries, and asked for what is
//! complete. They hold no more than one message up to their limit, and copy nothing that came whole.

pub mod lines;
mod spare_buffer;
pub mod sse;

pub use spare_buffer::SpareBuffer;

/// The default limit of one message.
pub const DEFAULT_LIMIT: usize = 64 * 1024 * 1024;

/// How much of a message over the limit is kept: enough to find its id, which servers write first.
pub const HEAD: usize = 256;
