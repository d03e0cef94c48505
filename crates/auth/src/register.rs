//! Owns which client we are at an authorization server (AR-01): the configured one, else a document that says who we
//! are, else one that we registered before, else one that we register now.

mod dynamic;
mod kept;

use bowline_config::{ClientSettings, Grant, TokenAuth};
use serde_json::{Value, json};
use url::Url;

use crate::client::{ClientOrigin, OAuthClient};
use crate::ctx::{App, Ctx};
use crate::error::{AuthError, AuthErrorKind, said};
use crate::method;
use crate::place::{Metadata, Place};

pub(crate) use kept::{forget, kept_port, prove, untie};

/// The client that we are at a place, for a login that ends at `redirect` and asks for `scopes`.
///
/// Dropped while a client is being registered, it may leave one that nobody uses.
pub(crate) async fn client_for(
    ctx: &Ctx,
    place: &Place,
    redirect: &Url,
    scopes: &[String],
) -> Result<OAuthClient, AuthError> {
    let found = find_or_register(ctx, place, redirect, scopes).await;
    let issuer = said(&place.metadata.issuer);
    match &found {
        Ok(client) => {
            tracing::debug!(server = %ctx.server, issuer, origin = ?client.origin, "this is who we are there");
        }
        Err(error) => tracing::debug!(server = %ctx.server, issuer, %error, "we are nobody there"),
    }
    found
}

async fn find_or_register(
    ctx: &Ctx,
    place: &Place,
    redirect: &Url,
    scopes: &[String],
) -> Result<OAuthClient, AuthError> {
    let metadata = &place.metadata;
    if let Some(settings) = &ctx.auth.client {
        return configured(ctx, metadata, settings).await;
    }
    let registers = match ctx.auth.grant {
        Grant::Person | Grant::Device => true,
        // Who acts for itself, or is vouched for, is known beforehand (AX-01, AX-04).
        Grant::ClientCredentials | Grant::Enterprise(_) | Grant::Workload(_) | Grant::Off => false,
    };
    if metadata.client_id_metadata_document_supported
        && !matches!(ctx.auth.grant, Grant::ClientCredentials)
        && let Some(url) = ctx.auth.client_metadata_url.as_ref().or(ctx.app.document.as_ref())
    {
        check_document_url(url)?;
        return Ok(client(metadata, url.to_string(), ClientOrigin::Document));
    }
    if registers {
        // What the server says that it knows is not asked for now, but may be, by the same client.
        let known = place.scopes.as_deref().unwrap_or_default();
        let wish = dynamic::Wish { redirect, scopes: &crate::scope::union(scopes, known) };
        if let Some(client) = kept::find(ctx, metadata, redirect, scopes).await? {
            return Ok(client);
        }
        if let Some(endpoint) = &metadata.registration_endpoint {
            let at = said(&format!("{}{}", endpoint.origin().ascii_serialization(), endpoint.path()));
            tracing::debug!(server = %ctx.server, at, redirect = %redirect, "registering a client");
            let registered = dynamic::register(ctx, place, endpoint, &wish).await?;
            return kept::keep(ctx, metadata, &wish, registered).await;
        }
    }
    let issuer = said(&metadata.issuer);
    Err(AuthError::new(
        AuthErrorKind::Setup,
        format!("{issuer} does not know us, and we cannot register there"),
    )
    .hint(by_hand(&issuer)))
}

/// A Client ID Metadata Document for a URL: who we are, to be served there as it is (AR-02, TK-05).
pub fn document(app: &App, url: &Url) -> Result<Value, AuthError> {
    check_document_url(url)?;
    let mut document = json!({
        "client_id": url.as_str(),
        "client_name": app.name,
        // Any port of this machine is the same to an authorization server (RFC 8252 §7.3).
        "redirect_uris": ["http://127.0.0.1/callback", "http://localhost/callback"],
        "grant_types": ["authorization_code", "refresh_token", DEVICE],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    });
    if let Some(uri) = &app.uri {
        document["client_uri"] = json!(uri.as_str());
    }
    Ok(document)
}

const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A client that somebody registered by hand. It is known to one issuer, and shown to no other (AR-04): to the
/// configured one, or else to the first one that gave tokens for it.
async fn configured(
    ctx: &Ctx,
    metadata: &Metadata,
    settings: &ClientSettings,
) -> Result<OAuthClient, AuthError> {
    let known_to = match &ctx.auth.issuer {
        Some(issuer) => Some(issuer.clone()),
        None => kept::tie(ctx, &settings.id).await?,
    };
    if let Some(known_to) = known_to.filter(|issuer| *issuer != metadata.issuer) {
        let (found, known_to) = (said(&metadata.issuer), said(&known_to));
        let what = format!(
            "the client {} is known to {known_to}, but {} now names {found}",
            said(&settings.id),
            ctx.server
        );
        let hint = "set `issuer` in its `auth` to the right one: the one that the client was registered at";
        return Err(AuthError::new(AuthErrorKind::Setup, what).hint(hint));
    }
    Ok(OAuthClient {
        secret: settings.secret.clone(),
        method: method::configured(settings, metadata.token_endpoint_auth_methods_supported.as_deref())?,
        key: settings.key.clone(),
        audience: settings.audience.clone(),
        ..client(metadata, settings.id.clone(), ClientOrigin::Configured)
    })
}

/// A client that has nothing but a name.
fn client(metadata: &Metadata, id: String, origin: ClientOrigin) -> OAuthClient {
    OAuthClient {
        id,
        secret: None,
        method: TokenAuth::None,
        key: None,
        audience: None,
        issuer: metadata.issuer.clone(),
        origin,
        redirect: None,
    }
}

/// Whether a URL can be a `client_id` (AR-02): `https`, with a path, and nothing that could be written in two ways.
/// It has no `.` or `..` in it: parsing has resolved them, as escapes too.
fn check_document_url(url: &Url) -> Result<(), AuthError> {
    let setup =
        |why: &str| Err(AuthError::new(AuthErrorKind::Setup, format!("{} {why}", said(url.as_str()))));
    if url.scheme() != "https" || !url.has_host() {
        return setup("cannot say who we are: it is not https");
    }
    if url.path() == "/" {
        return setup("cannot say who we are: it has no path");
    }
    if url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
        return setup("cannot say who we are: it has a fragment or credentials");
    }
    Ok(())
}

fn by_hand(issuer: &str) -> String {
    format!("register a client at {issuer} by hand, and set `client_id` in the server's `auth`")
}

#[cfg(test)]
mod tests;
