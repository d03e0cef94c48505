//! Owns the credentials that are in use: a login and command headers, with a generation that
//! changes when they do.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::SystemTime;

use bowline_config::Secret;
use bowline_store::{EncryptedStore, Version};
use bowline_transport::Redactor;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue};
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::dpop;
use crate::error::{AuthError, AuthErrorKind};
use crate::record::LoginRecord;
use crate::refresh::core::{LoginSource, UnsavedLogin};
use crate::tokens::Scheme;

/// The credentials that requests are signed with.
pub(super) struct CurrentCredentials {
    state: RwLock<State>,
    client_secret: Option<Secret>,
    /// Incremented whenever requests are signed differently.
    generation: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    login: Option<Arc<ActiveLogin>>,
    headers: Arc<HeaderMap>,
    /// Redacts the current secrets and a few past ones.
    redactor: Arc<Redactor>,
    /// Earlier secrets, newest last: a response may belong to a request that was signed with one of
    /// them.
    past_secrets: Vec<Secret>,
}

/// A login with everything that is needed to sign requests.
pub(super) struct ActiveLogin {
    pub(super) record: LoginRecord,
    /// The version in the store; `None` if it could not be saved.
    pub(super) version: Option<Version>,
    /// The login as it still has to be saved.
    pub(super) unsaved: Option<UnsavedLogin>,
    /// The key that the token is bound to.
    pub(super) dpop_key: Option<Arc<dpop::Key>>,
    /// The `Authorization` header.
    pub(super) authorization: HeaderValue,
}

impl CurrentCredentials {
    /// `client_secret` is the configured one; it is redacted too.
    pub(super) fn new(client_secret: Option<Secret>) -> Self {
        let held = Self { state: RwLock::default(), client_secret, generation: watch::Sender::new(0) };
        held.write().collect_secrets(held.client_secret.as_ref());
        held
    }

    /// Redacts our secrets in what the server sends.
    pub(super) fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.read().redactor)
    }

    pub(super) fn login(&self) -> Option<Arc<ActiveLogin>> {
        self.read().login.clone()
    }

    pub(super) fn headers(&self) -> Arc<HeaderMap> {
        Arc::clone(&self.read().headers)
    }

    pub(super) fn generation(&self) -> u64 {
        *self.generation.borrow()
    }

    pub(super) fn watch_generation(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Hashes account, issuer, resource, scopes and login time: a refresh keeps the value, a login
    /// changes it.
    pub(super) fn login_fingerprint(&self) -> u64 {
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
    pub(super) fn set_login(&self, login: ActiveLogin) {
        let mut now = self.write();
        let same = now.login.as_ref().is_some_and(|held| held.authorization == login.authorization);
        now.login = Some(Arc::new(login));
        now.collect_secrets(self.client_secret.as_ref());
        drop(now);
        if !same {
            self.bump_generation();
        }
    }

    /// Replaces the login, or clears it, unless it changed since `before` was read; the concurrent
    /// change wins. Returns whether it was replaced.
    pub(super) fn replace_login(
        &self,
        before: Option<&Arc<ActiveLogin>>,
        login: Option<ActiveLogin>,
    ) -> bool {
        let mut now = self.write();
        if now.login.as_ref().map(Arc::as_ptr) != before.map(Arc::as_ptr) {
            return false;
        }
        let shown = |login: &ActiveLogin| login.authorization.clone();
        let same = now.login.as_deref().map(shown) == login.as_ref().map(shown);
        now.login = login.map(Arc::new);
        now.collect_secrets(self.client_secret.as_ref());
        drop(now);
        if !same {
            self.bump_generation();
        }
        true
    }

    /// Stops using a login.
    pub(super) fn clear_login(&self) {
        let dropped = self.write().login.take();
        if dropped.is_some() {
            self.bump_generation();
        }
    }

    /// Uses these command headers from now on.
    pub(super) fn set_headers(&self, headers: HeaderMap) {
        let mut now = self.write();
        if *now.headers == headers {
            return;
        }
        now.headers = Arc::new(headers);
        now.collect_secrets(self.client_secret.as_ref());
        drop(now);
        self.bump_generation();
    }

    /// Must follow the change it announces: whoever sees the number must see the new state.
    fn bump_generation(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }

    fn read(&self) -> parking_lot::RwLockReadGuard<'_, State> {
        self.state.read()
    }

    fn write(&self) -> parking_lot::RwLockWriteGuard<'_, State> {
        self.state.write()
    }
}

