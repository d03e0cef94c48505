//! Which OAuth access tokens `bowline serve` accepts over HTTP.

use std::sync::Arc;

use bowline::config::OAuthResource;
use bowline_gateway::{HttpSettings, JwtVerifier, ResourceServer};
use url::Url;

use crate::failure::{Failure, Outcome};

/// Accepts these tokens, and requests to the host of their resource.
pub(super) fn accept_tokens(http: HttpSettings, oauth: &OAuthResource) -> Outcome<HttpSettings> {
    let verifier = JwtVerifier::new(&oauth.resource, &oauth.issuers)
        .map_err(|error| Failure::usage(format!("[serve.oauth] cannot be used: {error}")))?;
    let server =
        ResourceServer::new(&oauth.resource, &oauth.issuers, Arc::new(verifier)).with_scopes(&oauth.scopes);
    let server =
        oauth.view_scopes.iter().fold(server, |server, (scope, view)| server.with_view_scope(scope, view));
    let host = Url::parse(&oauth.resource).ok().and_then(|url| Some(url.host_str()?.to_owned()));
    Ok(http.with_allowed_hosts(host).with_resource_server(server))
}

/// Says where hosts get their tokens.
pub(super) fn describe(oauth: &OAuthResource) -> String {
    format!("hosts can use tokens of {} for {}", oauth.issuers.join(" and "), oauth.resource)
}
