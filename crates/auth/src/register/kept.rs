//! Owns what is remembered of clients: those that we registered, per issuer (AR-04), and which issuer a configured one
//! belongs to.

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
/// How many clients are remembered per issuer, for as many places that a browser is sent back to.
const MOST: usize = 8;
/// How often a change is tried while others change the same.
const TRIES: usize = 8;
/// A secret that ends sooner than this is not used any more.
const SOON: Duration = Duration::from_secs(60);

/// The clients that we registered at one issuer; the latest last. Not `Debug`: it holds secrets.
#[derive(Default, Serialize, Deserialize)]
struct Clients {
    list: Vec<Kept>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    id: String,
    secret: Option<String>,
    method: String,
    /// For where a login was to end, and what was registered for it.
    asked: Url,
    redirect: Url,
    /// What was registered, if anything was said.
    scopes: Vec<String>,
    secret_expires_at: Option<u64>,
    /// A login was begun with it again, and has not succeeded since. Perhaps its issuer has forgotten it, and says so
    /// on a page that only a person sees.
    #[serde(default)]
    in_doubt: bool,
}

/// A client that was registered before for this, and is still good. From now on it is in doubt, until a login with it
/// succeeds: where another can be registered, one in doubt is not used again.
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

/// Tokens were had with it. A configured one belongs to their issuer from now on.
pub(crate) async fn prove(ctx: &Ctx, client: &OAuthClient) -> Result<(), AuthError> {
    match client.origin {
        ClientOrigin::Registered => set_doubt(ctx, client, false).await,
        ClientOrigin::Configured if ctx.auth.issuer.is_none() => {
            // Whoever was first has checked the same.
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

/// Remembers a client, before it is used: what an authorization server gives once, it may not give again.
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

/// Forgets a client that its issuer does not know any more. One that was configured is never touched.
pub(crate) async fn forget(ctx: &Ctx, client: &OAuthClient) -> Result<(), AuthError> {
    if client.origin != ClientOrigin::Registered {
        return Ok(());
    }
    change(ctx, &client.issuer, |list| list.retain(|kept| kept.id != client.id)).await
}

/// The port of this machine that a browser was sent back to last time: registered, so better than another.
pub(crate) async fn kept_port(ctx: &Ctx, place: &Place) -> Option<u16> {
    kept_redirect(ctx, &place.metadata.issuer).await?.port()
}

/// Where on this machine a browser was sent back to last time. What cannot be read is not known.
pub(crate) async fn kept_redirect(ctx: &Ctx, issuer: &str) -> Option<Url> {
    let (clients, _) = ctx.safe.get::<Clients>(&key(issuer)).await.ok()??;
    let now = SystemTime::now();
    let local = |kept: &&Kept| kept.asked.scheme() == "http" && is_loopback(&kept.asked) && kept.is_good(now);
    clients.list.iter().rev().find(local).map(|kept| kept.asked.clone())
}

/// The issuer that a configured client belongs to at this server, if it had tokens before.
pub(super) async fn tie(ctx: &Ctx, client_id: &str) -> Result<Option<String>, AuthError> {
    Ok(ctx.safe.get(&tie_key(client_id, &ctx.url)).await?.map(|(issuer, _)| issuer))
}

/// Forgets which issuer a configured client belongs to: its login has ended, and the next one may be elsewhere.
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
