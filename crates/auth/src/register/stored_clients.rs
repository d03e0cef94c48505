//! Owns the stored clients: those registered dynamically, per issuer (AR-04), and which issuer a
//! configured client belongs to.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bowline_config::{Secret, TokenAuth, is_loopback};
use bowline_store::{Key, Precondition};
use serde::{Deserialize, Serialize};
use url::Url;

use super::dynamic::{Registration, RegistrationRequest};
use crate::client::{ClientOrigin, OAuthClient};
use crate::context::AuthContext;
use crate::discovery::{Discovery, Metadata};
use crate::error::{AuthError, AuthErrorKind};

const RECORD_KIND: &str = "client";
/// How many clients are stored per issuer, one per redirect.
const MAX_CLIENTS_PER_ISSUER: usize = 8;
/// How often an update is retried after concurrent updates.
const MAX_UPDATE_ATTEMPTS: usize = 8;
/// A client whose secret expires sooner than this is not used any more.
const MIN_SECRET_LIFE: Duration = Duration::from_secs(60);

/// The clients registered at one issuer, latest last. Not `Debug`, because it holds secrets.
#[derive(Default, Serialize, Deserialize)]
struct StoredClients {
    list: Vec<StoredRegistration>,
}

#[derive(Clone, Serialize, Deserialize)]
struct StoredRegistration {
    id: String,
    secret: Option<String>,
    method: String,
    /// The redirect that was requested, and the one that was registered for it.
    asked: Url,
    redirect: Url,
    /// The registered scopes, if any were named.
    scopes: Vec<String>,
    secret_expires_at: Option<u64>,
    /// Whether a login was started with it again and has not succeeded since. The issuer may have
    /// forgotten the client, and tells that only on a page.
    #[serde(default)]
    in_doubt: bool,
}

/// Finds a registered client for this redirect and these scopes. It is in doubt from now on, until
/// a login with it succeeds; a client in doubt is not used again where another can be registered.
pub(super) async fn find_client(
    ctx: &AuthContext,
    metadata: &Metadata,
    redirect: &Url,
    scopes: &[String],
) -> Result<Option<OAuthClient>, AuthError> {
    let Some((clients, _)) = ctx.store.get::<StoredClients>(&key(&metadata.issuer)).await? else {
        return Ok(None);
    };
    let fits = |kept: &&StoredRegistration| {
        kept.asked == *redirect
            && kept.is_usable(SystemTime::now())
            && scopes.iter().all(|it| kept.scopes.contains(it))
            && !(kept.in_doubt && metadata.registration_endpoint.is_some())
    };
    let found = clients.list.iter().rev().find(fits).and_then(|kept| kept.to_client(&metadata.issuer));
    if let Some(client) = &found {
        set_in_doubt(ctx, client, true).await?;
    }
    Ok(found)
}

/// Records that the client obtained tokens. A configured client belongs to this issuer from now on.
pub(crate) async fn confirm_client(ctx: &AuthContext, client: &OAuthClient) -> Result<(), AuthError> {
    match client.origin {
        ClientOrigin::Registered => set_in_doubt(ctx, client, false).await,
        ClientOrigin::Configured if ctx.auth.issuer.is_none() => {
            // If another process was first, it has made the same check.
            ctx.store.put(&binding_key(&client.id, &ctx.url), &client.issuer, Precondition::Absent).await?;
            Ok(())
        }
        ClientOrigin::Configured | ClientOrigin::Document => Ok(()),
    }
}

async fn set_in_doubt(ctx: &AuthContext, client: &OAuthClient, in_doubt: bool) -> Result<(), AuthError> {
    update_clients(ctx, &client.issuer, |list| {
        list.iter_mut().filter(|kept| kept.id == client.id).for_each(|kept| kept.in_doubt = in_doubt);
    })
    .await
}

