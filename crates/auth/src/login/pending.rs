//! Owns logins that one process begins and another finishes: what is stored in between, for how
//! long, and that each can be finished once.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use bowline_config::Secret;
use bowline_store::{Key, Precondition, Version};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use url::{Url, form_urlencoded};

use super::authorization_url::authorization_endpoint;
use super::{LoginParams, authorization_url, destination, exchange_code, expected_response, paste};
use crate::authorization_response;
use crate::client::OAuthClient;
use crate::context::AuthContext;
use crate::discovery::Metadata;
use crate::dpop;
use crate::error::{AuthError, AuthErrorKind};
use crate::grant::TokenRequest;
use crate::listener;
use crate::record::{LoginRecord, StoredClient, secret};
use crate::register;
use crate::tokens::Tokens;

/// How long a login can be finished after it was begun.
const PENDING_LOGIN_LIFE: Duration = Duration::from_secs(15 * 60);
const RECORD_KIND: &str = "flow";

/// A login that was begun here and is finished by
/// [`Identity::finish_login`](crate::Identity::finish_login), perhaps in another process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PendingLogin {
    /// The page on which a person logs in.
    pub url: Url,
    /// Where the browser is redirected at the end; nothing listens there.
    pub redirect: Url,
}

impl PendingLogin {
    /// Creates a login that no authorization server knows, for tests of a host. Finishing it fails.
    pub fn new(url: Url, redirect: Url) -> Self {
        Self { url, redirect }
    }
}

/// The state of a login that was begun. Stored only in a [`bowline_store::EncryptedStore`].
#[derive(Debug, Serialize, Deserialize)]
struct PendingLoginRecord {
    begun_at: SystemTime,
    /// The server's endpoint: a login that was begun for one server is not finished for another.
    url: Url,
    metadata: Metadata,
    client: StoredClient,
    redirect: Url,
    #[serde(with = "secret")]
    state: Secret,
    #[serde(with = "secret")]
    verifier: Secret,
    scopes: Vec<String>,
    resource: Option<String>,
    dpop: Option<String>,
}

/// The outcome of a login that was begun earlier.
#[derive(Debug)]
pub(crate) struct FinishedLogin {
    pub(crate) tokens: Tokens,
    pub(crate) client: OAuthClient,
    pub(crate) metadata: Metadata,
    pub(crate) scopes: Vec<String>,
    pub(crate) resource: Option<String>,
    pub(crate) dpop: Option<dpop::Key>,
}

/// Begins a login. Any process that shares the store can finish it.
pub(crate) async fn begin(login: &LoginParams<'_>) -> Result<PendingLogin, AuthError> {
    let LoginParams { ctx, discovery, scopes, resource, dpop } = *login;
    // There is no prompt that could ask the person.
    destination::check(login, authorization_endpoint(discovery)?, None).await?;
    let port = register::stored_port(ctx, discovery).await;
    let redirect = listener::unused_redirect(&ctx.auth.redirect, port).await;
    let client = register::client_for(ctx, discovery, &redirect, scopes).await?;
    let redirect = client.registered_redirect.clone().unwrap_or(redirect);
    let address = authorization_url::build_authorization_url(login, &client, &redirect)?;
    delete_expired(ctx).await?;
    let flow = PendingLoginRecord {
        begun_at: SystemTime::now(),
        url: ctx.url.clone(),
        metadata: discovery.metadata.clone(),
        client: StoredClient::from_client(&client),
        redirect: redirect.clone(),
        state: address.state,
        verifier: address.verifier,
        scopes: scopes.to_vec(),
        resource: resource.map(str::to_owned),
        dpop: dpop.map(|key| key.id().to_owned()),
    };
    let key = record_key(ctx, &flow.state);
    if ctx.store.put(&key, &flow, Precondition::Absent).await?.is_none() {
        return Err(AuthError::new(AuthErrorKind::Store, "a login was started twice with the same state"));
    }
    Ok(PendingLogin::new(address.url, redirect))
}

