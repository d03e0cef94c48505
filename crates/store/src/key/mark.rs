//! Owns what a store remembers of its key: where it is, which one it is, and a value to try it on.
//!
//! The mark is written once, by whoever is first, and that decides which key a store has. It is no secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::{Expect, Key, SealKey, Store, StoreError, Version};

/// What the check value says when it opens.
const CHECK: &[u8] = b"bowline";

/// Says which key a store is encrypted with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// Where the key was put.
    pub(crate) at: MarkedAt,
    /// Which key it is: [`SealKey::fingerprint`].
    pub(crate) key: String,
    /// [`CHECK`], encrypted.
    check: String,
}

/// Where a key was put.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MarkedAt {
    /// In the keyring of the one who made the store.
    Keyring,
    /// In a file, by this path on the machine it was made on.
    File(String),
    /// Nowhere: the program has it.
    Given,
}

impl Mark {
    /// What it is found by.
    pub(crate) fn key() -> Key {
        Key::new("key", "mark")
    }

    /// The mark of a store that has `key`.
    pub(crate) fn new(at: MarkedAt, key: &SealKey) -> Result<Self, StoreError> {
        let check = STANDARD_NO_PAD.encode(key.seal(&check_key(), CHECK)?);
        Ok(Self { at, key: key.fingerprint(), check })
    }

    /// The mark of a store; `None` is a new store.
    pub(crate) async fn of(store: &dyn Store) -> Result<Option<(Self, Version)>, StoreError> {
        let Some(entry) = store.get(&Self::key()).await? else { return Ok(None) };
        match serde_json::from_slice(&entry.value) {
            Ok(mark) => Ok(Some((mark, entry.version))),
            Err(_) => Err(StoreError::Unusable(format!(
                "what {} says of its key is damaged, or of a later version of bowline",
                store.place()
            ))),
        }
    }

    /// Sets the mark, unless somebody else was first. Says whether it was set.
    pub(crate) async fn set(&self, store: &dyn Store, expect: Expect) -> Result<bool, StoreError> {
        let value = serde_json::to_vec(self).expect("a mark is plain text");
        Ok(store.put(&Self::key(), &value, expect).await?.is_some())
    }

    /// Whether `key` is the one.
    pub(crate) fn fits(&self, key: &SealKey) -> bool {
        STANDARD_NO_PAD
            .decode(&self.check)
            .is_ok_and(|check| key.open(&check_key(), &check).is_ok_and(|said| said.as_slice() == CHECK))
    }
}

/// The check value is inside the mark; this is only what it is bound to.
fn check_key() -> Key {
    Key::new("key", "check")
}
