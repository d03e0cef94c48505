//! Owns the format of an encrypted value: a version byte, a nonce, then ChaCha20-Poly1305 over the
//! value with its record key as associated data.

use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::hmac;
use zeroize::Zeroizing;

use crate::{Key, StoreError, key, random};

/// The only version so far.
const FORMAT_VERSION: u8 = 1;

/// The prefix of a key's text form, so that a person who finds one can recognize it.
const KEY_TEXT_PREFIX: &str = "bowline-key-1:";

/// The key that values are encrypted with. It is never printed, and is wiped when dropped.
#[derive(Clone)]
pub struct SealKey(Zeroizing<[u8; 32]>);

/// Nonces for many values, read from the operating system a batch at a time: to ask it for each one takes longer
/// than the encryption of a small value.
///
/// Every nonce is 96 random bits that are given away once, so two are as unlikely to be the same as if each
/// had been asked for by itself, whatever other processes encrypt with the key. It cannot be cloned, and nothing
/// is left of it for a later process.
#[derive(Debug)]
pub struct NonceSource {
    bytes: [u8; NONCE_BATCH * NONCE_LEN],
    /// How many nonces of the batch were given away.
    used: usize,
}

/// How many nonces are read at once. Linux gives 256 bytes without interruption.
const NONCE_BATCH: usize = 21;

/// A value cannot be decrypted: another key, another record, or changed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecryptError;

impl SealKey {
    /// Generates a new key.
    pub fn generate() -> Result<Self, StoreError> {
        Ok(Self(Zeroizing::new(random::bytes()?)))
    }

    /// Creates a key from bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Reads the key from a file, which is created with a new key if there is none. Only its owner can
    /// read it. Concurrent callers get the same key.
    ///
    /// # Errors
    /// The error is [`StoreError::Unusable`] if the file has something else in it.
    pub fn load_or_create(path: &Path) -> Result<Self, StoreError> {
        Self::generate()?.load_or_save(path)
    }

    /// Reads the key from a file, in which this key is saved if there is none.
    ///
    /// # Errors
    /// Those of [`SealKey::load_or_create`].
    pub fn load_or_save(&self, path: &Path) -> Result<Self, StoreError> {
        let mut notes = Vec::new();
        let key = key::file::read_or_create_key(path, self, &mut notes)?;
        for note in notes {
            tracing::info!("{note}");
        }
        Ok(key)
    }

    /// Derives a key for another purpose, from which nothing can be concluded about this one.
    pub fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.0[..]), purpose.as_bytes());
        let mut derived = Zeroizing::new([0; 32]);
        derived.copy_from_slice(tag.as_ref());
        derived
    }

    /// Identifies the key without revealing it.
    pub(crate) fn fingerprint(&self) -> String {
        let mut named = Zeroizing::new(b"bowline key fingerprint".to_vec());
        named.extend_from_slice(&self.0[..]);
        random::hex(&digest(&SHA256, &named).as_ref()[..8])
    }

    /// The text form for keyrings and files. KDE's keyring stores nothing but text.
    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(64));
        text.push_str(KEY_TEXT_PREFIX);
        STANDARD_NO_PAD.encode_string(&self.0[..], &mut text);
        text
    }

    /// Parses the text form.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut bytes = Zeroizing::new([0; 32]);
        let length =
            STANDARD_NO_PAD.decode_slice(text.trim().strip_prefix(KEY_TEXT_PREFIX)?, &mut bytes[..]).ok()?;
        (length == bytes.len()).then_some(Self(bytes))
    }

    /// Encrypts the value of a record. It is 29 bytes longer then, and can be decrypted only for the
    /// same record.
    pub fn seal(&self, key: &Key, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        let mut sealed = Vec::with_capacity(value.len() + SEAL_OVERHEAD);
        self.push_sealed(&mut sealed, random::bytes()?, key, &[value])?;
        Ok(sealed)
    }

    /// Appends what [`SealKey::seal`] returns for a value, which is given in parts. Returns how many
    /// bytes that are.
    fn push_sealed(
        &self,
        sealed: &mut Vec<u8>,
        nonce: [u8; NONCE_LEN],
        key: &Key,
        value: &[&[u8]],
    ) -> Result<usize, StoreError> {
        let begin = sealed.len();
        sealed.push(FORMAT_VERSION);
        sealed.extend_from_slice(&nonce);
        let text = sealed.len();
        for part in value {
            sealed.extend_from_slice(part);
        }
        let nonce = Nonce::assume_unique_for_key(nonce);
        let aad = Aad::from(associated_data(key));
        let Ok(tag) = self.cipher().seal_in_place_separate_tag(nonce, aad, &mut sealed[text..]) else {
            sealed.truncate(begin);
            return Err(StoreError::Unusable("the value is too large to be encrypted".into()));
        };
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed.len() - begin)
    }

    /// Decrypts the value of a record.
    pub fn open(&self, key: &Key, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, DecryptError> {
        let (&FORMAT_VERSION, rest) = sealed.split_first().ok_or(DecryptError)? else {
            return Err(DecryptError);
        };
        let (nonce, rest) = rest.split_first_chunk::<NONCE_LEN>().ok_or(DecryptError)?;
        let mut value = Zeroizing::new(rest.to_vec());
        let length = self
            .cipher()
            .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(associated_data(key)), &mut value)
            .map_err(|_| DecryptError)?
            .len();
        value.truncate(length);
        Ok(value)
    }

    fn cipher(&self) -> LessSafeKey {
        LessSafeKey::new(
            UnboundKey::new(&CHACHA20_POLY1305, &self.0[..])
                .expect("the key has the length of the algorithm"),
        )
    }
}

