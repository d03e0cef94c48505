//! Owns logins that one process begins and another finishes: what is stored in between, for how
//! long, and that each can be finished once.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use bowline_config::Secret;
use bowline_store::{Expect, Key, Version};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use url::{Url, form_urlencoded};

use super::authorize::endpoint;
use super::{Login, authorize, destination, exchange, paste, pending};
use crate::client::OAuthClient;
use crate::ctx::Ctx;
use crate::dpop;
use crate::error::{AuthError, AuthErrorKind};
use crate::grant::Ask;
use crate::identity::Begun;
use crate::listener;
use crate::place::Metadata;
use crate::record::{KeptClient, Record, secret};
use crate::register;
use crate::response;
use crate::tokens::Tokens;

/// How long a login can be finished after it was begun.
const LIFE: Duration = Duration::from_secs(15 * 60);
const KIND: &str = "flow";

/// The state of a login that was begun. Stored only in a [`bowline_store::EncryptedStore`].
#[derive(Debug, Serialize, Deserialize)]
struct Flow {
    begun_at: SystemTime,
    /// The server's endpoint: a login that was begun for one server is not finished for another.
    url: Url,
    metadata: Metadata,
    client: KeptClient,
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
pub(crate) struct Finished {
    pub(crate) tokens: Tokens,
    pub(crate) client: OAuthClient,
    pub(crate) metadata: Metadata,
    pub(crate) scopes: Vec<String>,
    pub(crate) resource: Option<String>,
    pub(crate) dpop: Option<dpop::Key>,
}

/// Begins a login. Any process that shares the store can finish it.
pub(crate) async fn begin(login: &Login<'_>) -> Result<Begun, AuthError> {
    let Login { ctx, place, scopes, resource, dpop } = *login;
    // There is no prompt that could ask the person.
    destination::check(login, endpoint(place)?, None).await?;
    let port = register::kept_port(ctx, place).await;
    let redirect = listener::unheard_now(&ctx.auth.redirect, port).await;
    let client = register::client_for(ctx, place, &redirect, scopes).await?;
    let redirect = client.redirect.clone().unwrap_or(redirect);
    let address = authorize(login, &client, &redirect)?;
    forget_old(ctx).await?;
    let flow = Flow {
        begun_at: SystemTime::now(),
        url: ctx.url.clone(),
        metadata: place.metadata.clone(),
        client: KeptClient::of(&client),
        redirect: redirect.clone(),
        state: address.state,
        verifier: address.verifier,
        scopes: scopes.to_vec(),
        resource: resource.map(str::to_owned),
        dpop: dpop.map(|key| key.id().to_owned()),
    };
    let key = key(ctx, &flow.state);
    if ctx.safe.put(&key, &flow, Expect::Nothing).await?.is_none() {
        return Err(AuthError::new(AuthErrorKind::Store, "a login was begun twice with the same state"));
    }
    Ok(Begun { url: address.url, redirect })
}

/// Finishes a login with the address that the browser was redirected to, or the code in it.
pub(crate) async fn finish(ctx: &Ctx, brought: &str) -> Result<Finished, AuthError> {
    let (key, flow, version) = find(ctx, brought).await?;
    if response::is_bare(brought) && !paste::is_code(brought) {
        // It would use up the login, which can be finished once.
        let what = "what was brought back is neither an address nor a code";
        return Err(AuthError::new(AuthErrorKind::Untrusted, what).hint(paste::whole(&flow.redirect)));
    }
    let code = response::check(brought, &pending(&flow.metadata, &flow.state))?;
    let client = flow.client.restore(&flow.metadata.issuer, &ctx.auth).ok_or_else(|| {
        let what = "the configuration names another client than the one that the login was begun with";
        AuthError::new(AuthErrorKind::Setup, what).hint("begin the login again")
    })?;
    let dpop = match &flow.dpop {
        Some(id) => Some(dpop::Key::load_or_make(&ctx.safe, id).await?),
        None => None,
    };
    // The removal succeeds once, so only one caller continues.
    if !ctx.safe.remove(&key, Expect::At(version)).await? {
        return Err(none_begun());
    }
    let Flow { metadata, redirect, verifier, scopes, resource, .. } = flow;
    let ask = Ask {
        ctx,
        metadata: &metadata,
        client: Some(&client),
        scopes: &scopes,
        resource: resource.as_deref(),
        dpop: dpop.as_ref(),
    };
    let tokens = exchange(&ask, &code, &verifier, &redirect).await?;
    // The tokens matter more than the record of the client.
    let _ = register::prove(ctx, &client).await;
    Ok(Finished { tokens, client, metadata, scopes, resource, dpop })
}

/// Finds the login that the input belongs to: by its `state`, or the only pending one for a bare
/// code.
async fn find(ctx: &Ctx, brought: &str) -> Result<(Key, Flow, Version), AuthError> {
    if let Some(state) = state_of(brought) {
        let key = key(ctx, &state);
        return match ctx.safe.get::<Flow>(&key).await? {
            Some((flow, version)) if flow.is_good(ctx) => Ok((key, flow, version)),
            _ => Err(none_begun()),
        };
    }
    let prefix = prefix(ctx);
    let all = ctx.safe.list::<Flow>(KIND).await?;
    let mut ours = all.into_iter().filter(|(key, flow, _)| key.id.starts_with(&prefix) && flow.is_good(ctx));
    match (ours.next(), ours.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => {
            let what = "several logins were begun, and a code alone does not say which one it is for";
            Err(AuthError::new(AuthErrorKind::Setup, what)
                .hint("give the whole address that the browser was sent to, in quotes"))
        }
        (None, _) => Err(none_begun()),
    }
}

/// Deletes all logins that can no longer be finished.
async fn forget_old(ctx: &Ctx) -> Result<(), AuthError> {
    for (key, flow, version) in ctx.safe.list::<Flow>(KIND).await? {
        if flow.is_over() {
            ctx.safe.remove(&key, Expect::At(version)).await?;
        }
    }
    Ok(())
}

fn none_begun() -> AuthError {
    let what = "no login was begun that this could finish: it is done, or it was begun too long ago";
    AuthError::new(AuthErrorKind::LoginNeeded, what).hint("begin the login again")
}

/// People copy addresses with the `state` around, so the key contains only its hash.
fn key(ctx: &Ctx, state: &Secret) -> Key {
    let mut id = prefix(ctx);
    for byte in &digest(&SHA256, state.expose().as_bytes()).as_ref()[..16] {
        let _ = write!(id, "{byte:02x}");
    }
    Key::new(KIND, id)
}

fn prefix(ctx: &Ctx) -> String {
    format!("{}#", Record::key(&ctx.server, &ctx.auth, &ctx.url).id)
}

/// The `state` of a query or address, if there is exactly one.
fn state_of(text: &str) -> Option<Secret> {
    let query = text.split_once('?').map_or(text, |(_, query)| query);
    let query = query.split_once('#').map_or(query, |(query, _)| query);
    let mut states = form_urlencoded::parse(query.trim().as_bytes()).filter(|(name, _)| name == "state");
    match (states.next(), states.next()) {
        (Some((_, state)), None) => Some(Secret::new(state)),
        _ => None,
    }
}

impl Flow {
    fn is_good(&self, ctx: &Ctx) -> bool {
        self.url == ctx.url && !self.is_over()
    }

    /// Whether it was begun too long ago, or so far in the future that the clock must have changed.
    fn is_over(&self) -> bool {
        SystemTime::now().duration_since(self.begun_at).is_ok_and(|age| age > LIFE)
            || self.begun_at.duration_since(SystemTime::now()).is_ok_and(|ahead| ahead > LIFE)
    }
}
