//! Owns the transfer of logins to another machine: what is exported, and what an import replaces.
//!
//! A refreshable login belongs to one machine, or to machines that share a store: after an export,
//! the first side to refresh it ends it for the other.

use bowline_store::{Expect, Key, Safe, passphrase};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

use crate::account::Account;
use crate::dpop;
use crate::error::{AuthError, AuthErrorKind};
use crate::record::Record;

/// What an imported login replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// An older login, or none.
    #[default]
    Older,
    /// Any login.
    Anything,
}

#[derive(Serialize, Deserialize)]
struct Parcel {
    format: u32,
    logins: Vec<Packed>,
}

#[derive(Serialize, Deserialize)]
struct Packed {
    id: String,
    record: Record,
    /// The stored DPoP key that the token is bound to.
    #[serde(default)]
    key: Option<serde_json::Value>,
}

/// The only version so far.
const FORMAT: u32 = 1;

/// Exports all logins, or those of the named servers, encrypted with a passphrase.
pub async fn export(safe: &Safe, passphrase: &str, names: Option<&[String]>) -> Result<Vec<u8>, AuthError> {
    pack(safe, passphrase, |_, record| names.is_none_or(|names| names.contains(&record.server))).await
}

/// Exports these logins, encrypted with a passphrase. Deleted ones are left out.
pub async fn export_these(safe: &Safe, passphrase: &str, these: &[Account]) -> Result<Vec<u8>, AuthError> {
    pack(safe, passphrase, |key, _| these.iter().any(|account| account.id == key.id)).await
}

async fn pack(
    safe: &Safe,
    passphrase: &str,
    wanted: impl Fn(&Key, &Record) -> bool,
) -> Result<Vec<u8>, AuthError> {
    let mut logins = Vec::new();
    for (key, record, _) in safe.list::<Record>(Record::KIND).await? {
        if !wanted(&key, &record) {
            continue;
        }
        let bound = match &record.dpop {
            Some(id) => safe.get(&Key::new(dpop::KIND, id.as_str())).await?.map(|(key, _)| key),
            None => None,
        };
        logins.push(Packed { id: key.id, record, key: bound });
    }
    let parcel = serde_json::to_vec(&Parcel { format: FORMAT, logins })
        .map_err(|_| AuthError::new(AuthErrorKind::Store, "the logins cannot be written as JSON"))?;
    let passphrase = passphrase.to_owned();
    // Key derivation is slow on purpose.
    let sealed = tokio::task::spawn_blocking(move || passphrase::seal(&parcel, &passphrase)).await;
    sealed.map_err(|_| broken_off())
}

/// Imports logins, except where a newer one is stored. Returns the imported ones.
pub async fn import(safe: &Safe, sealed: &[u8], passphrase: &str) -> Result<Vec<Account>, AuthError> {
    import_with(safe, sealed, passphrase, Overwrite::Older).await
}

/// Imports logins, and lets the caller say what may be replaced. Returns the imported ones.
///
/// If the future is dropped, some of the logins may have been imported.
pub async fn import_with(
    safe: &Safe,
    sealed: &[u8],
    passphrase: &str,
    overwrite: Overwrite,
) -> Result<Vec<Account>, AuthError> {
    let (sealed, passphrase) = (sealed.to_vec(), passphrase.to_owned());
    let opened = tokio::task::spawn_blocking(move || passphrase::open(&sealed, &passphrase)).await;
    let opened = opened
        .map_err(|_| broken_off())?
        .map_err(|error| AuthError::new(AuthErrorKind::Store, error.to_string()))?;
    unpack(safe, &opened, overwrite).await
}

/// Imports the decrypted content of an export.
pub(crate) async fn unpack(
    safe: &Safe,
    opened: &[u8],
    overwrite: Overwrite,
) -> Result<Vec<Account>, AuthError> {
    let parcel: Parcel = serde_json::from_slice(opened)
        .ok()
        .filter(|parcel: &Parcel| parcel.format == FORMAT)
        .ok_or_else(|| AuthError::new(AuthErrorKind::Store, "these are no logins that this version knows"))?;
    let mut taken = Vec::new();
    for Packed { id, record, key } in parcel.logins {
        let at = Key::new(Record::KIND, id);
        if !put(safe, &at, &record, overwrite).await? {
            continue;
        }
        if let (Some(id), Some(key)) = (&record.dpop, key) {
            safe.put(&Key::new(dpop::KIND, id.as_str()), &key, Expect::Anything).await?;
        }
        taken.push(Account::of(&at, &record, SystemTime::now()));
    }
    Ok(taken)
}

/// Stores a login unless a newer one is stored. Returns whether it was stored. Starts over after a
/// concurrent write.
async fn put(safe: &Safe, key: &Key, record: &Record, overwrite: Overwrite) -> Result<bool, AuthError> {
    loop {
        let expect = match safe.get::<Record>(key).await? {
            _ if overwrite == Overwrite::Anything => Expect::Anything,
            None => Expect::Nothing,
            Some((kept, _)) if kept.obtained_at() >= record.obtained_at() => return Ok(false),
            Some((_, version)) => Expect::At(version),
        };
        if safe.put(key, record, expect).await?.is_some() {
            return Ok(true);
        }
    }
}

fn broken_off() -> AuthError {
    AuthError::new(AuthErrorKind::Unavailable, "it was broken off: the program is ending")
}
