//! Shared code of the fuzz targets: how the bytes of one input are divided.

pub mod config;

use std::iter;

use bytes::Bytes;

/// Splits an input that holds several texts. The separator occurs in no UTF-8 text.
pub fn parts(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    input.split(|byte| *byte == SEPARATOR)
}

/// The byte between the parts of an input.
const SEPARATOR: u8 = 0xff;

/// A byte stream and how it arrives, which the first two bytes of an input determine.
#[derive(Clone, Copy)]
pub struct Stream<'a> {
    /// The whole stream.
    pub bytes: &'a [u8],
    /// The limit of one message. Small, so that it is often reached.
    pub limit: usize,
    /// Seed of the chunk lengths.
    cuts: u8,
}

impl<'a> Stream<'a> {
    /// Reads a stream from an input; `None` if the input is too short.
    pub fn read(input: &'a [u8]) -> Option<Self> {
        let [limit, cuts, bytes @ ..] = input else { return None };
        // From 1 byte to more than any input has.
        let limit = 1_usize << (limit % 24);
        Some(Self { bytes, limit, cuts: *cuts })
    }

    /// Returns the stream in one chunk.
    pub fn whole(self) -> impl Iterator<Item = Bytes> {
        iter::once(Bytes::copy_from_slice(self.bytes))
    }

    /// Returns the stream in chunks of varying lengths, from one byte on.
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
