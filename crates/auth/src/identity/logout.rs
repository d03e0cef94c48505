//! Owns logout, and the description of the stored login.

use std::time::SystemTime;

use bowline_store::{Key, Precondition};
use url::Url;

use super::{Inner, LogoutOutcome};
use crate::account::{Account, AccountState};
use crate::client::ClientOrigin;
use crate::dpop;
use crate::error::AuthError;
use crate::record::LoginRecord;
use crate::register;
use crate::revoke;

impl Inner {
    pub(super) async fn log_out(&self) -> Result<LogoutOutcome, AuthError> {
        let found = self.delete_login(&self.login_store.key).await?;
        if let Some(client) = &self.ctx.auth.client {
            // Also where no stored login names the client any more.
            self.unbind_client(&client.id, &self.ctx.url).await?;
        }
        let held = self.current.login();
        self.current.clear_login();
        self.clear_refresh_state();
        self.backoff.clear();
        // An unsaved login may be newer than the stored one, or the only one.
        let record = match (held, found) {
            (Some(held), _) if held.unsaved.is_some() => held.record.clone(),
            (_, Some(record)) => record,
            (_, None) => return Ok(LogoutOutcome::NotLoggedIn),
        };
        self.revoke_login(&record).await
    }

    /// Logs out of a login that may be stored under another key than ours.
    pub(super) async fn log_out_account(&self, account: &Account) -> Result<LogoutOutcome, AuthError> {
        if account.id == self.login_store.key.id {
            return self.log_out().await;
        }
        match self.delete_login(&Key::new(LoginRecord::KIND, account.id.as_str())).await? {
            Some(record) => self.revoke_login(&record).await,
            None => Ok(LogoutOutcome::NotLoggedIn),
        }
    }

    /// Deletes the stored login. Deletion comes before revocation, so that a concurrent refresh
    /// finds it gone and does not restore it.
    async fn delete_login(&self, key: &Key) -> Result<Option<LoginRecord>, AuthError> {
        let found = self.ctx.store.get::<LoginRecord>(key).await?;
        self.ctx.store.remove(key, Precondition::Any).await?;
        let Some((record, _)) = found else { return Ok(None) };
        if let Some(id) = configured_client_id(&record) {
            self.unbind_client(id, &record.url).await?;
        }
        Ok(Some(record))
    }

    /// Forgets which issuer a configured client belongs to, so that the next login can use another
    /// one; unless another account is logged in with this client.
    async fn unbind_client(&self, client_id: &str, server: &Url) -> Result<(), AuthError> {
        let left = self.ctx.store.list::<LoginRecord>(LoginRecord::KIND).await?;
        let mut left = left.iter().map(|(_, record, _)| record);
        if left.any(|record| configured_client_id(record) == Some(client_id) && record.url == *server) {
            return Ok(());
        }
        register::unbind_client(&self.ctx, client_id, server).await
    }

    async fn revoke_login(&self, record: &LoginRecord) -> Result<LogoutOutcome, AuthError> {
        let ended = revoke::revoke_tokens(&self.ctx, record).await;
        if let Some(id) = &record.dpop {
            dpop::Key::delete(&self.ctx.store, id).await?;
        }
        Ok(match ended {
            Ok(true) => LogoutOutcome::Revoked,
            Ok(false) => LogoutOutcome::RevocationUnsupported,
            Err(error) => LogoutOutcome::RevocationFailed(error.what),
        })
    }

    pub(super) async fn account(&self) -> Result<Option<Account>, AuthError> {
        if !self.uses_logins() {
            return Ok(None);
        }
        let found = self.login_store.read(&self.ctx.auth, &self.ctx.url).await?;
        let Some((record, _)) = found else { return Ok(None) };
        let mut account = Account::from_record(&self.login_store.key, &record, SystemTime::now());
        if let (AccountState::Ok | AccountState::Expired, Some(error)) =
            (&account.state, self.backoff.last_error())
        {
            account.state = AccountState::RefreshFailing(error.what);
        }
        Ok(Some(account))
    }
}

/// The id of the client that the login was made with, if it is the configured one.
fn configured_client_id(record: &LoginRecord) -> Option<&str> {
    let client = record.client.as_ref().filter(|client| client.origin == ClientOrigin::Configured);
    client.map(|client| client.id.as_str())
}
