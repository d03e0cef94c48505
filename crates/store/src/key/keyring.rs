//! Owns access to the system's keyring: from one thread, with a timeout, once for each key, and
//! with every write read back.
//!
//! A locked keyring may wait for a person who is not there. Then only this thread waits: callers
//! get an error in time, and the process can exit.

#[cfg(feature = "keyring")]
mod system;
#[cfg(not(feature = "keyring"))]
#[path = "keyring/system_absent.rs"]
mod system;

use std::collections::HashMap;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use tokio::sync::oneshot;
use zeroize::Zeroizing;

use crate::SealKey;
use system::SystemKeyring;

/// How long a keyring may take: enough for a person to see a dialog and type a password.
const KEYRING_TIMEOUT: Duration = Duration::from_secs(20);

/// The operations that are needed from a keyring. Calls may block.
pub(crate) trait KeyringBackend: Send + 'static {
    /// Reads the entry of a name.
    fn read(&mut self, name: &str) -> Result<Option<Zeroizing<String>>, String>;
    /// Writes the entry of a name.
    fn write(&mut self, name: &str, text: &str) -> Result<(), String>;
}

/// A handle to the keyring thread. Clones share the thread.
#[derive(Clone)]
pub(crate) struct Keyring {
    requests: mpsc::Sender<KeyringRequest>,
    /// Keys by fingerprint that were read before. Some keyrings are slow, and some ask a person
    /// each time.
    cache: Arc<Mutex<HashMap<String, SealKey>>>,
    timeout: Duration,
}

/// Why the keyring gave no key.
#[derive(Debug)]
pub(crate) enum KeyringError {
    /// The keyring works, and has no such key.
    Missing,
    /// The keyring does not respond: locked, not running, or not present. With the reason.
    Unavailable(String),
    /// The keyring returned something else than what was written. With the reason.
    Untrustworthy(String),
}

type KeyringResult = Result<SealKey, KeyringError>;

struct KeyringRequest {
    name: String,
    /// The key to store; `None` to read the stored one.
    key_to_store: Option<SealKey>,
    reply: oneshot::Sender<KeyringResult>,
}

impl Keyring {
    /// The system's keyring. A process has one thread for it.
    pub(crate) fn system() -> Self {
        static SYSTEM: OnceLock<Keyring> = OnceLock::new();
        SYSTEM.get_or_init(|| Self::new(SystemKeyring::default(), KEYRING_TIMEOUT)).clone()
    }

    /// Starts a thread that uses `vault`.
    pub(crate) fn new(vault: impl KeyringBackend, patience: Duration) -> Self {
        let (asking, asked) = mpsc::channel();
        // If no thread can be started, the receiver is dropped, and each request fails with that.
        let _ = std::thread::Builder::new()
            .name("bowline-keyring".into())
            .spawn(move || run_thread(vault, asked));
        Self { requests: asking, cache: Arc::default(), timeout: patience }
    }

    /// Returns the key with this fingerprint.
    pub(crate) async fn get_key(&self, fingerprint: &str) -> KeyringResult {
        let known = self.cache.lock().get(fingerprint).cloned();
        match known {
            Some(key) => Ok(key),
            None => self.request(fingerprint, None).await,
        }
    }

    /// Stores a key, and verifies that it was stored.
    pub(crate) async fn store_key(&self, key: &SealKey) -> Result<(), KeyringError> {
        self.request(&key.fingerprint(), Some(key.clone())).await.map(drop)
    }

    async fn request(&self, fingerprint: &str, keep: Option<SealKey>) -> KeyringResult {
        let (answer, answered) = oneshot::channel();
        let ask = KeyringRequest { name: entry_name(fingerprint), key_to_store: keep, reply: answer };
        if self.requests.send(ask).is_err() {
            return Err(KeyringError::Unavailable("there is no thread to ask it with".into()));
        }
        match tokio::time::timeout(self.timeout, answered).await {
            Ok(Ok(Ok(key))) => {
                let mut known = self.cache.lock();
                known.insert(fingerprint.to_owned(), key.clone());
                Ok(key)
            }
            Ok(Ok(Err(error))) => Err(error),
            Ok(Err(_)) => Err(KeyringError::Unavailable("it failed in an unexpected way".into())),
            Err(_) => Err(KeyringError::Unavailable(format!(
                "it did not answer within {} seconds; a window may be waiting for its password",
                self.timeout.as_secs()
            ))),
        }
    }
}

/// The name of the keyring entry, as a person sees it.
pub(crate) fn entry_name(fingerprint: &str) -> String {
    format!("store key {fingerprint}")
}

fn run_thread(mut vault: impl KeyringBackend, asked: mpsc::Receiver<KeyringRequest>) {
    for ask in asked {
        let answer = match &ask.key_to_store {
            None => read_key(&mut vault, &ask.name),
            Some(key) => store_and_verify(&mut vault, &ask.name, key),
        };
        // The caller may have given up.
        let _ = ask.reply.send(answer);
    }
}

fn read_key(vault: &mut impl KeyringBackend, name: &str) -> KeyringResult {
    match vault.read(name) {
        Err(why) => Err(KeyringError::Unavailable(sanitize(&why))),
        Ok(None) => Err(KeyringError::Missing),
        Ok(Some(text)) => SealKey::from_text(&text)
            .ok_or_else(|| KeyringError::Untrustworthy("its entry holds something that is no key".into())),
    }
}

fn store_and_verify(vault: &mut impl KeyringBackend, name: &str, key: &SealKey) -> KeyringResult {
    vault.write(name, &key.to_text()).map_err(|why| KeyringError::Unavailable(sanitize(&why)))?;
    match read_key(vault, name) {
        Ok(kept) if kept.fingerprint() == key.fingerprint() => Ok(kept),
        Ok(_) => Err(KeyringError::Untrustworthy("it gave back another key than it was given".into())),
        Err(KeyringError::Missing) => {
            Err(KeyringError::Untrustworthy("it took a key and does not have it".into()))
        }
        Err(error) => Err(error),
    }
}

/// Bounds the error text of a keyring, and removes control characters.
fn sanitize(why: &str) -> String {
    why.chars().filter(|it| !it.is_control()).take(200).collect()
}