impl NonceSource {
    /// Appends what [`SealKey::seal`] returns for a value, which is given in parts, with the next
    /// nonce. Returns how many bytes that are.
    pub fn push_sealed(
        &mut self,
        sealed: &mut Vec<u8>,
        seal_key: &SealKey,
        key: &Key,
        value: &[&[u8]],
    ) -> Result<usize, StoreError> {
        seal_key.push_sealed(sealed, self.next()?, key, value)
    }

    fn next(&mut self) -> Result<[u8; NONCE_LEN], StoreError> {
        if self.used == NONCE_BATCH {
            self.bytes = random::bytes()?;
            self.used = 0;
        }
        let nonce = *self.bytes[self.used * NONCE_LEN..].first_chunk().expect("the batch is whole nonces");
        // Before it is used: whatever happens then, it is not used again.
        self.used += 1;
        Ok(nonce)
    }
}

impl Default for NonceSource {
    /// Nothing is read before the first nonce is needed.
    fn default() -> Self {
        Self { bytes: [0; NONCE_BATCH * NONCE_LEN], used: NONCE_BATCH }
    }
}

/// How much longer a value is when it is encrypted.
const SEAL_OVERHEAD: usize = 1 + NONCE_LEN + 16;

/// The associated data of a record. A kind contains no NUL, so it is unambiguous.
fn associated_data(key: &Key) -> Vec<u8> {
    [&[FORMAT_VERSION], key.kind.as_bytes(), &[0], key.id.as_bytes()].concat()
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> SealKey {
        SealKey::from_bytes([7; 32])
    }

    #[test]
    fn tk_03_a_value_opens_only_with_its_key_under_its_name() {
        let login = Key::new("login", "a");
        let sealed = key().seal(&login, b"a token").unwrap();

        assert_eq!(key().open(&login, &sealed).unwrap().as_slice(), b"a token");
        assert_eq!(key().open(&Key::new("login", "b"), &sealed), Err(DecryptError));
        assert_eq!(key().open(&Key::new("client", "a"), &sealed), Err(DecryptError));
        assert_eq!(SealKey::from_bytes([8; 32]).open(&login, &sealed), Err(DecryptError));
    }

    #[test]
    fn tk_03_the_same_value_never_looks_the_same() {
        let login = Key::new("login", "a");
        assert_ne!(key().seal(&login, b"a token").unwrap(), key().seal(&login, b"a token").unwrap());
    }

    #[test]
    fn a_nonce_of_a_batch_is_given_away_once() {
        let (mut nonces, mut seen) = (NonceSource::default(), std::collections::HashSet::new());
        for _ in 0..10 * NONCE_BATCH {
            let nonce = nonces.next().unwrap();
            assert!(nonce != [0; NONCE_LEN] && seen.insert(nonce));
        }
    }

    #[test]
    fn a_value_in_parts_is_appended_as_one() {
        let login = Key::new("login", "a");
        let (mut file, mut nonces) = (b"before".to_vec(), NonceSource::default());
        let length = nonces.push_sealed(&mut file, &key(), &login, &[b"a ", b"token"]).unwrap();
        assert_eq!((file.len(), length), (6 + length, 7 + SEAL_OVERHEAD));
        assert_eq!(key().open(&login, &file[6..]).unwrap().as_slice(), b"a token");
        assert_eq!(key().seal(&login, b"a token").unwrap().len(), length);
    }

    #[test]
    fn tk_03_a_key_is_not_printed() {
        let key = SealKey::from_bytes(*b"0123456789abcdef0123456789abcdef");
        let shown = format!("{key:?} {key:#?}");
        assert!(!shown.contains("48") && !shown.contains("0123"), "{shown}");
    }

    #[test]
    fn a_derived_key_is_of_its_key_and_its_purpose() {
        let derived = key().derive("ids");
        assert_eq!(*derived, *key().derive("ids"));
        assert_ne!(*derived, *key().derive("tasks"));
        assert_ne!(*derived, *SealKey::from_bytes([8; 32]).derive("ids"));
        assert_ne!(*derived, *key().0);
    }

    #[test]
    fn a_key_survives_being_text() {
        let text = key().to_text();
        assert_eq!(SealKey::from_text(&format!("{}\n", *text)).unwrap().0, key().0);
        for wrong in ["", "bowline-key-1:", "bowline-key-1:AAAA", &text[1..], &format!("{}A", *text)] {
            assert!(SealKey::from_text(wrong).is_none(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_changed_or_cut_does_not_open(
            value in proptest::collection::vec(any::<u8>(), 0..64),
            at in any::<prop::sample::Index>(),
            flip in 1_u8..,
            cut in any::<prop::sample::Index>(),
        ) {
            let login = Key::new("login", "a");
            let sealed = key().seal(&login, &value).unwrap();
            let mut changed = sealed.clone();
            changed[at.index(sealed.len())] ^= flip;
            prop_assert_eq!(key().open(&login, &changed), Err(DecryptError));
            prop_assert_eq!(key().open(&login, &sealed[..cut.index(sealed.len())]), Err(DecryptError));
            let opened = key().open(&login, &sealed).unwrap();
            prop_assert_eq!(opened.as_slice(), value.as_slice());
        }
    }
}
