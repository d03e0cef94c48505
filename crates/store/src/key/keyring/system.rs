//! The keyring of each operating system.

use std::sync::Arc;

#[cfg(target_os = "macos")]
use apple_native_keyring_store::keychain::Store as PlatformStore;
#[cfg(all(unix, not(target_os = "macos")))]
use dbus_secret_service_keyring_store::Store as PlatformStore;
use keyring_core::Entry;
use keyring_core::api::CredentialStoreApi as _;
#[cfg(windows)]
use windows_native_keyring_store::Store as PlatformStore;
use zeroize::Zeroizing;

use super::KeyringBackend;

/// The Secret Service, the Keychain, or the Credential Manager, opened at first use.
#[derive(Default)]
pub(super) struct SystemKeyring {
    store: Option<Arc<PlatformStore>>,
}

impl SystemKeyring {
    fn entry(&mut self, name: &str) -> Result<Entry, String> {
        let store = match &self.store {
            Some(store) => store,
            None => self.store.insert(PlatformStore::new().map_err(|error| error.to_string())?),
        };
        store.build(SERVICE, name, None).map_err(|error| error.to_string())
    }
}

impl KeyringBackend for SystemKeyring {
    fn read(&mut self, name: &str) -> Result<Option<Zeroizing<String>>, String> {
        match self.entry(name)?.get_password() {
            Ok(text) => Ok(Some(Zeroizing::new(text))),
            Err(keyring_core::Error::NoEntry) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn write(&mut self, name: &str, text: &str) -> Result<(), String> {
        self.entry(name)?.set_password(text).map_err(|error| error.to_string())
    }
}

/// The service name of our entries.
const SERVICE: &str = "bowline";
