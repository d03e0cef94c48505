//! Owns the stored clients: those registered dynamically, per issuer (AR-04), and which issuer a
//! configured client belongs to.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bowline_config::{Secret, TokenAuth};
use bowline_store::{Expect, Key};
use serde::{Deserialize, Serialize};
use url::Url;

use super::dynamic::{Registered, Wish};
use crate::client::{ClientOrigin, OAuthClient};
use crate::ctx::Ctx;
use crate::error::{AuthError, AuthErrorKind};
use crate::metadata::is_loopback;
use crate::place::{Metadata, Place};

const KIND: &str = "client";
/// How many clients are stored per issuer, one per redirect.
const MOST: usize = 8;
/// How often an update is retried after concurrent updates.
const TRIES: usize = 8;
/// A client whose secret expires sooner than this is not used any more.
const SOON: Duration = Duration::from_secs(60);

/// The clients registered at one issuer, latest last. Not `Debug`, because it holds secrets.
#[derive(Default, Serialize, Deserialize)]
struct Clients {
    list: Vec<Kept>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Kept {
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
pub(super) async fn find(
    ctx: &Ctx,
    metadata: &Metadata,
    redirect: &Url,
    scopes: &[String],
) -> Result<Option<OAuthClient>, AuthError> {
    let Some((clients, _)) = ctx.safe.get::<Clients>(&key(&metadata.issuer)).await? else { return Ok(None) };
    let fits = |kept: &&Kept| {
        kept.asked == *redirect
            && kept.is_good(SystemTime::now())
            && scopes.iter().all(|it| kept.scopes.contains(it))
            && !(kept.in_doubt && metadata.registration_endpoint.is_some())
    };
    let found = clients.list.iter().rev().find(fits).and_then(|kept| kept.client(&metadata.issuer));
    if let Some(client) = &found {
        set_doubt(ctx, client, true).await?;
    }
    Ok(found)
}

/// Records that the client obtained tokens. A configured client belongs to this issuer from now on.
pub(crate) async fn prove(ctx: &Ctx, client: &OAuthClient) -> Result<(), AuthError> {
    match client.origin {
        ClientOrigin::Registered => set_doubt(ctx, client, false).await,
        ClientOrigin::Configured if ctx.auth.issuer.is_none() => {
            // If another process was first, it has made the same check.
            ctx.safe.put(&tie_key(&client.id, &ctx.url), &client.issuer, Expect::Nothing).await?;
            Ok(())
        }
        ClientOrigin::Configured | ClientOrigin::Document => Ok(()),
    }
}

async fn set_doubt(ctx: &Ctx, client: &OAuthClient, in_doubt: bool) -> Result<(), AuthError> {
    change(ctx, &client.issuer, |list| {
        list.iter_mut().filter(|kept| kept.id == client.id).for_each(|kept| kept.in_doubt = in_doubt);
    })
    .await
}

/// Stores a client before it is used, because the authorization server may not issue it again.
pub(super) async fn keep(
    ctx: &Ctx,
    metadata: &Metadata,
    wish: &Wish<'_>,
    registered: Registered,
) -> Result<OAuthClient, AuthError> {
    let kept = Kept {
        id: registered.id,
        secret: registered.secret.as_ref().map(|secret| secret.expose().to_owned()),
        method: registered.method.as_str().to_owned(),
        asked: wish.redirect.clone(),
        redirect: registered.redirect,
        scopes: wish.scopes.to_vec(),
        secret_expires_at: registered.secret_expires_at,
        in_doubt: false,
    };
    change(ctx, &metadata.issuer, |list| {
        list.retain(|other| other.asked != kept.asked);
        list.push(kept.clone());
        let surplus = list.len().saturating_sub(MOST);
        list.drain(..surplus);
    })
    .await?;
    let unusable = || AuthError::new(AuthErrorKind::Store, "a client was kept that cannot be read");
    kept.client(&metadata.issuer).ok_or_else(unusable)
}

/// Forgets a registered client that its issuer no longer knows. Configured ones are never touched.
pub(crate) async fn forget(ctx: &Ctx, client: &OAuthClient) -> Result<(), AuthError> {
    if client.origin != ClientOrigin::Registered {
        return Ok(());
    }
    change(ctx, &client.issuer, |list| list.retain(|kept| kept.id != client.id)).await
}

/// The loopback port of the last registered redirect, which is preferred because it is registered.
pub(crate) async fn kept_port(ctx: &Ctx, place: &Place) -> Option<u16> {
    kept_redirect(ctx, &place.metadata.issuer).await?.port()
}

/// The loopback redirect of the last registered client; `None` if it cannot be read.
pub(crate) async fn kept_redirect(ctx: &Ctx, issuer: &str) -> Option<Url> {
    let (clients, _) = ctx.safe.get::<Clients>(&key(issuer)).await.ok()??;
    let now = SystemTime::now();
    let local = |kept: &&Kept| kept.asked.scheme() == "http" && is_loopback(&kept.asked) && kept.is_good(now);
    clients.list.iter().rev().find(local).map(|kept| kept.asked.clone())
}

/// The issuer that a configured client belongs to at this server, if it has obtained tokens before.
pub(super) async fn tie(ctx: &Ctx, client_id: &str) -> Result<Option<String>, AuthError> {
    Ok(ctx.safe.get(&tie_key(client_id, &ctx.url)).await?.map(|(issuer, _)| issuer))
}

/// Forgets which issuer a configured client belongs to, so that the next login can use another.
pub(crate) async fn untie(ctx: &Ctx, client_id: &str, server: &Url) -> Result<(), AuthError> {
    ctx.safe.remove(&tie_key(client_id, server), Expect::Anything).await?;
    Ok(())
}

fn tie_key(client_id: &str, server: &Url) -> Key {
    let at = format!("{}{}", server.origin().ascii_serialization(), server.path());
    Key::new("issuer", format!("{client_id} at {at}"))
}

async fn change(ctx: &Ctx, issuer: &str, change: impl Fn(&mut Vec<Kept>)) -> Result<(), AuthError> {
    let key = key(issuer);
    for _ in 0..TRIES {
        let (mut clients, expect) = match ctx.safe.get::<Clients>(&key).await? {
            Some((clients, version)) => (clients, Expect::At(version)),
            None => (Clients::default(), Expect::Nothing),
        };
        change(&mut clients.list);
        if ctx.safe.put(&key, &clients, expect).await?.is_some() {
            return Ok(());
        }
    }
    Err(contended())
}

impl Kept {
    fn is_good(&self, now: SystemTime) -> bool {
        let ends = self.secret_expires_at.and_then(|at| UNIX_EPOCH.checked_add(Duration::from_secs(at)));
        ends.is_none_or(|ends| now + SOON < ends)
    }

    fn client(&self, issuer: &str) -> Option<OAuthClient> {
        Some(OAuthClient {
            id: self.id.clone(),
            secret: self.secret.clone().map(Secret::from),
            method: TokenAuth::of(&self.method)?,
            key: None,
            audience: None,
            issuer: issuer.to_owned(),
            origin: ClientOrigin::Registered,
            redirect: (self.redirect != self.asked).then(|| self.redirect.clone()),
        })
    }
}

fn key(issuer: &str) -> Key {
    Key::new(KIND, issuer)
}

fn contended() -> AuthError {
    AuthError::new(AuthErrorKind::Store, "others kept changing what is remembered of clients")
}
