//! Owns logout, and the description of the stored login.

use std::time::SystemTime;

use bowline_store::{Expect, Key};
use url::Url;

use super::{Inner, LoggedOut};
use crate::account::{Account, AccountState};
use crate::client::ClientOrigin;
use crate::dpop;
use crate::error::AuthError;
use crate::record::Record;
use crate::register;

impl Inner {
    pub(super) async fn log_out(&self) -> Result<LoggedOut, AuthError> {
        let found = self.forget(&self.shelf.key).await?;
        if let Some(client) = &self.ctx.auth.client {
            // Also where no stored login names the client any more.
            self.untie(&client.id, &self.ctx.url).await?;
        }
        let held = self.held.login();
        self.held.drop_login();
        self.wait_no_longer();
        self.failures.clear();
        // An unsaved login may be newer than the stored one, or the only one.
        let record = match (held, found) {
            (Some(held), _) if held.unsaved.is_some() => held.record.clone(),
            (_, Some(record)) => record,
            (_, None) => return Ok(LoggedOut::Nothing),
        };
        self.tell_of_end(&record).await
    }

    /// Logs out of a login that may be stored under another key than ours.
    pub(super) async fn log_out_of(&self, account: &Account) -> Result<LoggedOut, AuthError> {
        if account.id == self.shelf.key.id {
            return self.log_out().await;
        }
        match self.forget(&Key::new(Record::KIND, account.id.as_str())).await? {
            Some(record) => self.tell_of_end(&record).await,
            None => Ok(LoggedOut::Nothing),
        }
    }

    /// Deletes the stored login. Deletion comes before revocation, so that a concurrent refresh
    /// finds it gone and does not restore it.
    async fn forget(&self, key: &Key) -> Result<Option<Record>, AuthError> {
        let found = self.ctx.safe.get::<Record>(key).await?;
        self.ctx.safe.remove(key, Expect::Anything).await?;
        let Some((record, _)) = found else { return Ok(None) };
        if let Some(id) = configured(&record) {
            self.untie(id, &record.url).await?;
        }
        Ok(Some(record))
    }

    /// Forgets which issuer a configured client belongs to, so that the next login can use another
    /// one; unless another account is logged in with this client.
    async fn untie(&self, client_id: &str, server: &Url) -> Result<(), AuthError> {
        let left = self.ctx.safe.list::<Record>(Record::KIND).await?;
        let mut left = left.iter().map(|(_, record, _)| record);
        if left.any(|record| configured(record) == Some(client_id) && record.url == *server) {
            return Ok(());
        }
        register::untie(&self.ctx, client_id, server).await
    }

    async fn tell_of_end(&self, record: &Record) -> Result<LoggedOut, AuthError> {
        let ended = self.end(record).await;
        if let Some(id) = &record.dpop {
            dpop::Key::forget(&self.ctx.safe, id).await?;
        }
        Ok(match ended {
            Ok(true) => LoggedOut::Revoked,
            Ok(false) => LoggedOut::Forgotten,
            Err(error) => LoggedOut::Untold(error.what),
        })
    }

    pub(super) async fn account(&self) -> Result<Option<Account>, AuthError> {
        if !self.uses_logins() {
            return Ok(None);
        }
        let found = self.shelf.read(&self.ctx.auth, &self.ctx.url).await?;
        let Some((record, _)) = found else { return Ok(None) };
        let mut account = Account::of(&self.shelf.key, &record, SystemTime::now());
        if let (AccountState::Ok | AccountState::Expired, Some(error)) =
            (&account.state, self.failures.last())
        {
            account.state = AccountState::RefreshFailing(error.what);
        }
        Ok(Some(account))
    }
}

/// The id of the client that the login was made with, if it is the configured one.
fn configured(record: &Record) -> Option<&str> {
    let client = record.client.as_ref().filter(|client| client.origin == ClientOrigin::Configured);
    client.map(|client| client.id.as_str())
}
