//! What the targets share: how the bytes of one input are divided.

pub mod config;

use std::iter;

use bytes::Bytes;

/// The parts of an input that holds several texts. The separator occurs in no UTF-8 text.
pub fn parts(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    input.split(|byte| *byte == SEPARATOR)
}

/// Stands between the parts of an input.
const SEPARATOR: u8 = 0xff;

/// A stream, and how it arrives: the first two bytes of an input say so.
#[derive(Clone, Copy)]
pub struct Stream<'a> {
    /// All that arrives.
    pub bytes: &'a [u8],
    /// The limit of one message. Small, so that it is often reached.
    pub limit: usize,
    /// Decides where the stream is cut.
    cuts: u8,
}

impl<'a> Stream<'a> {
    /// `None`: the input is too short to be one.
    pub fn read(input: &'a [u8]) -> Option<Self> {
        let [limit, cuts, bytes @ ..] = input else { return None };
        // From 1 byte to more than any input has.
        let limit = 1_usize << (limit % 24);
        Some(Self { bytes, limit, cuts: *cuts })
    }

    /// The stream in one chunk.
    pub fn whole(self) -> impl Iterator<Item = Bytes> {
        iter::once(Bytes::copy_from_slice(self.bytes))
    }

    /// The stream in chunks of uneven lengths, from one byte on.
    pub fn chunks(self) -> impl Iterator<Item = Bytes> {
        let mut rest = self.bytes;
        let mut state = u32::from(self.cuts);
        iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            // The constants are those of Numerical Recipes; any sequence would do.
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let longest = 1 << (self.cuts % 8);
            let length = 1 + (state >> 16) as usize % longest;
            let (chunk, after) = rest.split_at(length.min(rest.len()));
            rest = after;
            Some(Bytes::copy_from_slice(chunk))
        })
    }
}
