//! Owns discovery: which addresses are asked for the authorization server of a server, in which
//! order, and when to stop (AD-02 to AD-07).

use std::time::Duration;

use bowline_config::Resource;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::timeout;
use url::Url;

use crate::challenge::Challenge;
use crate::ctx::Ctx;
use crate::error::{AuthError, AuthErrorKind, said};
use crate::metadata::{self, Described};
use crate::place::{Metadata, Place, PlaceKind};

/// How many of the authorization servers that a server lists are tried.
const SERVERS: usize = 4;
/// Timeout for the whole discovery.
const PATIENCE: Duration = Duration::from_secs(60);

/// Finds the authorization server that issues tokens for a server, starting from its challenge.
///
/// Nothing is cached, and only these two are contacted. Bounded in time; dropping the future
/// cancels it.
pub(crate) async fn locate(ctx: &Ctx, challenge: &Challenge) -> Result<Place, AuthError> {
    locate_within(PATIENCE, ctx, challenge).await
}

async fn locate_within(patience: Duration, ctx: &Ctx, challenge: &Challenge) -> Result<Place, AuthError> {
    timeout(patience, search(ctx, challenge)).await.unwrap_or_else(|_| {
        let what = format!("it took too long to find out who gives out tokens for {}", ctx.server);
        Err(AuthError::new(AuthErrorKind::Unavailable, what))
    })
}

async fn search(ctx: &Ctx, challenge: &Challenge) -> Result<Place, AuthError> {
    let Some(described) = described(ctx, challenge).await? else {
        tracing::debug!(server = %ctx.server, "the server does not describe itself");
        return undescribed(ctx, challenge).await;
    };
    let metadata = chosen(ctx, &described).await?;
    tracing::debug!(server = %ctx.server, issuer = said(&metadata.issuer), "the authorization server is found");
    Ok(Place {
        resource: Some(described.resource),
        scopes: described.scopes,
        wants_dpop: described.wants_dpop || challenge.dpop,
        metadata,
        kind: PlaceKind::Described,
    })
}

/// Fetches the server's metadata (AD-02). Returns `None` if there is none and the challenge named
/// none.
async fn described(ctx: &Ctx, challenge: &Challenge) -> Result<Option<Described>, AuthError> {
    let meant = match &ctx.auth.resource {
        Resource::Fixed(resource) => Some(resource.as_str()),
        Resource::Found | Resource::Off => None,
    };
    let named = challenge.resource_metadata.as_ref();
    let mut search = Search::default();
    for url in descriptions(&ctx.url, named) {
        let answer = told(ctx, &url, ctx.net.document(&url).await);
        let Some(document) = search.ask(answer)? else { continue };
        if Some(&url) == named || Described::is_one(&document) {
            return Described::parse(&document, &ctx.url, meant).map(Some);
        }
    }
    search.end()?;
    match named {
        None => Ok(None),
        Some(url) => {
            let what =
                format!("the server says that it is described at {}, but it is not", said(url.as_str()));
            Err(AuthError::new(AuthErrorKind::Untrusted, what))
        }
    }
}

/// Chooses among the authorization servers that the server lists (AD-04): the configured one, else
/// the first that publishes metadata. Invalid metadata ends the search, so that an attacker cannot
/// steer it to the next one.
async fn chosen(ctx: &Ctx, described: &Described) -> Result<Metadata, AuthError> {
    let listed = &described.authorization_servers;
    let candidates: Vec<&str> = match &ctx.auth.issuer {
        Some(issuer) if listed.is_empty() || listed.contains(issuer) => vec![issuer],
        Some(issuer) => {
            let named: Vec<String> = listed.iter().take(SERVERS).map(|it| said(it)).collect();
            let what = format!(
                "the configuration wants the authorization server {}, but {} names {}",
                said(issuer),
                ctx.server,
                named.join(", ")
            );
            return Err(AuthError::new(AuthErrorKind::Setup, what)
                .hint("correct `issuer` in its `auth`, or leave it out"));
        }
        None => listed.iter().take(SERVERS).map(String::as_str).collect(),
    };
    let Some(first) = candidates.first().copied() else {
        let what = format!("{} describes itself, but names no authorization server", ctx.server);
        return Err(AuthError::new(AuthErrorKind::Setup, what).hint("set `issuer` in its `auth`"));
    };
    let mut search = Search::default();
    for issuer in candidates {
        if let Some(found) = search.ask(issued(ctx, issuer).await)? {
            return Ok(found);
        }
    }
    search.end()?;
    let what = format!("the authorization server {} does not describe itself", said(first));
    Err(AuthError::new(AuthErrorKind::Untrusted, what))
}

