//! Owns the transfer of logins to another machine: what is exported, and what an import replaces.
//!
//! A refreshable login belongs to one machine, or to machines that share a store: after an export,
//! the first side to refresh it ends it for the other.

use bowline_store::{EncryptedStore, Key, Precondition, passphrase};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

use crate::account::Account;
use crate::dpop;
use crate::error::{AuthError, AuthErrorKind};
use crate::record::LoginRecord;

/// What an imported login replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overwrite {
    /// An older login, or none.
    #[default]
    Older,
    /// Any login.
    Anything,
}

#[derive(Serialize, Deserialize)]
struct ExportedLogins {
    format: u32,
    logins: Vec<ExportedLogin>,
}

#[derive(Serialize, Deserialize)]
struct ExportedLogin {
    id: String,
    record: LoginRecord,
    /// The stored DPoP key that the token is bound to.
    #[serde(default)]
    key: Option<serde_json::Value>,
}

/// The only version so far.
const FORMAT_VERSION: u32 = 1;

/// Exports all logins, or those of the named servers, encrypted with a passphrase.
///
/// Dropping the future changes no login; a key that is being derived from the passphrase is finished
/// in the background.
pub async fn export(
    store: &EncryptedStore,
    passphrase: &str,
    names: Option<&[String]>,
) -> Result<Vec<u8>, AuthError> {
    export_matching(store, passphrase, |_, record| names.is_none_or(|names| names.contains(&record.server)))
        .await
}

/// Exports these logins, encrypted with a passphrase. Deleted ones are left out. Dropping the future is
/// as with [`export`].
pub async fn export_accounts(
    store: &EncryptedStore,
    passphrase: &str,
    these: &[Account],
) -> Result<Vec<u8>, AuthError> {
    export_matching(store, passphrase, |key, _| these.iter().any(|account| account.id == key.id)).await
}

async fn export_matching(
    store: &EncryptedStore,
    passphrase: &str,
    wanted: impl Fn(&Key, &LoginRecord) -> bool,
) -> Result<Vec<u8>, AuthError> {
    let mut logins = Vec::new();
    for (key, record, _) in store.list::<LoginRecord>(LoginRecord::KIND).await? {
        if !wanted(&key, &record) {
            continue;
        }
        let dpop_key = match &record.dpop {
            Some(id) => store.get(&Key::new(dpop::RECORD_KIND, id.as_str())).await?.map(|(key, _)| key),
            None => None,
        };
        logins.push(ExportedLogin { id: key.id, record, key: dpop_key });
    }
    let parcel = serde_json::to_vec(&ExportedLogins { format: FORMAT_VERSION, logins })
        .map_err(|_| AuthError::new(AuthErrorKind::Store, "the logins cannot be written as JSON"))?;
    let passphrase = passphrase.to_owned();
    // Key derivation is slow on purpose.
    let sealed = tokio::task::spawn_blocking(move || passphrase::seal(&parcel, &passphrase)).await;
    sealed.map_err(|_| shutdown_error())
}

/// Imports logins, except where a newer one is stored. Returns the imported ones.
///
/// If the future is dropped, some of the logins may have been imported.
pub async fn import(
    store: &EncryptedStore,
    sealed: &[u8],
    passphrase: &str,
) -> Result<Vec<Account>, AuthError> {
    import_with(store, sealed, passphrase, Overwrite::Older).await
}

/// Imports logins, and lets the caller say what may be replaced. Returns the imported ones.
///
/// If the future is dropped, some of the logins may have been imported.
pub async fn import_with(
    store: &EncryptedStore,
    sealed: &[u8],
    passphrase: &str,
    overwrite: Overwrite,
) -> Result<Vec<Account>, AuthError> {
    let (sealed, passphrase) = (sealed.to_vec(), passphrase.to_owned());
    let opened = tokio::task::spawn_blocking(move || passphrase::open(&sealed, &passphrase)).await;
    let opened = opened
        .map_err(|_| shutdown_error())?
        .map_err(|error| AuthError::new(AuthErrorKind::Store, error.to_string()))?;
    import_decrypted(store, &opened, overwrite).await
}

/// Imports the decrypted content of an export.
pub(crate) async fn import_decrypted(
    store: &EncryptedStore,
    opened: &[u8],
    overwrite: Overwrite,
) -> Result<Vec<Account>, AuthError> {
    let parcel: ExportedLogins = serde_json::from_slice(opened)
        .ok()
        .filter(|parcel: &ExportedLogins| parcel.format == FORMAT_VERSION)
        .ok_or_else(|| {
            AuthError::new(AuthErrorKind::Store, "the file has no logins in a format that this version knows")
        })?;
    let mut taken = Vec::new();
    for ExportedLogin { id, record, key } in parcel.logins {
        let at = Key::new(LoginRecord::KIND, id);
        if !put_unless_newer(store, &at, &record, overwrite).await? {
            continue;
        }
        if let (Some(id), Some(key)) = (&record.dpop, key) {
            store.put(&Key::new(dpop::RECORD_KIND, id.as_str()), &key, Precondition::Any).await?;
        }
        taken.push(Account::from_record(&at, &record, SystemTime::now()));
    }
    Ok(taken)
}

/// Stores a login unless a newer one is stored. Returns whether it was stored. Starts over after a
/// concurrent write.
async fn put_unless_newer(
    store: &EncryptedStore,
    key: &Key,
    record: &LoginRecord,
    overwrite: Overwrite,
) -> Result<bool, AuthError> {
    loop {
        let expect = match store.get::<LoginRecord>(key).await? {
            _ if overwrite == Overwrite::Anything => Precondition::Any,
            None => Precondition::Absent,
            Some((kept, _)) if kept.obtained_at() >= record.obtained_at() => return Ok(false),
            Some((_, version)) => Precondition::AtVersion(version),
        };
        if store.put(key, record, expect).await?.is_some() {
            return Ok(true);
        }
    }
}

fn shutdown_error() -> AuthError {
    AuthError::new(AuthErrorKind::Unavailable, "it was canceled: the program is ending")
}
