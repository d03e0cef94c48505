//! Owns discovery: which addresses are asked for the authorization server of a server, in which
//! order, and when to stop (AD-02 to AD-07).

use std::time::Duration;

use bowline_config::ResourceIndicator;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::timeout;
use url::Url;

use crate::challenge::Challenge;
use crate::context::AuthContext;
use crate::discovery::{Discovery, DiscoveryKind, Metadata};
use crate::error::{AuthError, AuthErrorKind, sanitize_url};
use crate::metadata::{self, ResourceMetadata};
use crate::resource;

/// How many of the authorization servers that a server lists are tried.
const MAX_AUTHORIZATION_SERVERS: usize = 4;
/// Timeout for the whole discovery.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Finds the authorization server that issues tokens for a server, starting from its challenge.
///
/// Nothing is cached, and only these two are contacted. Bounded in time; dropping the future
/// cancels it.
pub(crate) async fn locate(ctx: &AuthContext, challenge: &Challenge) -> Result<Discovery, AuthError> {
    locate_within(DISCOVERY_TIMEOUT, ctx, challenge).await
}

async fn locate_within(
    patience: Duration,
    ctx: &AuthContext,
    challenge: &Challenge,
) -> Result<Discovery, AuthError> {
    timeout(patience, locate_unbounded(ctx, challenge)).await.unwrap_or_else(|_| {
        let what = format!("finding the authorization server of {} took too long", ctx.server);
        Err(AuthError::new(AuthErrorKind::Unavailable, what))
    })
}

async fn locate_unbounded(ctx: &AuthContext, challenge: &Challenge) -> Result<Discovery, AuthError> {
    let described = find_resource_metadata(ctx, challenge).await?;
    locate_issuer(ctx, challenge, described).await
}

/// Finds the authorization server, starting from the server's metadata if it publishes any.
pub(crate) async fn locate_issuer(
    ctx: &AuthContext,
    challenge: &Challenge,
    described: Option<ResourceMetadata>,
) -> Result<Discovery, AuthError> {
    let Some(described) = described else {
        tracing::debug!(server = %ctx.server, "the server publishes no metadata");
        return discover_by_origin(ctx, challenge).await;
    };
    let metadata = choose_authorization_server(ctx, &described).await?;
    tracing::debug!(server = %ctx.server, issuer = sanitize_url(&metadata.issuer), "the authorization server is found");
    Ok(Discovery {
        resource: Some(described.resource),
        scopes: described.scopes,
        wants_dpop: described.wants_dpop || challenge.dpop,
        metadata,
        kind: DiscoveryKind::Described,
    })
}

/// Fetches the server's metadata (AD-02). Returns `None` if there is none and the challenge named
/// none.
pub(crate) async fn find_resource_metadata(
    ctx: &AuthContext,
    challenge: &Challenge,
) -> Result<Option<ResourceMetadata>, AuthError> {
    let meant = match &ctx.auth.resource {
        ResourceIndicator::Fixed(resource) => Some(resource.as_str()),
        ResourceIndicator::Discovered | ResourceIndicator::Off => None,
    };
    let named = challenge.resource_metadata.as_ref();
    let mut search = MetadataSearch::default();
    for url in resource_metadata_urls(&ctx.url, named) {
        let answer = log_lookup(ctx, &url, ctx.http_client.get_document(&url).await);
        let Some(document) = search.pass_over_transient(answer)? else { continue };
        if Some(&url) == named || ResourceMetadata::is_resource_metadata(&document) {
            return ResourceMetadata::parse(&document, &ctx.url, meant).map(Some);
        }
    }
    search.finish()?;
    match named {
        None => Ok(None),
        Some(url) => {
            let what = format!(
                "the server names {} for its metadata, but there is none",
                sanitize_url(url.as_str())
            );
            Err(AuthError::new(AuthErrorKind::Untrusted, what))
        }
    }
}

/// Chooses among the authorization servers that the server lists (AD-04): the configured one, else
/// the first that publishes metadata. Invalid metadata ends the search, so that an attacker cannot
/// steer it to the next one.
async fn choose_authorization_server(
    ctx: &AuthContext,
    described: &ResourceMetadata,
) -> Result<Metadata, AuthError> {
    let listed = &described.authorization_servers;
    let candidates: Vec<&str> = match &ctx.auth.issuer {
        Some(issuer) if listed.is_empty() || listed.contains(issuer) => vec![issuer],
        Some(issuer) => {
            let named: Vec<String> =
                listed.iter().take(MAX_AUTHORIZATION_SERVERS).map(|it| sanitize_url(it)).collect();
            let what = format!(
                "the configuration wants the authorization server {}, but {} names {}",
                sanitize_url(issuer),
                ctx.server,
                named.join(", ")
            );
            return Err(AuthError::new(AuthErrorKind::Setup, what)
                .hint("correct `issuer` in its `auth`, or leave it out"));
        }
        None => listed.iter().take(MAX_AUTHORIZATION_SERVERS).map(String::as_str).collect(),
    };
    let Some(first) = candidates.first().copied() else {
        let what = format!("{} publishes metadata, but names no authorization server", ctx.server);
        return Err(AuthError::new(AuthErrorKind::Setup, what).hint("set `issuer` in its `auth`"));
    };
    let mut search = MetadataSearch::default();
    for issuer in candidates {
        if let Some(found) = search.pass_over_transient(find_issuer_metadata(ctx, issuer).await)? {
            return Ok(found);
        }
    }
    search.finish()?;
    let what = format!("the authorization server {} publishes no metadata", sanitize_url(first));
    Err(AuthError::new(AuthErrorKind::Untrusted, what))
}