/// Fetches the metadata of an issuer (AD-05, AD-06). Returns `None` if there is none.
async fn issued(ctx: &Ctx, issuer: &str) -> Result<Option<Metadata>, AuthError> {
    let mut search = Search::default();
    for url in issuer_descriptions(&metadata::issuer(issuer)?) {
        let answer = told(ctx, &url, ctx.net.document(&url).await);
        if let Some(document) = search.ask(answer)?.filter(Metadata::is_one) {
            return Metadata::parse(&document, &[issuer]).map(Some);
        }
    }
    search.end()?;
    Ok(None)
}

/// Discovery for a server without metadata: the configured issuer, or the server's own origin as in
/// 2025-03-26 (AD-07).
async fn undescribed(ctx: &Ctx, challenge: &Challenge) -> Result<Place, AuthError> {
    let origin = ctx.url.origin().ascii_serialization();
    let place =
        |metadata, kind| Place { resource: None, scopes: None, wants_dpop: challenge.dpop, metadata, kind };
    if let Some(issuer) = ctx.auth.issuer.as_ref().filter(|issuer| !is_same(issuer, &origin)) {
        let Some(metadata) = issued(ctx, issuer).await? else {
            let what =
                format!("the configured authorization server {} does not describe itself", said(issuer));
            return Err(
                AuthError::new(AuthErrorKind::Setup, what).hint("correct `issuer` in the server's `auth`")
            );
        };
        return Ok(place(metadata, PlaceKind::Described));
    }
    let mut url = ctx.url.clone();
    root(&mut url, "/.well-known/oauth-authorization-server");
    let version = HeaderValue::from_static("2025-03-26");
    let headers = HeaderMap::from_iter([(HeaderName::from_static("mcp-protocol-version"), version)]);
    match told(ctx, &url, ctx.net.document_with(&url, &headers).await)?.filter(Metadata::is_one) {
        // Nothing prescribes how the origin is spelled, so both forms are accepted.
        Some(document) => {
            let metadata = Metadata::parse(&document, &[&origin, &format!("{origin}/")])?;
            Ok(place(metadata, PlaceKind::Origin))
        }
        None => Ok(place(Metadata::by_default(&origin)?, PlaceKind::Default)),
    }
}

/// Logs a lookup. The query is left out, because it may hold a key.
fn told<T>(ctx: &Ctx, url: &Url, answer: Result<Option<T>, AuthError>) -> Result<Option<T>, AuthError> {
    let at = said(&format!("{}{}", url.origin().ascii_serialization(), url.path()));
    match &answer {
        Ok(found) => {
            tracing::debug!(server = %ctx.server, at, found = found.is_some(), "asked for a description");
        }
        Err(error) => tracing::debug!(server = %ctx.server, at, %error, "asked for a description"),
    }
    answer
}

/// Collects the results of consecutive lookups. Missing documents and temporary failures are passed
/// over, but after a temporary failure the search must not conclude that there is no document.
#[derive(Default)]
struct Search {
    failed: Option<AuthError>,
}

impl Search {
    fn ask<T>(&mut self, answer: Result<Option<T>, AuthError>) -> Result<Option<T>, AuthError> {
        match answer {
            Err(error) if error.is_transient() => {
                self.failed.get_or_insert(error);
                Ok(None)
            }
            answer => answer,
        }
    }

    fn end(self) -> Result<(), AuthError> {
        self.failed.map_or(Ok(()), Err)
    }
}

/// The addresses of a server's metadata, in order (AD-02).
fn descriptions(server: &Url, named: Option<&Url>) -> Vec<Url> {
    const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
    let mut below = server.clone();
    let query = server.query();
    root(&mut below, &format!("{WELL_KNOWN}{}", server.path().strip_suffix('/').unwrap_or(server.path())));
    below.set_query(query);
    let mut top = server.clone();
    root(&mut top, WELL_KNOWN);
    let mut urls: Vec<Url> = Vec::with_capacity(3);
    for url in named.cloned().into_iter().chain([below, top]) {
        if !urls.contains(&url) {
            urls.push(url);
        }
    }
    urls
}

/// The addresses of an issuer's metadata, in order (AD-05).
fn issuer_descriptions(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().strip_suffix('/').unwrap_or(issuer.path());
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    let at = |path: String| {
        let mut url = issuer.clone();
        root(&mut url, &path);
        url
    };
    paths.into_iter().map(at).collect()
}

/// Reduces a URL to its origin, and sets the path.
fn root(url: &mut Url, path: &str) {
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    // These only fail for URLs without a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
}

fn is_same(issuer: &str, origin: &str) -> bool {
    issuer.strip_suffix('/').unwrap_or(issuer) == origin
}

#[cfg(test)]
mod tests;
