//! Owns access to the system's keyring: from one thread, with a timeout, once for each key, and
//! with every write read back.
//!
//! A locked keyring may wait for a person who is not there. Then only this thread waits: callers
//! get an error in time, and the process can exit.

use std::collections::HashMap;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use zeroize::Zeroizing;

use crate::SealKey;

/// How long a keyring may take: enough for a person to see a dialog and type a password.
const PATIENCE: Duration = Duration::from_secs(20);

/// The service name of our entries.
const SERVICE: &str = "bowline";

/// The operations that are needed from a keyring. Calls may block.
pub(crate) trait Vault: Send + 'static {
    /// Reads the entry of a name.
    fn read(&mut self, name: &str) -> Result<Option<Zeroizing<String>>, String>;
    /// Writes the entry of a name.
    fn write(&mut self, name: &str, text: &str) -> Result<(), String>;
}

/// A handle to the keyring thread. Clones share the thread.
#[derive(Clone)]
pub(crate) struct Keyring {
    asking: mpsc::Sender<Ask>,
    /// Keys by fingerprint that were read before. Some keyrings are slow, and some ask a person
    /// each time.
    known: Arc<Mutex<HashMap<String, SealKey>>>,
    patience: Duration,
}

/// Why the keyring gave no key.
#[derive(Debug)]
pub(crate) enum KeyringError {
    /// The keyring works, and has no such key.
    Missing,
    /// The keyring does not respond: locked, not running, or not present. With the reason.
    Silent(String),
    /// The keyring returned something else than what was written. With the reason.
    Forgetful(String),
}

type Answer = Result<SealKey, KeyringError>;

struct Ask {
    name: String,
    /// The key to store; `None` to read the stored one.
    keep: Option<SealKey>,
    answer: oneshot::Sender<Answer>,
}

impl Keyring {
    /// The system's keyring. A process has one thread for it.
    pub(crate) fn system() -> Self {
        static SYSTEM: OnceLock<Keyring> = OnceLock::new();
        SYSTEM.get_or_init(|| Self::new(System, PATIENCE)).clone()
    }

    /// Starts a thread that uses `vault`.
    pub(crate) fn new(vault: impl Vault, patience: Duration) -> Self {
        let (asking, asked) = mpsc::channel();
        // If no thread can be started, the receiver is dropped, and each request fails with that.
        let _ = std::thread::Builder::new().name("bowline-keyring".into()).spawn(move || serve(vault, asked));
        Self { asking, known: Arc::default(), patience }
    }

    /// Returns the key with this fingerprint.
    pub(crate) async fn get(&self, fingerprint: &str) -> Answer {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(fingerprint).cloned();
        match known {
            Some(key) => Ok(key),
            None => self.ask(fingerprint, None).await,
        }
    }

    /// Stores a key, and verifies that it was stored.
    pub(crate) async fn keep(&self, key: &SealKey) -> Result<(), KeyringError> {
        self.ask(&key.fingerprint(), Some(key.clone())).await.map(drop)
    }

    async fn ask(&self, fingerprint: &str, keep: Option<SealKey>) -> Answer {
        let (answer, answered) = oneshot::channel();
        let ask = Ask { name: entry_name(fingerprint), keep, answer };
        if self.asking.send(ask).is_err() {
            return Err(KeyringError::Silent("there is no thread to ask it with".into()));
        }
        match tokio::time::timeout(self.patience, answered).await {
            Ok(Ok(Ok(key))) => {
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(fingerprint.to_owned(), key.clone());
                Ok(key)
            }
            Ok(Ok(Err(error))) => Err(error),
            Ok(Err(_)) => Err(KeyringError::Silent("it failed in an unexpected way".into())),
            Err(_) => Err(KeyringError::Silent(format!(
                "it did not answer within {} seconds; a window may be waiting for its password",
                self.patience.as_secs()
            ))),
        }
    }
}

/// The name of the keyring entry, as a person sees it.
pub(crate) fn entry_name(fingerprint: &str) -> String {
    format!("store key {fingerprint}")
}

fn serve(mut vault: impl Vault, asked: mpsc::Receiver<Ask>) {
    for ask in asked {
        let answer = match &ask.keep {
            None => read(&mut vault, &ask.name),
            Some(key) => keep(&mut vault, &ask.name, key),
        };
        // The caller may have given up.
        let _ = ask.answer.send(answer);
    }
}

fn read(vault: &mut impl Vault, name: &str) -> Answer {
    match vault.read(name) {
        Err(why) => Err(KeyringError::Silent(bounded(&why))),
        Ok(None) => Err(KeyringError::Missing),
        Ok(Some(text)) => SealKey::from_text(&text)
            .ok_or_else(|| KeyringError::Forgetful("its entry holds something that is no key".into())),
    }
}

fn keep(vault: &mut impl Vault, name: &str, key: &SealKey) -> Answer {
    vault.write(name, &key.to_text()).map_err(|why| KeyringError::Silent(bounded(&why)))?;
    match read(vault, name) {
        Ok(kept) if kept.fingerprint() == key.fingerprint() => Ok(kept),
        Ok(_) => Err(KeyringError::Forgetful("it gave back another key than it was given".into())),
        Err(KeyringError::Missing) => {
            Err(KeyringError::Forgetful("it took a key and does not have it".into()))
        }
        Err(error) => Err(error),
    }
}

/// Bounds the error text of a keyring, and removes control characters.
fn bounded(why: &str) -> String {
    why.chars().filter(|it| !it.is_control()).take(200).collect()
}

/// The Secret Service, the Keychain, or the Credential Manager.
struct System;

impl System {
    fn entry(name: &str) -> Result<keyring::Entry, String> {
        match keyring::Entry::store_status() {
            Ok(()) => keyring::Entry::new(SERVICE, name).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Vault for System {
    fn read(&mut self, name: &str) -> Result<Option<Zeroizing<String>>, String> {
        match Self::entry(name)?.get_password() {
            Ok(text) => Ok(Some(Zeroizing::new(text))),
            Err(keyring::Error::NoEntry) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn write(&mut self, name: &str, text: &str) -> Result<(), String> {
        Self::entry(name)?.set_password(text).map_err(|error| error.to_string())
    }
}
