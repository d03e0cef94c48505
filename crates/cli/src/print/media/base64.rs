//! Owns how Base64 of a server becomes bytes: piece by piece, so that a hundred megabytes cost a buffer.
//!
//! Lenient where the bytes are clear all the same: line ends inside, no padding, the alphabet of URLs.

use std::io::{self, Write};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Why bytes could not be had.
#[derive(Debug)]
pub(crate) enum Undecoded {
    /// It is no Base64.
    Invalid,
    /// Where they go cannot take them.
    Sink(io::Error),
}

/// Writes the bytes to `sink` and gives their number. What was written before an error is no use to anybody.
pub(crate) fn decode_into(text: &str, sink: &mut impl Write) -> Result<usize, Undecoded> {
    let mut decoder = Decoder { sink, piece: Vec::with_capacity(PIECE), bytes: Vec::new(), written: 0 };
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        if decoder.piece.len() == PIECE {
            // Padding ends it, and this is not the end.
            if decoder.piece.ends_with(b"=") {
                return Err(Undecoded::Invalid);
            }
            decoder.flush()?;
        }
        decoder.piece.push(match byte {
            b'-' => b'+',
            b'_' => b'/',
            byte => byte,
        });
    }
    decoder.flush()?;
    Ok(decoder.written)
}

/// All the bytes, for those who know that they are not too many.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(estimated(text.len()));
    decode_into(text, &mut bytes).ok().map(|_| bytes)
}

/// Whether it is Base64 at all.
pub(crate) fn is_valid(text: &str) -> bool {
    decode_into(text, &mut io::sink()).is_ok()
}

/// The first bytes, as many as tell what they are.
pub(crate) fn head(text: &str) -> Vec<u8> {
    let mut first: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).take(64).collect();
    first.truncate(first.len() / 4 * 4);
    let mut bytes = Vec::new();
    let first = String::from_utf8_lossy(&first);
    // Too short to tell is no error here.
    let _ = decode_into(&first, &mut bytes);
    bytes
}

/// About how many bytes so much text stands for.
pub(crate) fn estimated(text: usize) -> usize {
    text / 4 * 3
}

/// How much text is decoded at a time: a multiple of four.
const PIECE: usize = 64 * 1024;

const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

struct Decoder<'a, W> {
    sink: &'a mut W,
    piece: Vec<u8>,
    bytes: Vec<u8>,
    written: usize,
}

impl<W: Write> Decoder<'_, W> {
    fn flush(&mut self) -> Result<(), Undecoded> {
        self.bytes.clear();
        ENGINE.decode_vec(&self.piece, &mut self.bytes).map_err(|_| Undecoded::Invalid)?;
        self.piece.clear();
        self.written += self.bytes.len();
        self.sink.write_all(&self.bytes).map_err(Undecoded::Sink)
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn what_is_clear_is_accepted() {
        for text in ["aGk=", "aGk", " aG\r\nk=\n"] {
            assert_eq!(decode(text).as_deref(), Some(&b"hi"[..]), "{text:?}");
        }
        assert_eq!(decode("-_-_"), decode("+/+/"));
        assert_eq!(decode(""), Some(vec![]));
        for text in ["%%%", "a", "aGk=aGk=", "ü"] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }

    #[test]
    fn pieces_join() {
        let bytes: Vec<u8> = (0..PIECE * 2).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let mut text = STANDARD.encode(&bytes);
        assert_eq!(decode(&text), Some(bytes.clone()));
        assert!(is_valid(&text));
        assert_eq!(head(&text), bytes[..48]);
        // Padding between pieces is as wrong as anywhere else in the middle.
        text.replace_range(PIECE - 1..PIECE, "=");
        assert_eq!(decode(&text), None);
    }
}
