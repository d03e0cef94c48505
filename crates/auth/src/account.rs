//! Owns the description of a login that may be shown: everything but the secrets.

use std::time::SystemTime;

use bowline_store::{EncryptedStore, Key};

use crate::client::ClientOrigin;
use crate::error::AuthError;
use crate::record::{LoginRecord, LoginState};
use crate::resource;
use crate::tokens::Scheme;

/// A stored login, without its secrets.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Account {
    /// The id of the record. Unique, unlike the other fields, which may be shared or shortened.
    #[serde(skip)]
    pub id: String,
    /// The server's configured name.
    pub server: String,
    /// The label of the account, if the configuration gives one.
    pub label: Option<String>,
    /// The server's endpoint: scheme, host and path.
    pub url: String,
    /// The account name, if the authorization server gave one.
    pub who: Option<String>,
    /// The issuer of the authorization server.
    pub issuer: String,
    /// The `resource` that the token is for.
    pub resource: Option<String>,
    /// The granted scopes, or the requested ones if the authorization server named none.
    pub scopes: Vec<String>,
    /// The `client_id`; empty for a grant without a client.
    pub client_id: String,
    /// Where the client comes from.
    pub client: ClientOrigin,
    /// How the token is sent.
    pub scheme: Scheme,
    /// When the token expires.
    pub expires_at: Option<SystemTime>,
    /// Whether it can be refreshed without a person.
    pub refreshable: bool,
    /// When the person logged in.
    pub logged_in_at: SystemTime,
    /// When it was last refreshed.
    pub refreshed_at: Option<SystemTime>,
    /// The state of the login.
    pub state: AccountState,
}

/// The state of a login.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "why")]
#[non_exhaustive]
pub enum AccountState {
    /// Valid.
    Ok,
    /// Expired; it is refreshed when it is needed.
    Expired,
    /// The last refresh failed temporarily, with this message.
    RefreshFailing(String),
    /// A person has to log in again, for this reason.
    NeedsLogin(String),
}

/// Lists all stored logins by server. Unreadable ones are left out. Dropping the future has no effect.
pub async fn accounts(store: &EncryptedStore) -> Result<Vec<Account>, AuthError> {
    let now = SystemTime::now();
    let records = store.list::<LoginRecord>(LoginRecord::KIND).await?;
    let mut accounts: Vec<Account> =
        records.into_iter().map(|(key, record, _)| Account::from_record(&key, &record, now)).collect();
    let order = |it: &Account| (it.server.clone(), it.label.clone(), it.url.clone(), it.id.clone());
    accounts.sort_by_cached_key(order);
    Ok(accounts)
}

impl Account {
    /// Describes a record.
    pub(crate) fn from_record(key: &Key, record: &LoginRecord, now: SystemTime) -> Self {
        let LoginRecord { server, label, url, resource, scheme, expires_at, .. } = record.clone();
        let ended = expires_at.is_some_and(|end| end <= now);
        let state = match &record.state {
            LoginState::NeedsLogin(why) => AccountState::NeedsLogin(why.clone()),
            LoginState::Ok if !ended => AccountState::Ok,
            LoginState::Ok if record.is_refreshable() => AccountState::Expired,
            LoginState::Ok => AccountState::NeedsLogin("it has expired and has no refresh token".to_owned()),
        };
        let client = record.client.as_ref();
        Self {
            id: key.id.clone(),
            server,
            label,
            url: resource::without_secrets(url).into(),
            who: record.who.clone(),
            issuer: record.metadata.issuer.clone(),
            resource,
            scopes: record.scopes().to_vec(),
            client_id: client.map(|client| client.id.clone()).unwrap_or_default(),
            client: client.map_or(ClientOrigin::Configured, |client| client.origin),
            scheme,
            expires_at,
            refreshable: record.is_refreshable(),
            logged_in_at: record.logged_in_at,
            refreshed_at: record.refreshed_at,
            state,
        }
    }
}

#[cfg(test)]
mod tests;
