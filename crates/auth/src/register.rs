//! Owns which OAuth client is used at an authorization server (AR-01): the configured one, else a
//! Client ID Metadata Document, else a client registered earlier, else one that is registered now.

mod dynamic;
mod stored_clients;

use bowline_config::{ClientSettings, Grant, TokenAuth};
use serde_json::{Value, json};
use url::Url;

use crate::client::{ClientOrigin, OAuthClient};
use crate::client_auth_method;
use crate::context::{App, AuthContext};
use crate::discovery::{Discovery, Metadata};
use crate::error::{AuthError, AuthErrorKind, sanitize, sanitize_url};

pub(crate) use stored_clients::{confirm_client, forget_client, stored_port, unbind_client};

/// Returns the client for a login with this redirect and these scopes.
///
/// Dropping the future during a registration may leave an unused client at the authorization
/// server.
pub(crate) async fn client_for(
    ctx: &AuthContext,
    discovery: &Discovery,
    redirect: &Url,
    scopes: &[String],
) -> Result<OAuthClient, AuthError> {
    let found = find_or_register(ctx, discovery, redirect, scopes).await;
    let issuer = sanitize_url(&discovery.metadata.issuer);
    match &found {
        Ok(client) => {
            tracing::debug!(server = %ctx.server, issuer, origin = ?client.origin, "the client is known there");
        }
        Err(error) => tracing::debug!(server = %ctx.server, issuer, %error, "no client is known there"),
    }
    found
}

async fn find_or_register(
    ctx: &AuthContext,
    discovery: &Discovery,
    redirect: &Url,
    scopes: &[String],
) -> Result<OAuthClient, AuthError> {
    let metadata = &discovery.metadata;
    if let Some(settings) = &ctx.auth.client {
        return configured_client(ctx, metadata, settings).await;
    }
    let registers = match ctx.auth.grant {
        Grant::Person | Grant::Device => true,
        // AX-01, AX-04: clients that act for themselves or for an organization are known
        // beforehand.
        Grant::ClientCredentials | Grant::Enterprise(_) | Grant::Workload(_) | Grant::Off => false,
    };
    if metadata.client_id_metadata_document_supported
        && !matches!(ctx.auth.grant, Grant::ClientCredentials)
        && let Some(url) = ctx.auth.client_metadata_url.as_ref().or(ctx.app.metadata_url.as_ref())
    {
        check_document_url(url)?;
        return Ok(bare_client(metadata, url.to_string(), ClientOrigin::Document));
    }
    if registers {
        // Register the server's other scopes too: a later login with the same client may request
        // them.
        let known = discovery.scopes.as_deref().unwrap_or_default();
        let wish = dynamic::RegistrationRequest { redirect, scopes: &crate::scope::union(scopes, known) };
        if let Some(client) = stored_clients::find_client(ctx, metadata, redirect, scopes).await? {
            return Ok(client);
        }
        if let Some(endpoint) = &metadata.registration_endpoint {
            let at = sanitize_url(endpoint.as_str());
            tracing::debug!(server = %ctx.server, at, redirect = %redirect, "registering a client");
            let registered = dynamic::register(ctx, discovery, endpoint, &wish).await?;
            return stored_clients::save_client(ctx, metadata, &wish, registered).await;
        }
    }
    Err(no_client_error(metadata))
}

fn no_client_error(metadata: &Metadata) -> AuthError {
    let issuer = sanitize_url(&metadata.issuer);
    let what = format!("{issuer} does not know this client and offers no registration");
    AuthError::new(AuthErrorKind::Setup, what).hint(register_by_hand_hint(&issuer))
}

