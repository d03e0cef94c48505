//! Owns the format of data that is encrypted with a passphrase.
//!
//! A header with the Argon2id parameters, then ChaCha20-Poly1305 with the header as associated
//! data. The parameters are bounded when a file is opened, so that a stranger's file cannot demand
//! unlimited work.

use argon2::{Algorithm, Argon2, Params, Version};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

use crate::random;

const MAGIC: &[u8; 8] = b"bowlseal";
const FORM: u8 = 1;
const SALT: usize = 16;
const HEADER: usize = MAGIC.len() + 1 + 3 * 4 + SALT + NONCE_LEN;

/// The Argon2id parameters: 64 MiB, three passes. RFC 9106 recommends them where memory is scarce.
const COST: Cost = Cost { memory: 64 * 1024, passes: 3, lanes: 1 };

/// The highest parameters that are accepted when opening.
const MOST: Cost = Cost { memory: 256 * 1024, passes: 10, lanes: 8 };

/// The largest file that is opened, in bytes.
const LARGEST: usize = 64 << 20;

/// Why data was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PassphraseError {
    /// The data has another format.
    #[error("this was not written by bowline, or is cut short")]
    NotOurs,
    /// The format is newer, or its parameters exceed the accepted bounds.
    #[error("this was written by a later version of bowline")]
    Later,
    /// The passphrase is wrong or the data was changed; which of both cannot be told.
    #[error("the passphrase is wrong, or the content was changed")]
    Wrong,
}

#[derive(Clone, Copy)]
struct Cost {
    /// In KiB.
    memory: u32,
    passes: u32,
    lanes: u32,
}

/// Encrypts data with a passphrase. Takes a good part of a second, and 64 MiB.
///
/// # Panics
/// When the system provides no randomness.
pub fn seal(value: &[u8], passphrase: &str) -> Vec<u8> {
    let salt: [u8; SALT] = random::bytes().expect("the system gives randomness");
    let nonce: [u8; NONCE_LEN] = random::bytes().expect("the system gives randomness");
    let mut sealed = Vec::with_capacity(HEADER + value.len() + CHACHA20_POLY1305.tag_len());
    sealed.extend_from_slice(MAGIC);
    sealed.push(FORM);
    for number in [COST.memory, COST.passes, COST.lanes] {
        sealed.extend_from_slice(&number.to_be_bytes());
    }
    sealed.extend_from_slice(&salt);
    sealed.extend_from_slice(&nonce);
    let header = sealed.clone();
    sealed.extend_from_slice(value);
    let tag = cipher(COST, &salt, passphrase)
        .and_then(|cipher| {
            cipher
                .seal_in_place_separate_tag(
                    Nonce::assume_unique_for_key(nonce),
                    Aad::from(&header),
                    &mut sealed[HEADER..],
                )
                .ok()
        })
        .expect("our own parameters are good, and no value is that large");
    sealed.extend_from_slice(tag.as_ref());
    sealed
}

/// Decrypts what [`seal`] returned, at a similar cost.
pub fn open(sealed: &[u8], passphrase: &str) -> Result<Zeroizing<Vec<u8>>, PassphraseError> {
    let rest = sealed.strip_prefix(MAGIC).ok_or(PassphraseError::NotOurs)?;
    let (&form, rest) = rest.split_first().ok_or(PassphraseError::NotOurs)?;
    if form != FORM {
        return Err(PassphraseError::Later);
    }
    if sealed.len() > LARGEST {
        return Err(PassphraseError::NotOurs);
    }
    let mut rest = rest;
    let mut number = || {
        let (number, after) = rest.split_first_chunk::<4>().ok_or(PassphraseError::NotOurs)?;
        rest = after;
        Ok(u32::from_be_bytes(*number))
    };
    let cost = Cost { memory: number()?, passes: number()?, lanes: number()? };
    if cost.memory > MOST.memory || cost.passes > MOST.passes || cost.lanes > MOST.lanes {
        return Err(PassphraseError::Later);
    }
    let (salt, rest) = rest.split_first_chunk::<SALT>().ok_or(PassphraseError::NotOurs)?;
    let (nonce, rest) = rest.split_first_chunk::<NONCE_LEN>().ok_or(PassphraseError::NotOurs)?;
    if rest.len() < CHACHA20_POLY1305.tag_len() {
        return Err(PassphraseError::NotOurs);
    }
    let cipher = cipher(cost, salt, passphrase).ok_or(PassphraseError::NotOurs)?;
    let mut value = Zeroizing::new(rest.to_vec());
    let length = cipher
        .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(&sealed[..HEADER]), &mut value)
        .map_err(|_| PassphraseError::Wrong)?
        .len();
    value.truncate(length);
    Ok(value)
}

fn cipher(cost: Cost, salt: &[u8], passphrase: &str) -> Option<LessSafeKey> {
    let params = Params::new(cost.memory, cost.passes, cost.lanes, Some(32)).ok()?;
    let mut key = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.as_bytes(), salt, &mut key[..])
        .ok()?;
    Some(LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &key[..]).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tk_03_opens_with_its_passphrase_alone() {
        let sealed = seal(b"a refresh token", "correct horse");
        assert_eq!(open(&sealed, "correct horse").unwrap().as_slice(), b"a refresh token");
        assert_eq!(open(&sealed, "correct horsf"), Err(PassphraseError::Wrong));
        assert!(!sealed.windows(7).any(|it| it == b"refresh"));
    }

    #[test]
    fn what_was_changed_or_cut_is_refused() {
        let sealed = seal(b"a refresh token", "p");
        // One byte each of salt, nonce, value and tag.
        for at in [21, 37, HEADER, sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(open(&changed, "p"), Err(PassphraseError::Wrong), "byte {at}");
        }
        for length in 0..HEADER + 16 {
            assert_eq!(open(&sealed[..length], "p"), Err(PassphraseError::NotOurs), "{length} bytes");
        }
        assert_eq!(open(b"{\"logins\":[]}", "p"), Err(PassphraseError::NotOurs));
    }

    #[test]
    fn a_stranger_does_not_say_what_we_spend() {
        let sealed = seal(b"x", "p");
        let with = |at: usize, number: u32| {
            let mut changed = sealed.clone();
            changed[at..at + 4].copy_from_slice(&number.to_be_bytes());
            open(&changed, "p").unwrap_err()
        };
        assert_eq!(with(9, u32::MAX), PassphraseError::Later);
        assert_eq!(with(13, 11), PassphraseError::Later);
        assert_eq!(with(17, 9), PassphraseError::Later);
        assert_eq!(with(9, 0), PassphraseError::NotOurs);
        let mut later = sealed.clone();
        later[8] = 2;
        assert_eq!(open(&later, "p"), Err(PassphraseError::Later));
    }
}
