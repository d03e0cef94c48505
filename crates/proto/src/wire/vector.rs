//! Examines many bytes of a JSON string at once, without `unsafe`.
//!
//! Blocks are for strings of kilobytes: their loops have no branches and compute with bytes only,
//! which lets the compiler use vector instructions. Words of eight bytes are for the rest.

/// Number of bytes in a word.
pub(super) const WORD: usize = size_of::<u64>();
/// Number of bytes in a block.
pub(super) const BLOCK: usize = 128;

const LOW_BITS: u64 = u64::MAX / 255;
const HIGH_BITS: u64 = LOW_BITS << 7;

/// Returns the block at `at`, and the block one byte earlier. `None` at the edges of the text.
#[inline]
pub(super) fn block_at(text: &[u8], at: usize) -> Option<(&[u8; BLOCK], &[u8; BLOCK])> {
    let both = text.get(at.checked_sub(1)?..at + BLOCK)?;
    Some((both[1..].first_chunk()?, both.first_chunk()?))
}

/// Returns the bitwise "or" of the bytes of `block`, if all of it is valid inside a string and has
/// only common escapes. `before` is the block one byte earlier; a backslash there begins an escape.
#[inline]
#[expect(
    clippy::needless_bitwise_bool,
    reason = "a lazy operator is a branch, and keeps vector instructions out"
)]
pub(super) fn check_block(block: &[u8; BLOCK], before: &[u8; BLOCK]) -> Option<u8> {
    let (mut joined, mut lowest, mut is_valid) = (0, u8::MAX, true);
    for (&byte, &previous) in block.iter().zip(before) {
        let is_escaped = previous == b'\\';
        // A quote has to be escaped, and an escaped byte has to be a quote or `n`.
        is_valid &= ((byte == b'"') == is_escaped) | ((byte == b'n') & is_escaped);
        lowest = lowest.min(byte);
        joined |= byte;
    }
    (lowest >= 0x20 && (is_valid || has_common_escapes(block, before))).then_some(joined)
}

/// Whether the quotes and escapes of `block` are valid and common, including some rarer than `\n`
/// and `\"`.
#[expect(
    clippy::needless_bitwise_bool,
    reason = "a lazy operator is a branch, and keeps vector instructions out"
)]
fn has_common_escapes(block: &[u8; BLOCK], before: &[u8; BLOCK]) -> bool {
    let mut is_valid = true;
    for (&byte, &previous) in block.iter().zip(before) {
        let is_escaped = previous == b'\\';
        let ends_escape = (byte == b'n') | (byte == b't') | (byte == b'r') | (byte == b'/');
        is_valid &= ((byte == b'"') == is_escaped) | (ends_escape & is_escaped);
    }
    is_valid
}

/// Whether all of `block`, which is part of valid JSON, is inside a string and has no escaped
/// backslash. `before` is as for [`check_block`].
#[inline]
pub(super) fn is_inside_string(block: &[u8; BLOCK], before: &[u8; BLOCK]) -> bool {
    let mut is_inside = true;
    for (&byte, &previous) in block.iter().zip(before) {
        is_inside &= byte != if previous == b'\\' { b'\\' } else { b'"' };
    }
    is_inside
}

/// Returns the eight bytes at `at`, the first in the lowest bits. `None` near the end of the text.
#[inline]
pub(super) fn word_at(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Whether `word` has a byte that is not ASCII.
#[inline]
pub(super) fn has_non_ascii(word: u64) -> bool {
    word & HIGH_BITS != 0
}

/// The position of the first quote, backslash or control character in `word`.
#[inline]
pub(super) fn find_special(word: u64) -> Option<usize> {
    first_mark(mark_control(word) | mark(word, b'"') | mark(word, b'\\'))
}

/// The position of the first quote or backslash in `word`.
#[inline]
pub(super) fn find_quote_or_backslash(word: u64) -> Option<usize> {
    first_mark(mark(word, b'"') | mark(word, b'\\'))
}

/// The position of the first backslash in `word`.
#[inline]
pub(super) fn find_backslash(word: u64) -> Option<usize> {
    first_mark(mark(word, b'\\'))
}

/// Sets the high bit of each byte of `word` that equals `byte`. Bytes above the lowest such one may
/// be marked wrongly, since the subtraction borrows from them.
#[inline]
fn mark(word: u64, byte: u8) -> u64 {
    let difference = word ^ (LOW_BITS * u64::from(byte));
    difference.wrapping_sub(LOW_BITS) & !difference
}

/// Sets the high bit of each byte of `word` below the space, with the limitation of [`mark`].
#[inline]
fn mark_control(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS * 0x20) & !word
}

/// The position of the first marked byte. It is an option, so that a caller advances by a whole
/// word with a branch: a computed length of 8 would have to be known before the next word can be
/// read.
#[inline]
fn first_mark(marks: u64) -> Option<usize> {
    let marks = marks & HIGH_BITS;
    (marks != 0).then(|| marks.trailing_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_byte() -> impl Strategy<Value = u8> {
        prop_oneof![proptest::sample::select(&b"\"\\!#[]\x00\x1f\x20\x21\x80\xa2\xdc\xff"[..]), any::<u8>()]
    }

    proptest! {
        #[test]
        fn words_are_searched_as_bytes_are(bytes in proptest::array::uniform8(any_byte())) {
            let position = |is: fn(u8) -> bool| bytes.iter().position(|&byte| is(byte));
            let word = word_at(&bytes, 0).unwrap();
            prop_assert_eq!(find_backslash(word), position(|byte| byte == b'\\'));
            prop_assert_eq!(find_quote_or_backslash(word), position(|byte| matches!(byte, b'"' | b'\\')));
            prop_assert_eq!(find_special(word), position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)));
            prop_assert_eq!(has_non_ascii(word), !bytes.is_ascii());
        }
    }

    #[test]
    fn near_the_end_there_is_neither_word_nor_block() {
        let text = [b'x'; BLOCK + 8];
        let words = [BLOCK, BLOCK + 1, BLOCK + 9].map(|at| word_at(&text, at).is_some());
        assert_eq!(words, [true, false, false]);
        let blocks = [0, 1, 8, 9, BLOCK + 9].map(|at| block_at(&text, at).is_some());
        assert_eq!(blocks, [false, true, true, false, false]);
    }
}
