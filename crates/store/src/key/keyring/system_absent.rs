//! The keyring in a build without the feature `keyring`: it never answers, so that a store with a
//! key in the keyring is refused and not given another key.

use zeroize::Zeroizing;

use super::KeyringBackend;

#[derive(Default)]
pub(super) struct SystemKeyring {}

impl KeyringBackend for SystemKeyring {
    fn read(&mut self, _name: &str) -> Result<Option<Zeroizing<String>>, String> {
        Err(NOT_BUILT.to_owned())
    }

    fn write(&mut self, _name: &str, _text: &str) -> Result<(), String> {
        Err(NOT_BUILT.to_owned())
    }
}

const NOT_BUILT: &str = "this program was built without it (the feature `keyring`)";
