//! Owns the mark, which records in the store where its key is, which key it is, and a value to
//! verify it with.
//!
//! The first writer of the mark decides which key a store has. The mark is not secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::{Key, Precondition, SealKey, Store, StoreError, Version};

/// The plaintext of the check value.
const CHECK_TEXT: &[u8] = b"bowline";

/// The record of the key that a store is encrypted with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyMark {
    /// Where the key is kept.
    pub(crate) at: MarkedLocation,
    /// The key's [`SealKey::fingerprint`].
    pub(crate) key: String,
    /// [`CHECK_TEXT`], encrypted.
    check: String,
}

/// Where a key is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MarkedLocation {
    /// In the keyring of the user who created the store.
    Keyring,
    /// In a file, with its path on the machine that created it.
    File(String),
    /// Nowhere: the calling program has it.
    Given,
}

impl KeyMark {
    /// The key of the mark's own record.
    pub(crate) fn key() -> Key {
        Key::new("key", "mark")
    }

    /// Creates the mark of a store with this key.
    pub(crate) fn new(at: MarkedLocation, key: &SealKey) -> Result<Self, StoreError> {
        let check = STANDARD_NO_PAD.encode(key.seal(&check_key(), CHECK_TEXT)?);
        Ok(Self { at, key: key.fingerprint(), check })
    }

    /// Loads the mark of a store; `None` if the store is new.
    pub(crate) async fn load(store: &dyn Store) -> Result<Option<(Self, Version)>, StoreError> {
        let Some(entry) = store.get(&Self::key()).await? else { return Ok(None) };
        match serde_json::from_slice(&entry.value) {
            Ok(mark) => Ok(Some((mark, entry.version))),
            Err(_) => Err(StoreError::Unusable(format!(
                "what {} says of its key is damaged, or of a later version of bowline",
                store.location()
            ))),
        }
    }

    /// Saves the mark. Returns `false` if the precondition failed because another process was
    /// first.
    pub(crate) async fn save(&self, store: &dyn Store, expect: Precondition) -> Result<bool, StoreError> {
        let value = serde_json::to_vec(self).expect("a mark is plain text");
        Ok(store.put(&Self::key(), &value, expect).await?.is_some())
    }

    /// Whether this is the key of the store.
    pub(crate) fn matches(&self, key: &SealKey) -> bool {
        STANDARD_NO_PAD
            .decode(&self.check)
            .is_ok_and(|check| key.open(&check_key(), &check).is_ok_and(|said| said.as_slice() == CHECK_TEXT))
    }
}

/// The key that the check value is bound to. The value itself is inside the mark.
fn check_key() -> Key {
    Key::new("key", "check")
}
