//! Decodes Base64 from a server in chunks, so that a hundred megabytes need only a small buffer.
//!
//! It tolerates line ends, missing padding and the URL alphabet, since the bytes are still
//! unambiguous.

use std::io::{self, Write};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Why data could not be decoded.
#[derive(Debug)]
pub(crate) enum DecodeError {
    /// The text is not Base64.
    Invalid,
    /// The bytes could not be written.
    Sink(io::Error),
}

/// Decodes to `sink` and returns the number of bytes. After an error, what was written is of no
/// use.
pub(crate) fn decode_into(text: &str, sink: &mut impl Write) -> Result<usize, DecodeError> {
    let mut decoder = Decoder { sink, chunk: Vec::with_capacity(CHUNK_CHARS), bytes: Vec::new(), written: 0 };
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        if decoder.chunk.len() == CHUNK_CHARS {
            // Padding is allowed only at the end.
            if decoder.chunk.ends_with(b"=") {
                return Err(DecodeError::Invalid);
            }
            decoder.flush()?;
        }
        decoder.chunk.push(match byte {
            b'-' => b'+',
            b'_' => b'/',
            byte => byte,
        });
    }
    decoder.flush()?;
    Ok(decoder.written)
}

/// Decodes everything into memory, for callers that know the size is bounded.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(estimate_size(text.len()));
    decode_into(text, &mut bytes).ok().map(|_| bytes)
}

pub(crate) fn is_valid(text: &str) -> bool {
    decode_into(text, &mut io::sink()).is_ok()
}

/// Decodes the first bytes, enough to detect the file type.
pub(crate) fn decode_head(text: &str) -> Vec<u8> {
    let mut first: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).take(64).collect();
    first.truncate(first.len() / 4 * 4);
    let mut bytes = Vec::new();
    let first = String::from_utf8_lossy(&first);
    // Text that is too short is no error here.
    let _ = decode_into(&first, &mut bytes);
    bytes
}

/// Estimates the decoded size of `text` characters.
pub(crate) fn estimate_size(text: usize) -> usize {
    text / 4 * 3
}

/// How many characters are decoded at a time; a multiple of four.
const CHUNK_CHARS: usize = 64 * 1024;

const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

struct Decoder<'a, W> {
    sink: &'a mut W,
    chunk: Vec<u8>,
    bytes: Vec<u8>,
    written: usize,
}

impl<W: Write> Decoder<'_, W> {
    fn flush(&mut self) -> Result<(), DecodeError> {
        self.bytes.clear();
        ENGINE.decode_vec(&self.chunk, &mut self.bytes).map_err(|_| DecodeError::Invalid)?;
        self.chunk.clear();
        self.written += self.bytes.len();
        self.sink.write_all(&self.bytes).map_err(DecodeError::Sink)
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
        let bytes: Vec<u8> = (0..CHUNK_CHARS * 2).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let mut text = STANDARD.encode(&bytes);
        assert_eq!(decode(&text), Some(bytes.clone()));
        assert!(is_valid(&text));
        assert_eq!(decode_head(&text), bytes[..48]);
        // Padding between chunks is as invalid as anywhere else in the middle.
        text.replace_range(CHUNK_CHARS - 1..CHUNK_CHARS, "=");
        assert_eq!(decode(&text), None);
    }
}
