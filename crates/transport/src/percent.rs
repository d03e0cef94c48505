//! Percent decoding of URLs and parts of them.

use std::borrow::Cow;

/// Decodes the percent escapes of a text. Bytes that are not UTF-8 become U+FFFD.
pub fn percent_decode_lossy(text: &str) -> Cow<'_, str> {
    if text.contains('%') {
        Cow::Owned(String::from_utf8_lossy(&percent_decode(text.as_bytes())).into_owned())
    } else {
        Cow::Borrowed(text)
    }
}

/// Decodes the percent escapes of a text. A percent sign without two digits stands for itself.
pub(crate) fn percent_decode(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = decode_first_byte(rest) {
        decoded.push(byte);
        rest = after;
    }
    decoded
}

/// Decodes the first byte of a text, and returns what follows it.
pub(crate) fn decode_first_byte(text: &[u8]) -> Option<(u8, &[u8])> {
    let digit =
        |at: usize| char::from(*text.get(at)?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    match (text.first()?, digit(1), digit(2)) {
        (b'%', Some(high), Some(low)) => Some((high * 16 + low, &text[3..])),
        (byte, ..) => Some((*byte, &text[1..])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_percent_sign_with_two_digits_is_an_escape() {
        for (written, decoded) in [
            ("plain", "plain"),
            ("a%20b%2Fc%2f", "a b/c/"),
            ("%C3%A9", "é"),
            ("%ff", "\u{fffd}"),
            ("100% of %5 and %+f", "100% of %5 and %+f"),
            ("%", "%"),
        ] {
            assert_eq!(percent_decode_lossy(written), decoded, "{written}");
        }
    }
}
