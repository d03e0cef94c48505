//! Owns how the system's keyring is asked: by one thread, for a bounded time, once for each key, and with the
//! answer compared to what was written.
//!
//! A keyring may be locked and wait for a person who is not there. The thread then waits with it, and nobody else
//! does: whoever asks gets an answer in time, and the process can end.

use std::collections::HashMap;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use zeroize::Zeroizing;

use crate::SealKey;

/// How long a keyring may take: time for a person to see a window and type a password.
const PATIENCE: Duration = Duration::from_secs(20);

/// By which our entries are found.
const SERVICE: &str = "bowline";

/// A keyring, as far as we need one. Calls may block for as long as they like.
pub(crate) trait Vault: Send + 'static {
    /// What is kept under a name.
    fn read(&mut self, name: &str) -> Result<Option<Zeroizing<String>>, String>;
    /// Keeps something under a name.
    fn write(&mut self, name: &str, text: &str) -> Result<(), String>;
}

/// Asks a keyring. Clones ask the same one.
#[derive(Clone)]
pub(crate) struct Keyring {
    asking: mpsc::Sender<Ask>,
    /// Keys that it has given before. Some keyrings take their time each time, and some ask a person.
    known: Arc<Mutex<HashMap<String, SealKey>>>,
    patience: Duration,
}

/// What became of a question.
#[derive(Debug)]
pub(crate) enum KeyringError {
    /// It works, and has no such key.
    Missing,
    /// It does not answer: locked, not running, or none there. In words.
    Silent(String),
    /// It took a key and gave back something else.
    Forgetful(String),
}

type Answer = Result<SealKey, KeyringError>;

struct Ask {
    name: String,
    /// The key to keep; `None` is to give the kept one.
    keep: Option<SealKey>,
    answer: oneshot::Sender<Answer>,
}

impl Keyring {
    /// The system's. There is one thread for it in a process.
    pub(crate) fn system() -> Self {
        static SYSTEM: OnceLock<Keyring> = OnceLock::new();
        SYSTEM.get_or_init(|| Self::new(System, PATIENCE)).clone()
    }

    /// Asks `vault`.
    pub(crate) fn new(vault: impl Vault, patience: Duration) -> Self {
        let (asking, asked) = mpsc::channel();
        // If no thread can be had the receiver is gone, and each question is answered with that.
        let _ = std::thread::Builder::new().name("bowline-keyring".into()).spawn(move || serve(vault, asked));
        Self { asking, known: Arc::default(), patience }
    }

    /// The key of this fingerprint.
    pub(crate) async fn get(&self, fingerprint: &str) -> Answer {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(fingerprint).cloned();
        match known {
            Some(key) => Ok(key),
            None => self.ask(fingerprint, None).await,
        }
    }

    /// Keeps a key, and makes sure that it is kept.
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

/// As a person sees it in the keyring.
pub(crate) fn entry_name(fingerprint: &str) -> String {
    format!("store key {fingerprint}")
}

fn serve(mut vault: impl Vault, asked: mpsc::Receiver<Ask>) {
    for ask in asked {
        let answer = match &ask.keep {
            None => read(&mut vault, &ask.name),
            Some(key) => keep(&mut vault, &ask.name, key),
        };
        // Whoever asked may have given up.
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

/// What a keyring says is somebody else's text.
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