/// Says which client a login would use, without registering one. Fails as the login would if there
/// can be none.
pub(crate) async fn expected_client(
    ctx: &AuthContext,
    metadata: &Metadata,
) -> Result<ClientOrigin, AuthError> {
    if let Some(settings) = &ctx.auth.client {
        return configured_client(ctx, metadata, settings).await.map(|client| client.origin);
    }
    if metadata.client_id_metadata_document_supported
        && !matches!(ctx.auth.grant, Grant::ClientCredentials)
        && let Some(url) = ctx.auth.client_metadata_url.as_ref().or(ctx.app.metadata_url.as_ref())
    {
        return check_document_url(url).map(|()| ClientOrigin::Document);
    }
    let registers = matches!(ctx.auth.grant, Grant::Person | Grant::Device);
    if registers && metadata.registration_endpoint.is_some() {
        return Ok(ClientOrigin::Registered);
    }
    Err(no_client_error(metadata))
}

/// Creates a Client ID Metadata Document, to be served at this URL.
// AR-02, TK-05
pub fn client_metadata_document(app: &App, url: &Url) -> Result<Value, AuthError> {
    check_document_url(url)?;
    let mut document = json!({
        "client_id": url.as_str(),
        "client_name": app.name,
        // Authorization servers ignore the port of loopback redirects (RFC 8252 §7.3).
        "redirect_uris": ["http://127.0.0.1/callback", "http://localhost/callback"],
        "grant_types": ["authorization_code", "refresh_token", DEVICE_CODE_GRANT],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    });
    if let Some(uri) = &app.uri {
        document["client_uri"] = json!(uri.as_str());
    }
    Ok(document)
}

const DEVICE_CODE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// Returns the configured client. It belongs to one issuer and is never sent to another (AR-04):
/// the configured issuer, or else the first that issued tokens for it.
async fn configured_client(
    ctx: &AuthContext,
    metadata: &Metadata,
    settings: &ClientSettings,
) -> Result<OAuthClient, AuthError> {
    let known_to = match &ctx.auth.issuer {
        Some(issuer) => Some(issuer.clone()),
        None => stored_clients::bound_issuer(ctx, &settings.id).await?,
    };
    if let Some(known_to) = known_to.filter(|issuer| *issuer != metadata.issuer) {
        let (found, known_to) = (sanitize_url(&metadata.issuer), sanitize_url(&known_to));
        let what = format!(
            "the client {} is registered at {known_to}, but {} now names {found}",
            sanitize(&settings.id),
            ctx.server
        );
        let hint = "set `issuer` in its `auth` to the authorization server that the client was registered at";
        return Err(AuthError::new(AuthErrorKind::Setup, what).hint(hint));
    }
    Ok(OAuthClient {
        secret: settings.secret.clone(),
        method: client_auth_method::for_configured_client(
            settings,
            metadata.token_endpoint_auth_methods_supported.as_deref(),
        )?,
        key: settings.key.clone(),
        audience: settings.audience.clone(),
        ..bare_client(metadata, settings.id.clone(), ClientOrigin::Configured)
    })
}

/// A public client with nothing but an id.
fn bare_client(metadata: &Metadata, id: String, origin: ClientOrigin) -> OAuthClient {
    OAuthClient {
        id,
        secret: None,
        method: TokenAuth::None,
        key: None,
        audience: None,
        issuer: metadata.issuer.clone(),
        origin,
        registered_redirect: None,
    }
}

/// Fails if a URL cannot be a `client_id` (AR-02): it must be `https` with a path, and have only
/// one spelling. It contains no `.` or `..`, because parsing has resolved them, escaped ones
/// included.
fn check_document_url(url: &Url) -> Result<(), AuthError> {
    let setup = |why: &str| {
        Err(AuthError::new(AuthErrorKind::Setup, format!("{} {why}", sanitize_url(url.as_str()))))
    };
    if url.scheme() != "https" || !url.has_host() {
        return setup("cannot identify this client: it is not https");
    }
    if url.path() == "/" {
        return setup("cannot identify this client: it has no path");
    }
    if url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
        return setup("cannot identify this client: it has a fragment or credentials");
    }
    Ok(())
}

fn register_by_hand_hint(issuer: &str) -> String {
    format!("register a client at {issuer} by hand, and set `client_id` in the server's `auth`")
}

#[cfg(test)]
mod tests;
