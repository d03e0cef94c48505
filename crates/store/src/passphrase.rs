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
const FORMAT_VERSION: u8 = 1;
const SALT_LEN: usize = 16;
const HEADER_LEN: usize = MAGIC.len() + 1 + 3 * 4 + SALT_LEN + NONCE_LEN;

/// The Argon2id parameters: 64 MiB, three passes. RFC 9106 recommends them where memory is scarce.
const COST: KdfCost = KdfCost { memory: 64 * 1024, passes: 3, lanes: 1 };

/// The highest parameters that are accepted when opening.
const MAX_COST: KdfCost = KdfCost { memory: 256 * 1024, passes: 10, lanes: 8 };

/// The largest file that is opened, in bytes.
const MAX_SEALED_SIZE: usize = 64 << 20;

/// Why data was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PassphraseError {
    /// The data has another format.
    #[error("this was not written by bowline, or is cut short")]
    NotSealed,
    /// The format is newer, or its parameters exceed the accepted bounds.
    #[error("this was written by a later version of bowline")]
    UnsupportedVersion,
    /// The passphrase is wrong or the data was changed; which of both cannot be told.
    #[error("the passphrase is wrong, or the content was changed")]
    WrongPassphrase,
}

#[derive(Clone, Copy)]
struct KdfCost {
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
    let salt: [u8; SALT_LEN] = random::bytes().expect("the system gives randomness");
    let nonce: [u8; NONCE_LEN] = random::bytes().expect("the system gives randomness");
    let mut sealed = Vec::with_capacity(HEADER_LEN + value.len() + CHACHA20_POLY1305.tag_len());
    sealed.extend_from_slice(MAGIC);
    sealed.push(FORMAT_VERSION);
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
                    &mut sealed[HEADER_LEN..],
                )
                .ok()
        })
        .expect("our own parameters are good, and no value is that large");
    sealed.extend_from_slice(tag.as_ref());
    sealed
}

/// Decrypts what [`seal`] returned, at a similar cost.
pub fn open(sealed: &[u8], passphrase: &str) -> Result<Zeroizing<Vec<u8>>, PassphraseError> {
    let rest = sealed.strip_prefix(MAGIC).ok_or(PassphraseError::NotSealed)?;
    let (&form, rest) = rest.split_first().ok_or(PassphraseError::NotSealed)?;
    if form != FORMAT_VERSION {
        return Err(PassphraseError::UnsupportedVersion);
    }
    if sealed.len() > MAX_SEALED_SIZE {
        return Err(PassphraseError::NotSealed);
    }
    let mut rest = rest;
    let mut number = || {
        let (number, after) = rest.split_first_chunk::<4>().ok_or(PassphraseError::NotSealed)?;
        rest = after;
        Ok(u32::from_be_bytes(*number))
    };
    let cost = KdfCost { memory: number()?, passes: number()?, lanes: number()? };
    if cost.memory > MAX_COST.memory || cost.passes > MAX_COST.passes || cost.lanes > MAX_COST.lanes {
        return Err(PassphraseError::UnsupportedVersion);
    }
    let (salt, rest) = rest.split_first_chunk::<SALT_LEN>().ok_or(PassphraseError::NotSealed)?;
    let (nonce, rest) = rest.split_first_chunk::<NONCE_LEN>().ok_or(PassphraseError::NotSealed)?;
    if rest.len() < CHACHA20_POLY1305.tag_len() {
        return Err(PassphraseError::NotSealed);
    }
    let cipher = cipher(cost, salt, passphrase).ok_or(PassphraseError::NotSealed)?;
    let mut value = Zeroizing::new(rest.to_vec());
    let length = cipher
        .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(&sealed[..HEADER_LEN]), &mut value)
        .map_err(|_| PassphraseError::WrongPassphrase)?
        .len();
    value.truncate(length);
    Ok(value)
}

fn cipher(cost: KdfCost, salt: &[u8], passphrase: &str) -> Option<LessSafeKey> {
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
        assert_eq!(open(&sealed, "correct horsf"), Err(PassphraseError::WrongPassphrase));
        assert!(!sealed.windows(7).any(|it| it == b"refresh"));
    }

    #[test]
    fn what_was_changed_or_cut_is_refused() {
        let sealed = seal(b"a refresh token", "p");
        // One byte each of salt, nonce, value and tag.
        for at in [21, 37, HEADER_LEN, sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(open(&changed, "p"), Err(PassphraseError::WrongPassphrase), "byte {at}");
        }
        for length in 0..HEADER_LEN + 16 {
            assert_eq!(open(&sealed[..length], "p"), Err(PassphraseError::NotSealed), "{length} bytes");
        }
        assert_eq!(open(b"{\"logins\":[]}", "p"), Err(PassphraseError::NotSealed));
    }

    #[test]
    fn a_file_cannot_demand_unlimited_work() {
        let sealed = seal(b"x", "p");
        let with = |at: usize, number: u32| {
            let mut changed = sealed.clone();
            changed[at..at + 4].copy_from_slice(&number.to_be_bytes());
            open(&changed, "p").unwrap_err()
        };
        assert_eq!(with(9, u32::MAX), PassphraseError::UnsupportedVersion);
        assert_eq!(with(13, 11), PassphraseError::UnsupportedVersion);
        assert_eq!(with(17, 9), PassphraseError::UnsupportedVersion);
        assert_eq!(with(9, 0), PassphraseError::NotSealed);
        let mut later = sealed.clone();
        later[8] = 2;
        assert_eq!(open(&later, "p"), Err(PassphraseError::UnsupportedVersion));
    }
}