/// Fetches the metadata of an issuer (AD-05, AD-06). Returns `None` if there is none.
async fn find_issuer_metadata(ctx: &AuthContext, issuer: &str) -> Result<Option<Metadata>, AuthError> {
    let mut search = MetadataSearch::default();
    for url in issuer_metadata_urls(&metadata::parse_issuer(issuer)?) {
        let answer = log_lookup(ctx, &url, ctx.http_client.get_document(&url).await);
        if let Some(document) = search.pass_over_transient(answer)?.filter(Metadata::is_issuer_metadata) {
            return Metadata::parse(&document, &[issuer]).map(Some);
        }
    }
    search.finish()?;
    Ok(None)
}

/// Discovery for a server without metadata: the configured issuer, or the server's own origin as in
/// 2025-03-26 (AD-07).
async fn discover_by_origin(ctx: &AuthContext, challenge: &Challenge) -> Result<Discovery, AuthError> {
    let origin = ctx.url.origin().ascii_serialization();
    let discovery = |metadata, kind| Discovery {
        resource: None,
        scopes: None,
        wants_dpop: challenge.dpop,
        metadata,
        kind,
    };
    if let Some(issuer) = ctx.auth.issuer.as_ref().filter(|issuer| !is_same_issuer(issuer, &origin)) {
        let Some(metadata) = find_issuer_metadata(ctx, issuer).await? else {
            let what =
                format!("the configured authorization server {} publishes no metadata", sanitize_url(issuer));
            return Err(
                AuthError::new(AuthErrorKind::Setup, what).hint("correct `issuer` in the server's `auth`")
            );
        };
        return Ok(discovery(metadata, DiscoveryKind::Described));
    }
    let url = at_origin(&ctx.url, "/.well-known/oauth-authorization-server");
    let version = HeaderValue::from_static("2025-03-26");
    let headers = HeaderMap::from_iter([(HeaderName::from_static("mcp-protocol-version"), version)]);
    match log_lookup(ctx, &url, ctx.http_client.get_document_with_headers(&url, &headers).await)?
        .filter(Metadata::is_issuer_metadata)
    {
        // Nothing prescribes how the origin is spelled, so both forms are accepted.
        Some(document) => {
            let metadata = Metadata::parse(&document, &[&origin, &format!("{origin}/")])?;
            Ok(discovery(metadata, DiscoveryKind::Origin))
        }
        None => Ok(discovery(Metadata::with_default_endpoints(&origin)?, DiscoveryKind::DefaultEndpoints)),
    }
}

/// Logs a lookup, without what may be a key in its URL.
fn log_lookup<T>(
    ctx: &AuthContext,
    url: &Url,
    answer: Result<Option<T>, AuthError>,
) -> Result<Option<T>, AuthError> {
    let at = sanitize_url(url.as_str());
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
struct MetadataSearch {
    failed: Option<AuthError>,
}

impl MetadataSearch {
    fn pass_over_transient<T>(
        &mut self,
        answer: Result<Option<T>, AuthError>,
    ) -> Result<Option<T>, AuthError> {
        match answer {
            Err(error) if error.is_transient() => {
                self.failed.get_or_insert(error);
                Ok(None)
            }
            answer => answer,
        }
    }

    fn finish(self) -> Result<(), AuthError> {
        self.failed.map_or(Ok(()), Err)
    }
}

/// The addresses of a server's metadata, in order (AD-02).
fn resource_metadata_urls(server: &Url, named: Option<&Url>) -> Vec<Url> {
    const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
    let path = server.path().strip_suffix('/').unwrap_or(server.path());
    let mut below = at_origin(server, &format!("{WELL_KNOWN}{path}"));
    below.set_query(server.query());
    let top = at_origin(server, WELL_KNOWN);
    let mut urls: Vec<Url> = Vec::with_capacity(3);
    for url in named.cloned().into_iter().chain([below, top]) {
        if !urls.contains(&url) {
            urls.push(url);
        }
    }
    urls
}

/// The addresses of an issuer's metadata, in order (AD-05).
pub(crate) fn issuer_metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().strip_suffix('/').unwrap_or(issuer.path());
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    paths.iter().map(|path| at_origin(issuer, path)).collect()
}

/// The URL of a path at the origin of another URL.
fn at_origin(url: &Url, path: &str) -> Url {
    let mut url = resource::without_secrets(url.clone());
    url.set_path(path);
    url
}

fn is_same_issuer(issuer: &str, origin: &str) -> bool {
    issuer.strip_suffix('/').unwrap_or(issuer) == origin
}

#[cfg(test)]
mod tests;
