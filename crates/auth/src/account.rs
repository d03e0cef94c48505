//! Owns what of a login may be shown: everything but the secrets.

use std::time::SystemTime;

use bowline_store::{Key, Safe};
use url::Url;

use crate::client::ClientOrigin;
use crate::error::AuthError;
use crate::record::{Record, Standing};
use crate::tokens::Scheme;

/// A login, as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Account {
    /// Under what it is kept: no two logins have the same. What else is here may be shared, or shortened for showing.
    #[serde(skip)]
    pub id: String,
    /// The server's configured name.
    pub server: String,
    /// The label of the account, if the configuration gives one.
    pub label: Option<String>,
    /// The server's endpoint: scheme, host and path.
    pub url: String,
    /// Who logged in, as far as the authorization server said.
    pub who: Option<String>,
    /// The authorization server.
    pub issuer: String,
    /// What the token is good for.
    pub resource: Option<String>,
    /// The scopes that were granted, or asked for where that was not said.
    pub scopes: Vec<String>,
    /// `client_id`; empty where no client was needed.
    pub client_id: String,
    /// Where the client comes from.
    pub client: ClientOrigin,
    /// How the token is shown.
    pub scheme: Scheme,
    /// When the token ends.
    pub expires_at: Option<SystemTime>,
    /// Whether it can be renewed without a person.
    pub refreshable: bool,
    /// When the person logged in.
    pub logged_in_at: SystemTime,
    /// When it was last renewed.
    pub refreshed_at: Option<SystemTime>,
    /// How it stands.
    pub state: AccountState,
}

/// How a login stands.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "why")]
#[non_exhaustive]
pub enum AccountState {
    /// Good.
    Ok,
    /// Ended, and will be renewed when it is needed.
    Expired,
    /// The last renewal failed for a reason that may pass.
    RefreshFailing(String),
    /// A person has to log in again.
    NeedsLogin(String),
}

/// All logins that are remembered, by server. One that cannot be read is left out.
pub async fn accounts(safe: &Safe) -> Result<Vec<Account>, AuthError> {
    let now = SystemTime::now();
    let records = safe.list::<Record>(Record::KIND).await?;
    let mut accounts: Vec<Account> =
        records.into_iter().map(|(key, record, _)| Account::of(&key, &record, now)).collect();
    let order = |it: &Account| (it.server.clone(), it.label.clone(), it.url.clone(), it.id.clone());
    accounts.sort_by_cached_key(order);
    Ok(accounts)
}

impl Account {
    /// What of a login may be shown.
    pub(crate) fn of(key: &Key, record: &Record, now: SystemTime) -> Self {
        let Record { server, label, url, resource, scheme, expires_at, .. } = record.clone();
        let ended = expires_at.is_some_and(|end| end <= now);
        let state = match &record.state {
            Standing::NeedsLogin(why) => AccountState::NeedsLogin(why.clone()),
            Standing::Ok if !ended => AccountState::Ok,
            Standing::Ok if record.is_renewable() => AccountState::Expired,
            Standing::Ok => {
                AccountState::NeedsLogin("it has ended, and came without a refresh token".to_owned())
            }
        };
        let client = record.client.as_ref();
        Self {
            id: key.id.clone(),
            server,
            label,
            url: shown(url),
            who: record.who.clone(),
            issuer: record.metadata.issuer.clone(),
            resource,
            scopes: record.scopes().to_vec(),
            client_id: client.map(|client| client.id.clone()).unwrap_or_default(),
            client: client.map_or(ClientOrigin::Configured, |client| client.origin),
            scheme,
            expires_at,
            refreshable: record.is_renewable(),
            logged_in_at: record.logged_in_at,
            refreshed_at: record.refreshed_at,
            state,
        }
    }
}

/// Without what people put into addresses and should not.
fn shown(mut url: Url) -> String {
    url.set_query(None);
    url.set_fragment(None);
    // They only fail for addresses that have no host, which a server has.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

#[cfg(test)]
mod tests;
