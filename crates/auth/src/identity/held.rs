//! Owns what one connection holds at the moment: a login and headers, with a number that changes when they do.

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

/// What is held.
pub(super) struct Held {
    now: RwLock<Now>,
    client_secret: Option<Secret>,
    /// One more whenever requests are signed differently.
    generation: watch::Sender<u64>,
}

#[derive(Default)]
struct Now {
    login: Option<Arc<Login>>,
    made: Arc<HeaderMap>,
    /// What proves who we are, and what did a moment ago.
    redactor: Arc<Redactor>,
    /// Secrets of before, the newest last: an answer may be of a request that was signed with them.
    past: Vec<Secret>,
}

/// A login, ready for use.
pub(super) struct Login {
    pub(super) record: Record,
    /// The version in the store; `None`: it could not be written down.
    pub(super) version: Option<Version>,
    /// What could not be written down.
    pub(super) unsaved: Option<Unsaved>,
    /// What the token is bound to.
    pub(super) key: Option<Arc<dpop::Key>>,
    /// `Authorization`.
    pub(super) shown: HeaderValue,
}

impl Held {
    /// `client_secret` is what the configuration holds.
    pub(super) fn new(client_secret: Option<Secret>) -> Self {
        let held = Self { now: RwLock::default(), client_secret, generation: watch::Sender::new(0) };
        held.write().collect_secrets(held.client_secret.as_ref());
        held
    }

    /// What keeps our secrets out of what the server says.
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

    /// Who we are and what we may do, as a number: the same after a renewal, another after a login.
    pub(super) fn standing(&self) -> u64 {
        let Some(login) = self.login() else { return 0 };
        let record = &login.record;
        let mut scopes: Vec<&String> = record.scopes().iter().collect();
        scopes.sort_unstable();
        let mut hasher = DefaultHasher::new();
        (&record.metadata.issuer, &record.resource, &record.who, scopes, record.logged_in_at)
            .hash(&mut hasher);
        // Zero is nobody.
        hasher.finish() | 1
    }

    /// Holds a login from now on. What is already held stays as it is.
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

    /// Holds another login, or none, unless what is held is not what it was `before`: whoever changed it meanwhile
    /// knows better. Says whether it is held.
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

    /// Holds no login any more.
    pub(super) fn drop_login(&self) {
        let dropped = self.write().login.take();
        if dropped.is_some() {
            self.bump();
        }
    }

    /// Holds other headers from now on.
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

    /// After the change, never before: whoever sees the number sees what it stands for.
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
    /// Looks for the secrets of now and the last few of before.
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

/// How many secrets of before are looked for. A renewal brings two.
const MAX_PAST_SECRETS: usize = 4;

impl Login {
    /// Makes a record ready for use. `before` lends its key, with the nonces that came for it.
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

    /// The key that a record is bound to, if it is ours. A key that was forgotten and made anew has the same id.
    pub(super) fn key_of(&self, record: &Record) -> Option<Arc<dpop::Key>> {
        let key = self.key.as_ref().filter(|key| record.dpop.as_deref() == Some(key.id()))?;
        let same = record.dpop_thumbprint.as_deref().is_none_or(|print| print == key.thumbprint());
        same.then(|| Arc::clone(key))
    }

    /// When the login was made that the store has, as far as we know; `None`: it has none.
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