impl State {
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
        let credentials = self.headers.iter().filter(|(name, _)| *name == AUTHORIZATION || *name == COOKIE);
        for (_, value) in credentials {
            current.extend(value.to_str().ok().map(|value| Secret::new(Redactor::secret_in_header(value))));
        }
        self.past_secrets.retain(|past| !current.contains(past));
        self.past_secrets.drain(..self.past_secrets.len().saturating_sub(MAX_PAST_SECRETS));
        self.redactor =
            Arc::new(Redactor::new(current.iter().chain(self.past_secrets.iter().rev()).map(Secret::expose)));
        self.past_secrets.extend(current);
    }
}

/// How many past secrets are redacted. A refresh adds two.
const MAX_PAST_SECRETS: usize = 4;

impl ActiveLogin {
    /// Prepares a record for use. `before` is the login that it replaces.
    pub(super) async fn from_record(
        store: &EncryptedStore,
        record: LoginRecord,
        version: Option<Version>,
        before: Option<&Self>,
    ) -> Result<Self, AuthError> {
        let dpop_key = Self::key_for(store, &record, before).await?;
        let authorization = authorization_header(record.scheme, &record.access)?;
        Ok(Self { record, version, unsaved: None, dpop_key, authorization })
    }

    /// The DPoP key that a record is bound to. The key of `before` is reused if it matches, because
    /// it has collected nonces.
    pub(super) async fn key_for(
        store: &EncryptedStore,
        record: &LoginRecord,
        before: Option<&Self>,
    ) -> Result<Option<Arc<dpop::Key>>, AuthError> {
        let Some(id) = &record.dpop else { return Ok(None) };
        match before.and_then(|before| before.matching_key(record)) {
            Some(key) => Ok(Some(key)),
            None => Ok(Some(Arc::new(dpop::Key::load_or_create(store, id).await?))),
        }
    }

    /// The DPoP key, if the record is bound to it. The thumbprint is compared because a deleted key
    /// is recreated under the same id.
    fn matching_key(&self, record: &LoginRecord) -> Option<Arc<dpop::Key>> {
        let key = self.dpop_key.as_ref().filter(|key| record.dpop.as_deref() == Some(key.id()))?;
        let same = record.dpop_thumbprint.as_deref().is_none_or(|print| print == key.thumbprint());
        same.then(|| Arc::clone(key))
    }

    /// The login time of the record that the store is believed to hold; `None` if it holds none.
    pub(super) fn stored_login_time(&self) -> Option<SystemTime> {
        match &self.unsaved {
            Some(UnsavedLogin { source: LoginSource::Login(replaced), .. }) => *replaced,
            Some(UnsavedLogin { source: LoginSource::Refresh(_), .. }) | None => {
                Some(self.record.logged_in_at)
            }
        }
    }
}

fn authorization_header(scheme: Scheme, access: &Secret) -> Result<HeaderValue, AuthError> {
    let scheme = match scheme {
        Scheme::Bearer => "Bearer",
        Scheme::Dpop => "DPoP",
    };
    let mut value = HeaderValue::try_from(format!("{scheme} {}", access.expose())).map_err(|_| {
        AuthError::new(
            AuthErrorKind::Untrusted,
            "the authorization server issued a token that cannot be sent in a header",
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}
