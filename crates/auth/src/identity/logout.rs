//! Owns logout, and the description of the stored login.

use std::time::SystemTime;

use bowline_store::{Key, Precondition};
use url::Url;

use super::backoff::FailureBackoff;
use super::stored_login::StoredLogin;
use crate::account::{Account, AccountState};
use crate::client::ClientOrigin;
use crate::context::AuthContext;
use crate::dpop;
use crate::error::AuthError;
use crate::record::LoginRecord;
use crate::register;
use crate::revoke;

/// The result of a logout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogoutOutcome {
    /// No login was stored.
    NotLoggedIn,
    /// The login was deleted and its tokens were revoked.
    Revoked,
    /// The login was deleted; the authorization server has no revocation endpoint.
    RevocationUnsupported,
    /// The login was deleted; revocation failed with this message.
    RevocationFailed(String),
}

/// Logs out of the login of this server.
pub(super) async fn log_out(
    login: &StoredLogin,
    backoff: &FailureBackoff,
) -> Result<LogoutOutcome, AuthError> {
    let ctx = &login.ctx;
    let found = delete_login(ctx, &login.store.key).await?;
    if let Some(client) = &ctx.auth.client {
        // Also where no stored login names the client any more.
        unbind_client(ctx, &client.id, &ctx.url).await?;
    }
    let active = login.current.login();
    login.current.clear_login();
    login.clear_refresh_state();
    backoff.clear();
    // An unsaved login may be newer than the stored one, or the only one.
    let record = match (active, found) {
        (Some(active), _) if active.unsaved.is_some() => active.record.clone(),
        (_, Some(record)) => record,
        (_, None) => return Ok(LogoutOutcome::NotLoggedIn),
    };
    revoke_login(ctx, &record).await
}

/// Logs out of a login that is stored under another key than that of this server.
pub(super) async fn log_out_other(ctx: &AuthContext, id: &str) -> Result<LogoutOutcome, AuthError> {
    match delete_login(ctx, &Key::new(LoginRecord::KIND, id)).await? {
        Some(record) => revoke_login(ctx, &record).await,
        None => Ok(LogoutOutcome::NotLoggedIn),
    }
}

/// Describes the stored login, if there is one.
pub(super) async fn account(
    login: &StoredLogin,
    backoff: &FailureBackoff,
) -> Result<Option<Account>, AuthError> {
    if !login.policy.uses_logins() {
        return Ok(None);
    }
    let Some((record, _)) = login.read().await? else { return Ok(None) };
    let mut account = Account::from_record(&login.store.key, &record, SystemTime::now());
    if let (AccountState::Ok | AccountState::Expired, Some(error)) = (&account.state, backoff.last_error()) {
        account.state = AccountState::RefreshFailing(error.what);
    }
    Ok(Some(account))
}

/// Deletes the stored login. Deletion comes before revocation, so that a concurrent refresh finds
/// it gone and does not restore it.
async fn delete_login(ctx: &AuthContext, key: &Key) -> Result<Option<LoginRecord>, AuthError> {
    let found = ctx.store.get::<LoginRecord>(key).await?;
    ctx.store.remove(key, Precondition::Any).await?;
    let Some((record, _)) = found else { return Ok(None) };
    if let Some(id) = configured_client_id(&record) {
        unbind_client(ctx, id, &record.url).await?;
    }
    Ok(Some(record))
}

/// Forgets which issuer a configured client belongs to, so that the next login can use another one;
/// unless another account is logged in with this client.
async fn unbind_client(ctx: &AuthContext, client_id: &str, server: &Url) -> Result<(), AuthError> {
    let left = ctx.store.list::<LoginRecord>(LoginRecord::KIND).await?;
    let mut left = left.iter().map(|(_, record, _)| record);
    if left.any(|record| configured_client_id(record) == Some(client_id) && record.url == *server) {
        return Ok(());
    }
    register::unbind_client(ctx, client_id, server).await
}

async fn revoke_login(ctx: &AuthContext, record: &LoginRecord) -> Result<LogoutOutcome, AuthError> {
    let revoked = revoke::revoke_tokens(ctx, record).await;
    if let Some(id) = &record.dpop {
        dpop::Key::delete(&ctx.store, id).await?;
    }
    Ok(match revoked {
        Ok(true) => LogoutOutcome::Revoked,
        Ok(false) => LogoutOutcome::RevocationUnsupported,
        Err(error) => LogoutOutcome::RevocationFailed(error.what),
    })
}

/// The id of the client that the login was made with, if it is the configured one.
fn configured_client_id(record: &LoginRecord) -> Option<&str> {
    let client = record.client.as_ref().filter(|client| client.origin == ClientOrigin::Configured);
    client.map(|client| client.id.as_str())
}
