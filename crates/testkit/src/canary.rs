//! Marks the credentials of tests so that they can be recognized, and searches for them in places
//! where none may be.
//!
//! Every credential that the test kit issues, and every one that a test puts into a slot, begins
//! with [`SECRET_PREFIX`]. A credential that the program under test generates itself, such as a
//! PKCE verifier, is recorded when the test kit receives it. [`find_secret`] finds both, also in
//! encoded form.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;

/// The prefix of every credential, so that a test can search for it. The kind follows: `access-`,
/// `refresh-`, `code-`, `client-`, `device-`, `registration-`, `jwt-`, or a kind that a test names.
pub const SECRET_PREFIX: &str = "tk-secret-";

/// Returns a credential for a slot that a test fills, such as a header. Equal kinds give equal
/// credentials.
pub fn test_secret(kind: &str) -> String {
    format!("{SECRET_PREFIX}{kind}-0123456789abcdef")
}

/// Records a credential that the program under test has generated itself. Values below 16 bytes are
/// left out, because they would be found by chance.
pub fn record_secret(value: &str) {
    if value.len() >= MIN_RECORDED_BYTES {
        RECORDED_SECRETS.lock().insert(value.to_owned());
    }
}

/// A credential that was found in the searched bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The form of the credential: `plain`, `base64`, `hex`, `utf-16`, or `plain, in pieces` if
    /// whitespace or terminal sequences stand between its characters.
    pub form: &'static str,
    /// Its offset in the searched bytes, or in what is left of them without whitespace and terminal
    /// sequences.
    pub offset: usize,
    /// The text around the offset.
    pub text: String,
}

/// Returns the first credential in these bytes that does not begin with one of `allowed`.
pub fn find_secret(bytes: &[u8], allowed: &[&str]) -> Option<Sighting> {
    let recorded: Vec<String> = RECORDED_SECRETS.lock().iter().cloned().collect();
    find_value(bytes, SECRET_PREFIX, allowed)
        .or_else(|| recorded.iter().find_map(|value| find_value(bytes, value, allowed)))
}

/// Returns the first occurrence of this value, in any of the known forms. A plain occurrence may be
/// one of `allowed`, or the beginning of one, as on a terminal where it is just being typed.
pub fn find_value(bytes: &[u8], value: &str, allowed: &[&str]) -> Option<Sighting> {
    let is_allowed = |at: usize| {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        let length = bytes[at..].iter().take_while(|byte| is_part(byte)).count();
        let word = &bytes[at..at + length];
        allowed.iter().any(|it| word.starts_with(it.as_bytes()) || it.as_bytes().starts_with(word))
    };
    if let Some(offset) = positions(bytes, value.as_bytes()).find(|at| !is_allowed(*at)) {
        return Some(Sighting::new("plain", bytes, offset));
    }
    let encoded = encodings(value).into_iter().find_map(|(form, needle)| {
        let offset = positions(bytes, &needle).next()?;
        Some(Sighting::new(form, bytes, offset))
    });
    // The end of a credential in pieces is unknown, so it cannot be compared with `allowed`.
    if encoded.is_some() || !allowed.is_empty() {
        return encoded;
    }
    let joined = join_pieces(bytes);
    let offset = positions(&joined, value.as_bytes()).next()?;
    Some(Sighting::new("plain, in pieces", &joined, offset))
}

/// The minimum length in bytes of a recorded value.
const MIN_RECORDED_BYTES: usize = 16;

/// The number of bytes shown after an offset; half as many are shown before it.
const MAX_SHOWN_BYTES: usize = 120;

static RECORDED_SECRETS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

impl Sighting {
    fn new(form: &'static str, bytes: &[u8], offset: usize) -> Self {
        let around =
            &bytes[offset.saturating_sub(MAX_SHOWN_BYTES / 2)..bytes.len().min(offset + MAX_SHOWN_BYTES)];
        Self { form, offset, text: String::from_utf8_lossy(around).into_owned() }
    }
}

/// Returns the offsets of `needle` in `bytes`.
fn positions<'a>(bytes: &'a [u8], needle: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    // Most offsets do not match, so the first byte decides most of the time.
    let first = needle[0];
    bytes
        .iter()
        .enumerate()
        .filter(move |(at, byte)| **byte == first && bytes[*at..].starts_with(needle))
        .map(|(at, _)| at)
}

