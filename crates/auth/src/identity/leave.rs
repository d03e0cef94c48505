//! Owns how a login ends, and what is shown of it before.

use std::time::SystemTime;

use bowline_store::Expect;

use super::{Inner, LoggedOut};
use crate::account::{Account, AccountState};
use crate::dpop;
use crate::error::AuthError;
use crate::record::Record;

impl Inner {
    /// Forgets first. Whoever renews the login meanwhile finds it gone, and does not bring it back.
    pub(super) async fn log_out(&self) -> Result<LoggedOut, AuthError> {
        let found = self.ctx.safe.get::<Record>(&self.shelf.key).await?;
        self.ctx.safe.remove(&self.shelf.key, Expect::Anything).await?;
        let held = self.held.login();
        self.held.drop_login();
        self.failures.clear();
        let Some(record) = found.map(|(record, _)| record) else { return Ok(LoggedOut::Nothing) };
        // What is held may be newer, if it could not be written down.
        let record = match held {
            Some(held) if held.unsaved.is_some() => held.record.clone(),
            _ => record,
        };
        let ended = self.end(&record).await;
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
        let mut account = Account::of(&record, SystemTime::now());
        if let (AccountState::Ok | AccountState::Expired, Some(error)) =
            (&account.state, self.failures.last())
        {
            account.state = AccountState::RefreshFailing(error.what);
        }
        Ok(Some(account))
    }
}
