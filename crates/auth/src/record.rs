//! Owns the stored form of a login, and the key it is stored under.
//!
//! A record holds everything that is needed to use and refresh a login, except configured secrets:
//! those are looked up again, so that a changed one takes effect at once.

use std::fmt::Write as _;
use std::time::SystemTime;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bowline_config::{AuthSettings, Dpop, Grant, ResourceIndicator, Secret, TokenAuth};
use bowline_store::Key;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::client::{ClientOrigin, OAuthClient};
use crate::discovery::Metadata;
use crate::dpop;
use crate::error::{AuthError, AuthErrorKind};
use crate::tokens::{Scheme, Tokens};

/// A stored login. `Debug` shows no secret, because each is a [`Secret`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginRecord {
    /// The server's configured name at the time of the login.
    pub(crate) server: String,
    /// The configured account label.
    #[serde(default)]
    pub(crate) label: Option<String>,
    /// The server's endpoint. A record for another endpoint is not used.
    pub(crate) url: Url,
    /// The kind of grant that the tokens come from.
    #[serde(default)]
    pub(crate) by: GrantKind,
    /// The authorization server that issued the tokens.
    pub(crate) metadata: Metadata,
    /// The `resource` parameter, exactly as it was sent.
    // AF-02
    #[serde(default)]
    pub(crate) resource: Option<String>,
    /// The client that obtained the tokens; `None` for a grant without a client.
    #[serde(default)]
    pub(crate) client: Option<StoredClient>,
    /// Every scope that was ever requested for this login.
    // SC-03
    #[serde(default)]
    pub(crate) requested: Vec<String>,
    /// The granted scopes, if the authorization server named them.
    #[serde(default)]
    pub(crate) granted: Option<Vec<String>>,
    #[serde(with = "secret")]
    pub(crate) access: Secret,
    pub(crate) scheme: Scheme,
    #[serde(default, with = "maybe_secret")]
    pub(crate) refresh: Option<Secret>,
    /// Expiry as absolute time, so that it survives a restart.
    #[serde(default)]
    pub(crate) expires_at: Option<SystemTime>,
    pub(crate) logged_in_at: SystemTime,
    #[serde(default)]
    pub(crate) refreshed_at: Option<SystemTime>,
    /// The name of the account, for display.
    #[serde(default)]
    pub(crate) who: Option<String>,
    /// The id of the DPoP key that the token is bound to.
    #[serde(default)]
    pub(crate) dpop: Option<String>,
    /// The thumbprint of that key: after a logout, a new key is stored under the same id.
    #[serde(default)]
    pub(crate) dpop_thumbprint: Option<String>,
    #[serde(default)]
    pub(crate) state: LoginState,
}

/// A client, without its configured secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredClient {
    pub(crate) id: String,
    /// Set only for a client that registered itself.
    #[serde(default, with = "maybe_secret")]
    pub(crate) secret: Option<Secret>,
    method: String,
    #[serde(default)]
    audience: Option<String>,
    pub(crate) origin: ClientOrigin,
}

/// The kind of grant. Tokens of one kind are neither used nor refreshed by another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GrantKind {
    /// A person logs in.
    #[default]
    Person,
    ClientCredentials,
    Enterprise,
    Workload,
}

/// Whether the login is still valid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoginState {
    /// Valid, as far as known.
    #[default]
    Ok,
    /// It can no longer be refreshed, for this reason.
    NeedsLogin(String),
}

/// The parts of a login record that do not come from the token endpoint.
#[derive(Clone, Debug)]
pub(crate) struct LoginDetails<'a> {
    pub(crate) server: &'a str,
    pub(crate) url: &'a Url,
    pub(crate) auth: &'a AuthSettings,
    pub(crate) metadata: &'a Metadata,
    pub(crate) resource: Option<String>,
    pub(crate) client: Option<&'a OAuthClient>,
    pub(crate) requested: Vec<String>,
    pub(crate) dpop: Option<&'a dpop::Key>,
}