/// Returns the value in base64 at each of its three alignments, in hex and in UTF-16.
fn encodings(value: &str) -> Vec<(&'static str, Vec<u8>)> {
    let mut forms = Vec::new();
    for lead in 0..3 {
        let text = [&b"\0\0"[..lead], value.as_bytes()].concat();
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let encoded = engine.encode(&text).into_bytes();
            // The first characters also encode the bytes before the value, the last one those after
            // it.
            let (from, to) = ([0, 2, 3][lead], text.len() / 3 * 4);
            forms.push(("base64", encoded[from..to].to_vec()));
        }
    }
    let hex = hex(value);
    forms.push(("hex", hex.to_uppercase().into_bytes()));
    forms.push(("hex", hex.into_bytes()));
    forms.push(("utf-16", value.encode_utf16().flat_map(u16::to_le_bytes).collect()));
    forms.push(("utf-16", value.encode_utf16().flat_map(u16::to_be_bytes).collect()));
    forms
}

fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Returns the bytes without whitespace, box drawing and terminal control sequences, which joins a
/// value that was broken into lines.
fn join_pieces(bytes: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            0x1b if rest.next_if_eq(&b'[').is_some() => {
                // A control sequence ends with a byte of this range.
                for byte in rest.by_ref() {
                    if (0x40..=0x7e).contains(&byte) {
                        break;
                    }
                }
            }
            byte if byte.is_ascii_whitespace() || byte.is_ascii_control() || byte >= 0x80 => {}
            byte => joined.push(byte),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn form(bytes: &[u8]) -> Option<&'static str> {
        find_secret(bytes, &[]).map(|sighting| sighting.form)
    }

    #[test]
    fn a_credential_is_found_in_every_form() {
        let secret = test_secret("header");
        let text = |before: &str| format!("{before}{secret}, and so on");
        assert_eq!(form(text("Bearer ").as_bytes()), Some("plain"));
        for before in ["", "a", "ab", "abc", "user:", "{\"jti\":\"", "a longer text before it: "] {
            let encoded = STANDARD.encode(text(before));
            assert_eq!(form(encoded.as_bytes()), Some("base64"), "{before:?}");
            assert_eq!(form(URL_SAFE_NO_PAD.encode(text(before)).as_bytes()), Some("base64"), "{before:?}");
        }
        let hex = hex(&text("x"));
        assert_eq!(form(hex.as_bytes()), Some("hex"));
        assert_eq!(form(hex.to_uppercase().as_bytes()), Some("hex"));
        let wide: Vec<u8> = text("x").encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(form(&wide), Some("utf-16"));
        // A narrow terminal, with colors and a frame.
        let pieces = "│ tk-sec\x1b[0m │\r\n\x1b[31;1m│ ret-hea\u{1b}[Kder- │\r\n";
        assert_eq!(form(pieces.as_bytes()), Some("plain, in pieces"));
    }

    #[test]
    fn nothing_is_found_where_there_is_nothing() {
        assert_eq!(form(b""), None);
        assert_eq!(form(b"tk-secret"), None);
        assert_eq!(form(b"a secret of the test kit, tk-access- and \xff\xfe\x00"), None);
    }

    #[test]
    fn an_exception_is_for_one_kind() {
        let code = test_secret("code");
        let allowed = [&*format!("{SECRET_PREFIX}code-")];
        assert_eq!(find_secret(code.as_bytes(), &allowed), None);
        // A value that is still being typed.
        assert_eq!(find_secret(b"> tk-secret-\x1b[K", &allowed), None);
        let both = format!("{code} {}", test_secret("access"));
        let found = find_secret(both.as_bytes(), &allowed).expect("the other one is found");
        assert_eq!((found.form, found.offset), ("plain", code.len() + 1));
    }

    #[test]
    fn recorded_secrets_are_found() {
        let verifier = "dBjftJeZ4CVP-mBfuJ9cWw3C-of-a-test";
        assert_eq!(form(verifier.as_bytes()), None);
        record_secret(verifier);
        record_secret("short");
        assert_eq!(form(format!("code_verifier={verifier}").as_bytes()), Some("plain"));
        assert_eq!(form(b"short"), None);
    }
}