/// Stores a client before it is used, because the authorization server may not issue it again.
pub(super) async fn save_client(
    ctx: &AuthContext,
    metadata: &Metadata,
    wish: &RegistrationRequest<'_>,
    registered: Registration,
) -> Result<OAuthClient, AuthError> {
    let kept = StoredRegistration {
        id: registered.id,
        secret: registered.secret.as_ref().map(|secret| secret.expose().to_owned()),
        method: registered.method.as_str().to_owned(),
        asked: wish.redirect.clone(),
        redirect: registered.redirect,
        scopes: wish.scopes.to_vec(),
        secret_expires_at: registered.secret_expires_at,
        in_doubt: false,
    };
    update_clients(ctx, &metadata.issuer, |list| {
        list.retain(|other| other.asked != kept.asked);
        list.push(kept.clone());
        let surplus = list.len().saturating_sub(MAX_CLIENTS_PER_ISSUER);
        list.drain(..surplus);
    })
    .await?;
    let unusable = || AuthError::new(AuthErrorKind::Store, "a stored client cannot be read");
    kept.to_client(&metadata.issuer).ok_or_else(unusable)
}

/// Forgets a registered client that its issuer no longer knows. Configured ones are never touched.
pub(crate) async fn forget_client(ctx: &AuthContext, client: &OAuthClient) -> Result<(), AuthError> {
    if client.origin != ClientOrigin::Registered {
        return Ok(());
    }
    update_clients(ctx, &client.issuer, |list| list.retain(|kept| kept.id != client.id)).await
}

/// The loopback port of the last registered redirect, which is preferred because it is registered.
pub(crate) async fn stored_port(ctx: &AuthContext, discovery: &Discovery) -> Option<u16> {
    stored_redirect(ctx, &discovery.metadata.issuer).await?.port()
}

/// The loopback redirect of the last registered client; `None` if it cannot be read.
pub(crate) async fn stored_redirect(ctx: &AuthContext, issuer: &str) -> Option<Url> {
    let (clients, _) = ctx.store.get::<StoredClients>(&key(issuer)).await.ok()??;
    let now = SystemTime::now();
    let local = |kept: &&StoredRegistration| {
        kept.asked.scheme() == "http" && is_loopback(&kept.asked) && kept.is_usable(now)
    };
    clients.list.iter().rev().find(local).map(|kept| kept.asked.clone())
}

/// The issuer that a configured client belongs to at this server, if it has obtained tokens before.
pub(super) async fn bound_issuer(ctx: &AuthContext, client_id: &str) -> Result<Option<String>, AuthError> {
    Ok(ctx.store.get(&binding_key(client_id, &ctx.url)).await?.map(|(issuer, _)| issuer))
}

/// Forgets which issuer a configured client belongs to, so that the next login can use another.
pub(crate) async fn unbind_client(ctx: &AuthContext, client_id: &str, server: &Url) -> Result<(), AuthError> {
    ctx.store.remove(&binding_key(client_id, server), Precondition::Any).await?;
    Ok(())
}

fn binding_key(client_id: &str, server: &Url) -> Key {
    let at = format!("{}{}", server.origin().ascii_serialization(), server.path());
    Key::new("issuer", format!("{client_id} at {at}"))
}

async fn update_clients(
    ctx: &AuthContext,
    issuer: &str,
    change: impl Fn(&mut Vec<StoredRegistration>),
) -> Result<(), AuthError> {
    let key = key(issuer);
    for _ in 0..MAX_UPDATE_ATTEMPTS {
        let (mut clients, expect) = match ctx.store.get::<StoredClients>(&key).await? {
            Some((clients, version)) => (clients, Precondition::AtVersion(version)),
            None => (StoredClients::default(), Precondition::Absent),
        };
        change(&mut clients.list);
        if ctx.store.put(&key, &clients, expect).await?.is_some() {
            return Ok(());
        }
    }
    Err(contended_error())
}

impl StoredRegistration {
    fn is_usable(&self, now: SystemTime) -> bool {
        let ends = self.secret_expires_at.and_then(|at| UNIX_EPOCH.checked_add(Duration::from_secs(at)));
        ends.is_none_or(|ends| now + MIN_SECRET_LIFE < ends)
    }

    fn to_client(&self, issuer: &str) -> Option<OAuthClient> {
        Some(OAuthClient {
            id: self.id.clone(),
            secret: self.secret.clone().map(Secret::from),
            method: TokenAuth::from_name(&self.method)?,
            key: None,
            audience: None,
            issuer: issuer.to_owned(),
            origin: ClientOrigin::Registered,
            registered_redirect: (self.redirect != self.asked).then(|| self.redirect.clone()),
        })
    }
}

fn key(issuer: &str) -> Key {
    Key::new(RECORD_KIND, issuer)
}

fn contended_error() -> AuthError {
    AuthError::new(AuthErrorKind::Store, "other processes kept changing the stored clients")
}