/// Finishes a login with the address that the browser was redirected to, or the code in it.
pub(crate) async fn finish(ctx: &AuthContext, brought: &str) -> Result<FinishedLogin, AuthError> {
    let (key, flow, version) = find_pending(ctx, brought).await?;
    if authorization_response::is_bare_code(brought) && !paste::is_code(brought) {
        // It would use up the login, which can be finished once.
        let what = "the input is neither a URL nor a code";
        return Err(
            AuthError::new(AuthErrorKind::Untrusted, what).hint(paste::whole_address_hint(&flow.redirect))
        );
    }
    let code =
        authorization_response::require_code(brought, &expected_response(&flow.metadata, &flow.state))?;
    let client = flow.client.restore(&flow.metadata.issuer, &ctx.auth).ok_or_else(|| {
        let what = "the configuration names a different client from the one that the login was started with";
        AuthError::new(AuthErrorKind::Setup, what).hint("start the login again")
    })?;
    let dpop = match &flow.dpop {
        Some(id) => Some(dpop::Key::load_or_create(&ctx.store, id).await?),
        None => None,
    };
    // The removal succeeds once, so only one caller continues.
    if !ctx.store.remove(&key, Precondition::AtVersion(version)).await? {
        return Err(no_pending_login_error());
    }
    let PendingLoginRecord { metadata, redirect, verifier, scopes, resource, .. } = flow;
    let ask = TokenRequest {
        ctx,
        metadata: &metadata,
        client: Some(&client),
        scopes: &scopes,
        resource: resource.as_deref(),
        dpop: dpop.as_ref(),
    };
    let tokens = exchange_code(&ask, &code, &verifier, &redirect).await?;
    // The tokens matter more than the record of the client.
    let _ = register::confirm_client(ctx, &client).await;
    Ok(FinishedLogin { tokens, client, metadata, scopes, resource, dpop })
}

/// Finds the login that the input belongs to: by its `state`, or the only pending one for a bare
/// code.
async fn find_pending(
    ctx: &AuthContext,
    brought: &str,
) -> Result<(Key, PendingLoginRecord, Version), AuthError> {
    if let Some(state) = state_param(brought) {
        let key = record_key(ctx, &state);
        return match ctx.store.get::<PendingLoginRecord>(&key).await? {
            Some((flow, version)) if flow.is_usable(ctx) => Ok((key, flow, version)),
            _ => Err(no_pending_login_error()),
        };
    }
    let prefix = record_prefix(ctx);
    let all = ctx.store.list::<PendingLoginRecord>(RECORD_KIND).await?;
    let mut ours =
        all.into_iter().filter(|(key, flow, _)| key.id.starts_with(&prefix) && flow.is_usable(ctx));
    match (ours.next(), ours.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => {
            let what = "several logins were started, and a code alone does not say which one it is for";
            Err(AuthError::new(AuthErrorKind::Setup, what)
                .hint("give the whole URL that the browser was redirected to, in quotes"))
        }
        (None, _) => Err(no_pending_login_error()),
    }
}

/// Deletes all logins that can no longer be finished.
async fn delete_expired(ctx: &AuthContext) -> Result<(), AuthError> {
    for (key, flow, version) in ctx.store.list::<PendingLoginRecord>(RECORD_KIND).await? {
        if flow.is_expired() {
            ctx.store.remove(&key, Precondition::AtVersion(version)).await?;
        }
    }
    Ok(())
}

fn no_pending_login_error() -> AuthError {
    let what = "no login is waiting for this: it was finished, or started too long ago";
    AuthError::new(AuthErrorKind::LoginNeeded, what).hint("start the login again")
}

/// People copy addresses with the `state` around, so the key contains only its hash.
fn record_key(ctx: &AuthContext, state: &Secret) -> Key {
    let mut id = record_prefix(ctx);
    for byte in &digest(&SHA256, state.expose().as_bytes()).as_ref()[..16] {
        let _ = write!(id, "{byte:02x}");
    }
    Key::new(RECORD_KIND, id)
}

fn record_prefix(ctx: &AuthContext) -> String {
    format!("{}#", LoginRecord::key(&ctx.server, &ctx.auth, &ctx.url).id)
}

/// The `state` of a query or address, if there is exactly one.
fn state_param(text: &str) -> Option<Secret> {
    let query = text.split_once('?').map_or(text, |(_, query)| query);
    let query = query.split_once('#').map_or(query, |(query, _)| query);
    let mut states = form_urlencoded::parse(query.trim().as_bytes()).filter(|(name, _)| name == "state");
    match (states.next(), states.next()) {
        (Some((_, state)), None) => Some(Secret::new(state)),
        _ => None,
    }
}

impl PendingLoginRecord {
    fn is_usable(&self, ctx: &AuthContext) -> bool {
        self.url == ctx.url && !self.is_expired()
    }

    /// Whether it was begun too long ago, or so far in the future that the clock must have changed.
    fn is_expired(&self) -> bool {
        SystemTime::now().duration_since(self.begun_at).is_ok_and(|age| age > PENDING_LOGIN_LIFE)
            || self.begun_at.duration_since(SystemTime::now()).is_ok_and(|ahead| ahead > PENDING_LOGIN_LIFE)
    }
}
