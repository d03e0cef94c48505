//! [`SessionId`]: the id of a session over HTTP, and how a forged one is told from ours without a look-up.

use std::fmt::{self, Write as _};

use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

/// The id of a session, which is a secret of its host: 128 random bits and a tag, as hexadecimal digits.
/// One that a host sends is made by [`SessionIdKey::verify`] alone, so every id is one that we issued.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionId(Box<str>);

/// The key of the tags in the ids of sessions.
///
/// An id is looked up only if its tag was made with this key. Processes that go on with each other's
/// sessions need the same key.
#[derive(Clone)]
pub struct SessionIdKey(hmac::Key);

/// How many random bytes an id has.
const RANDOM_LENGTH: usize = 16;
/// How many bytes the HMAC of an id has.
const TAG_LENGTH: usize = 32;

impl SessionIdKey {
    /// Creates the key from 32 bytes that are secret and random.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Creates a key that no other process has.
    pub(crate) fn random() -> Self {
        Self::new(&random_bytes())
    }

    /// Issues an id.
    // SE-08
    pub(crate) fn issue(&self) -> SessionId {
        let random = random_bytes::<RANDOM_LENGTH>();
        let tag = hmac::sign(&self.0, &random);
        let mut id = String::with_capacity(2 * (RANDOM_LENGTH + TAG_LENGTH));
        for byte in random.iter().chain(tag.as_ref()) {
            // Writing to a string cannot fail.
            let _ = write!(id, "{byte:02x}");
        }
        SessionId(id.into())
    }

    /// Returns the id in a message of a host if it was issued with this key. The time that this takes does
    /// not depend on how much of a tag is right.
    // SE-08
    pub(crate) fn verify(&self, text: &str) -> Option<SessionId> {
        let bytes = parse_hex(text)?;
        let (random, tag) = bytes.split_at(RANDOM_LENGTH);
        hmac::verify(&self.0, random, tag).ok()?;
        Some(SessionId(text.into()))
    }
}

impl SessionId {
    /// The id of a session that cannot be named.
    pub(crate) fn none() -> Self {
        Self("".into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionIdKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionIdKey(..)")
    }
}

fn random_bytes<const LENGTH: usize>() -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random numbers");
    bytes
}

/// The bytes of an id, which is written in lowercase only: a session has one id.
fn parse_hex(text: &str) -> Option<[u8; RANDOM_LENGTH + TAG_LENGTH]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; RANDOM_LENGTH + TAG_LENGTH];
    if text.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn se_08_an_id_is_accepted_only_as_it_was_issued() {
        let key = SessionIdKey::new(&[7; 32]);
        let id = key.issue();
        let text = id.as_str();
        assert_eq!(text.len(), 96);
        assert!(SessionIdKey::new(&[7; 32]).verify(text).is_some_and(|verified| verified == id));
        assert!(SessionIdKey::new(&[8; 32]).verify(text).is_none(), "the tag is of another key");
        assert!(SessionIdKey::random().verify(text).is_none());
        for at in 0..text.len() {
            let other = if &text[at..=at] == "0" { "1" } else { "0" };
            let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            assert!(key.verify(&changed).is_none(), "{changed}");
            assert!(key.verify(&text[..at]).is_none(), "{at}");
        }
        // The last one is in the form of earlier versions.
        for forged in ["", "x", &format!("{text}0"), &text.replace('a', "A").replace('f', "F"), &text[..48]] {
            assert!(*forged == *text || key.verify(forged).is_none(), "{forged}");
        }
        let umlaut = format!("{}ä{}", &text[..31], &text[32..]);
        assert!(key.verify(&umlaut).is_none(), "it cannot be cut there");
        assert_ne!(key.issue().as_str(), text);
        assert_eq!(format!("{key:?}"), "SessionIdKey(..)");
    }
}
