//! Owns the credentials that are in use: a login and command headers, with a generation that
//! changes when they do.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use bowline_config::Secret;
use bowline_store::{Safe, Version};
use bowline_transport::Redactor;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue};
use tokio::sync::watch;

use crate::dpop;
use crate::error::{AuthError, AuthErrorKind};
use crate::record::Record;
use crate::refresh::core::{Over, Unsaved};
use crate::tokens::Scheme;

/// The credentials that requests are signed with.
pub(super) struct Held {
    now: RwLock<Now>,
    client_secret: Option<Secret>,
    /// Incremented whenever requests are signed differently.
    generation: watch::Sender<u64>,
}

#[derive(Default)]
struct Now {
    login: Option<Arc<Login>>,
    made: Arc<HeaderMap>,
    /// Redacts the current secrets and a few past ones.
    redactor: Arc<Redactor>,
    /// Earlier secrets, newest last: a response may belong to a request that was signed with one of
    /// them.
    past: Vec<Secret>,
}

/// A login with everything that is needed to sign requests.
pub(super) struct Login {
    pub(super) record: Record,
    /// The version in the store; `None` if it could not be saved.
    pub(super) version: Option<Version>,
    /// The login as it still has to be saved.
    pub(super) unsaved: Option<Unsaved>,
    /// The key that the token is bound to.
    pub(super) key: Option<Arc<dpop::Key>>,
    /// The `Authorization` header.
    pub(super) shown: HeaderValue,
}

impl Held {
    /// `client_secret` is the configured one; it is redacted too.
    pub(super) fn new(client_secret: Option<Secret>) -> Self {
        let held = Self { now: RwLock::default(), client_secret, generation: watch::Sender::new(0) };
        held.write().collect_secrets(held.client_secret.as_ref());
        held
    }

    /// Redacts our secrets in what the server sends.
    pub(super) fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.read().redactor)
    }

    pub(super) fn login(&self) -> Option<Arc<Login>> {
        self.read().login.clone()
    }

    pub(super) fn made(&self) -> Arc<HeaderMap> {
        Arc::clone(&self.read().made)
    }

    pub(super) fn generation(&self) -> u64 {
        *self.generation.borrow()
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Hashes account, issuer, resource, scopes and login time: a refresh keeps the value, a login
    /// changes it.
    pub(super) fn standing(&self) -> u64 {
        let Some(login) = self.login() else { return 0 };
        let record = &login.record;
        let mut scopes: Vec<&String> = record.scopes().iter().collect();
        scopes.sort_unstable();
        let mut hasher = DefaultHasher::new();
        (&record.metadata.issuer, &record.resource, &record.who, scopes, record.logged_in_at)
            .hash(&mut hasher);
        // Zero stands for no login.
        hasher.finish() | 1
    }

    /// Uses this login from now on. The generation changes only if the header does.
    pub(super) fn set_login(&self, login: Login) {
        let mut now = self.write();
        let same = now.login.as_ref().is_some_and(|held| held.shown == login.shown);
        now.login = Some(Arc::new(login));
        now.collect_secrets(self.client_secret.as_ref());
        drop(now);
        if !same {
            self.bump();
        }
    }

    /// Replaces the login, or clears it, unless it changed since `before` was read; the concurrent
    /// change wins. Returns whether it was replaced.
    pub(super) fn swap(&self, before: Option<&Arc<Login>>, login: Option<Login>) -> bool {
        let mut now = self.write();
        if now.login.as_ref().map(Arc::as_ptr) != before.map(Arc::as_ptr) {
            return false;
        }
        let shown = |login: &Login| login.shown.clone();
        let same = now.login.as_deref().map(shown) == login.as_ref().map(shown);
        now.login = login.map(Arc::new);
        now.collect_secrets(self.client_secret.as_ref());
        drop(now);
        if !same {
            self.bump();
        }
        true
    }

    /// Stops using a login.
    pub(super) fn drop_login(&self) {
        let dropped = self.write().login.take();
        if dropped.is_some() {
            self.bump();
        }
    }

    /// Uses these command headers from now on.
    pub(super) fn set_made(&self, made: HeaderMap) {
        let mut now = self.write();
        if *now.made == made {
            return;
        }
        now.made = Arc::new(made);
        now.collect_secrets(self.client_secret.as_ref());
        drop(now);
        self.bump();
    }

    /// Must follow the change it announces: whoever sees the number must see the new state.
    fn bump(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Now> {
        self.now.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Now> {
        self.now.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Now {
    /// Rebuilds the redactor from the current secrets and the last few past ones.
    fn collect_secrets(&mut self, client_secret: Option<&Secret>) {
        let record = self.login.as_ref().map(|login| &login.record);
        let mut current: Vec<Secret> = Vec::new();
        if let Some(record) = record {
            current.push(record.access.clone());
            current.extend(record.refresh.clone());
            current.extend(record.client.as_ref().and_then(|client| client.secret.clone()));
        }
        current.extend(client_secret.cloned());
        let credentials = self.made.iter().filter(|(name, _)| *name == AUTHORIZATION || *name == COOKIE);
        for (_, value) in credentials {
            current.extend(value.to_str().ok().map(|value| Secret::new(Redactor::of_header(value))));
        }
        self.past.retain(|past| !current.contains(past));
        self.past.drain(..self.past.len().saturating_sub(MAX_PAST_SECRETS));
        self.redactor =
            Arc::new(Redactor::new(current.iter().chain(self.past.iter().rev()).map(Secret::expose)));
        self.past.extend(current);
    }
}

/// How many past secrets are redacted. A refresh adds two.
const MAX_PAST_SECRETS: usize = 4;

impl Login {
    /// Prepares a record for use. The DPoP key of `before` is reused if it matches, with the nonces
    /// collected for it.
    pub(super) async fn of(
        safe: &Safe,
        record: Record,
        version: Option<Version>,
        before: Option<&Self>,
    ) -> Result<Self, AuthError> {
        let key = match &record.dpop {
            None => None,
            Some(id) => match before.and_then(|before| before.key_of(&record)) {
                Some(key) => Some(key),
                None => Some(Arc::new(dpop::Key::load_or_make(safe, id).await?)),
            },
        };
        let shown = shown(record.scheme, &record.access)?;
        Ok(Self { record, version, unsaved: None, key, shown })
    }

    /// The DPoP key, if the record is bound to it. The thumbprint is compared because a deleted key
    /// is recreated under the same id.
    pub(super) fn key_of(&self, record: &Record) -> Option<Arc<dpop::Key>> {
        let key = self.key.as_ref().filter(|key| record.dpop.as_deref() == Some(key.id()))?;
        let same = record.dpop_thumbprint.as_deref().is_none_or(|print| print == key.thumbprint());
        same.then(|| Arc::clone(key))
    }

    /// The login time of the record that the store is believed to hold; `None` if it holds none.
    pub(super) fn kept_since(&self) -> Option<SystemTime> {
        match &self.unsaved {
            Some(Unsaved { over: Over::Login(replaced), .. }) => *replaced,
            Some(Unsaved { over: Over::Renewed(_), .. }) | None => Some(self.record.logged_in_at),
        }
    }
}

fn shown(scheme: Scheme, access: &Secret) -> Result<HeaderValue, AuthError> {
    let scheme = match scheme {
        Scheme::Bearer => "Bearer",
        Scheme::Dpop => "DPoP",
    };
    let mut value = HeaderValue::try_from(format!("{scheme} {}", access.expose())).map_err(|_| {
        AuthError::new(
            AuthErrorKind::Untrusted,
            "the authorization server gave a token that no header can hold",
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}