// === impl LoginRecord ===

impl LoginRecord {
    /// The record kind in the store.
    pub(crate) const KIND: &'static str = "login";

    /// The key of a server's login. It differs for each configured server, even with the same URL,
    /// unless both name the same account.
    pub(crate) fn key(server: &str, auth: &AuthSettings, url: &Url) -> Key {
        let who = auth.account.as_deref().unwrap_or(server);
        let hash = digest(&SHA256, url.as_str().as_bytes());
        let mut id = format!("{who}@");
        for byte in &hash.as_ref()[..8] {
            let _ = write!(id, "{byte:02x}");
        }
        if auth.account.is_some() {
            // After the hash, where no name can end: a server's name may equal another's account
            // label.
            id.push_str(" account");
        }
        Key::new(Self::KIND, id)
    }

    /// Creates the record of a new login.
    pub(crate) fn new(details: LoginDetails<'_>, tokens: Tokens, now: SystemTime) -> Self {
        let by = GrantKind::from_grant(&details.auth.grant);
        Self {
            by,
            server: details.server.to_owned(),
            label: details.auth.account.clone(),
            url: details.url.clone(),
            metadata: details.metadata.clone(),
            resource: details.resource,
            client: details.client.map(StoredClient::from_client),
            requested: details.requested,
            granted: tokens.scopes,
            access: tokens.access,
            scheme: tokens.scheme,
            // Grants without a person are simply repeated; a refresh token would only add a way to
            // spend it twice.
            refresh: tokens.refresh.filter(|_| by == GrantKind::Person),
            expires_at: tokens.expires_at,
            logged_in_at: now,
            refreshed_at: None,
            who: tokens.id_token.as_ref().and_then(display_name),
            dpop: details.dpop.map(|key| key.id().to_owned()),
            dpop_thumbprint: details.dpop.map(|key| key.thumbprint().to_owned()),
            state: LoginState::Ok,
        }
    }

    /// This login with the tokens of a refresh. What the response omits is kept: the refresh token
    /// (RFC 6749 §6), the scopes and the name. An omitted expiry is unknown.
    pub(crate) fn with_refreshed_tokens(&self, tokens: &Tokens, now: SystemTime) -> Self {
        Self {
            access: tokens.access.clone(),
            scheme: tokens.scheme,
            refresh: tokens
                .refresh
                .clone()
                .filter(|_| self.by == GrantKind::Person)
                .or_else(|| self.refresh.clone()),
            expires_at: tokens.expires_at,
            granted: tokens.scopes.clone().or_else(|| self.granted.clone()),
            refreshed_at: Some(now),
            who: tokens.id_token.as_ref().and_then(display_name).or_else(|| self.who.clone()),
            state: LoginState::Ok,
            ..self.clone()
        }
    }

    /// This login, marked as needing a new login for this reason.
    pub(crate) fn with_login_needed(&self, why: impl Into<String>) -> Self {
        Self { state: LoginState::NeedsLogin(why.into()), ..self.clone() }
    }

    /// Whether the login fits the current configuration of the server.
    pub(crate) fn belongs_to(&self, auth: &AuthSettings, url: &Url) -> bool {
        let resource = match &auth.resource {
            ResourceIndicator::Fixed(fixed) => self.resource.as_ref() == Some(fixed),
            ResourceIndicator::Discovered | ResourceIndicator::Off => true,
        };
        // A token obtained before `dpop = true` was set is not bound to a key.
        let bound = auth.dpop != Dpop::Always || self.scheme == Scheme::Dpop;
        self.url == *url
            && bound
            && self.label == auth.account
            && self.by == GrantKind::from_grant(&auth.grant)
            && auth.issuer.as_ref().is_none_or(|issuer| *issuer == self.metadata.issuer)
            && resource
    }

    /// Whether it can be refreshed without a person, as far as known.
    pub(crate) fn is_refreshable(&self) -> bool {
        self.state == LoginState::Ok && (self.refresh.is_some() || self.by != GrantKind::Person)
    }

    /// When the access token was received.
    pub(crate) fn obtained_at(&self) -> SystemTime {
        self.refreshed_at.unwrap_or(self.logged_in_at)
    }

    /// The scopes of the token: granted if known, else requested.
    pub(crate) fn scopes(&self) -> &[String] {
        self.granted.as_deref().unwrap_or(&self.requested)
    }

    /// The client that obtained the tokens, completed from the configuration.
    pub(crate) fn client(&self, auth: &AuthSettings) -> Result<Option<OAuthClient>, AuthError> {
        let Some(kept) = &self.client else { return Ok(None) };
        let client = kept.restore(&self.metadata.issuer, auth);
        client.map(Some).ok_or_else(|| {
            let what = "the configuration names a different client from the one that the login was made with";
            AuthError::new(AuthErrorKind::LoginNeeded, what)
        })
    }
}

impl StoredClient {
    pub(crate) fn from_client(client: &OAuthClient) -> Self {
        let configured = client.origin == ClientOrigin::Configured;
        Self {
            id: client.id.clone(),
            secret: client.secret.clone().filter(|_| !configured),
            method: client.method.as_str().to_owned(),
            audience: client.audience.clone(),
            origin: client.origin,
        }
    }

    /// The client, completed from the configuration. Returns `None` if the configuration names
    /// another client.
    pub(crate) fn restore(&self, issuer: &str, auth: &AuthSettings) -> Option<OAuthClient> {
        let method = TokenAuth::from_name(&self.method).unwrap_or(TokenAuth::None);
        let mut client = OAuthClient {
            id: self.id.clone(),
            secret: self.secret.clone(),
            method,
            key: None,
            audience: self.audience.clone(),
            issuer: issuer.to_owned(),
            origin: self.origin,
            registered_redirect: None,
        };
        if self.origin == ClientOrigin::Configured {
            let settings = auth.client.as_ref().filter(|settings| settings.id == self.id)?;
            client.secret.clone_from(&settings.secret);
            client.key.clone_from(&settings.key);
            client.audience.clone_from(&settings.audience);
            client.method = settings.method.unwrap_or(method);
        }
        Some(client)
    }
}

impl GrantKind {
    pub(crate) fn from_grant(grant: &Grant) -> Self {
        match grant {
            Grant::Person | Grant::Device | Grant::Off => Self::Person,
            Grant::ClientCredentials => Self::ClientCredentials,
            Grant::Enterprise(_) => Self::Enterprise,
            Grant::Workload(_) => Self::Workload,
        }
    }
}

/// The account name from an ID token. It is for display only, so the token is not verified.
fn display_name(id_token: &Secret) -> Option<String> {
    let payload = id_token.expose().split('.').nth(1)?;
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let claims: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&payload).ok()?;
    let name = |claim: &str| {
        let text: String =
            claims.get(claim)?.as_str()?.chars().filter(|c| !c.is_control()).take(MAX_NAME_LENGTH).collect();
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    ["email", "preferred_username", "upn", "name", "sub"].into_iter().find_map(name)
}

/// The longest stored account name, in characters.
const MAX_NAME_LENGTH: usize = 200;

/// Serializes secrets in clear text. Used only for records that go into a
/// [`bowline_store::EncryptedStore`] or an export, which both encrypt them.
pub(crate) mod secret {
    use bowline_config::Secret;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(secret: &Secret, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(secret.expose())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        String::deserialize(from).map(Secret::from)
    }
}

mod maybe_secret {
    use bowline_config::Secret;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    #[expect(clippy::ref_option, reason = "the signature that serde calls")]
    pub(super) fn serialize<S: Serializer>(secret: &Option<Secret>, out: S) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(Secret::expose).serialize(out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Secret>, D::Error> {
        Option::<String>::deserialize(from).map(|text| text.map(Secret::from))
    }
}

#[cfg(test)]
pub(crate) mod tests;
