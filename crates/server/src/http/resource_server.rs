//! [`ResourceServer`]: which access tokens open what, and what hosts without one are told (RFC 6750,
//! RFC 9728).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::uri::{Scheme, Uri};
use serde_json::json;
use tokio::time::timeout;

use super::bearer::BearerToken;
use super::refusal::Refusal;
use crate::audience::Audience;
use crate::token_verifier::{TokenRefusal, TokenVerifier};

/// Makes a listener an OAuth 2.1 resource server, which accepts access tokens of its hosts.
///
/// # Behavior
/// - Its metadata (RFC 9728) is published at `/.well-known/oauth-protected-resource`, and there with
///   the path of the resource or of an endpoint behind it.
/// - A request without a valid token is answered with 401, and one whose token lacks a scope with 403.
///   Both name the metadata, and all scopes that the request needs.
/// - A session is bound to the user whom the token was issued to, not to the token: it goes on when
///   the host has refreshed its token, and another user does not find it.
#[must_use]
#[derive(Clone, Debug)]
pub struct ResourceServer {
    verifier: Arc<dyn TokenVerifier>,
    resource: String,
    /// The path of the resource, without an idle slash.
    path: String,
    metadata_url: String,
    issuers: Vec<String>,
    scopes: Vec<String>,
    /// Scopes with the view that each opens, in the order in which they were added.
    view_scopes: Vec<(String, String)>,
}

/// Where the metadata of a resource is published (RFC 9728 §3).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// How long the verification of a token may take.
const VERIFICATION_TIMEOUT: Duration = Duration::from_secs(30);

impl ResourceServer {
    /// Accepts the tokens that `verifier` accepts. `resource` is the URL of the endpoint as hosts
    /// reach it, such as `https://gateway.example.com/mcp`, and the audience of the tokens. Hosts get
    /// tokens from one of `issuers`.
    ///
    /// # Panics
    /// If the resource is no `http` or `https` URL, or has a query, a fragment or a user name.
    pub fn new(
        resource: &str,
        issuers: impl IntoIterator<Item = impl Into<String>>,
        verifier: Arc<dyn TokenVerifier>,
    ) -> Self {
        let uri = Uri::try_from(resource).ok().filter(|uri| {
            let is_web = uri.scheme() == Some(&Scheme::HTTPS) || uri.scheme() == Some(&Scheme::HTTP);
            let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
            is_web && !has_user && uri.query().is_none() && !resource.contains(['#', '"', '\\'])
        });
        let uri = uri.unwrap_or_else(|| panic!("{resource:?} is no URL of a resource"));
        // The slash of `https://host/` is not part of the path (RFC 9728 §3.1).
        let path = if uri.path() == "/" { "" } else { uri.path() };
        let scheme = uri.scheme_str().unwrap_or_default();
        let authority = uri.authority().map_or("", http::uri::Authority::as_str);
        Self {
            metadata_url: format!("{scheme}://{authority}{WELL_KNOWN}{path}"),
            path: path.to_owned(),
            verifier,
            resource: resource.to_owned(),
            issuers: issuers.into_iter().map(Into::into).collect(),
            scopes: Vec::new(),
            view_scopes: Vec::new(),
        }
    }

    /// Requires these scopes for every request (default: none).
    ///
    /// # Panics
    /// If one is no scope (RFC 6749 §3.3), or is `offline_access`, which is no scope of a resource.
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = scopes.into_iter().map(|scope| checked_scope(scope.into())).collect();
        self
    }

    /// Has this scope open a view of the servers. With one such scope, a token opens the views of its
    /// scopes and nothing else; otherwise a token opens everything. The first scope of a view is the
    /// one that hosts are told to request.
    ///
    /// # Panics
    /// As [`ResourceServer::with_scopes`].
    pub fn with_view_scope(mut self, scope: impl Into<String>, view: impl Into<String>) -> Self {
        self.view_scopes.push((checked_scope(scope.into()), view.into()));
        self
    }

    /// Whether the metadata is published at a path. `is_endpoint` says whether a path is one of an
    /// endpoint.
    pub(crate) fn has_metadata_at(&self, path: &str, is_endpoint: impl FnOnce(&str) -> bool) -> bool {
        let Some(below) = path.strip_prefix(WELL_KNOWN) else { return false };
        let is_of_resource = below.strip_prefix(&self.path).is_some_and(|rest| rest.starts_with('/'));
        below.is_empty() || below == self.path || is_of_resource || is_endpoint(below)
    }

    /// The metadata.
    // GW-11
    pub(crate) fn metadata(&self) -> Bytes {
        let mut supported: Vec<&String> = Vec::new();
        for scope in self.scopes.iter().chain(self.view_scopes.iter().map(|(scope, _)| scope)) {
            if !supported.contains(&scope) {
                supported.push(scope);
            }
        }
        let mut document = json!({
            "resource": self.resource,
            "authorization_servers": self.issuers,
            "bearer_methods_supported": ["header"],
        });
        if !supported.is_empty() {
            document["scopes_supported"] = json!(supported);
        }
        document.to_string().into()
    }

    /// Decides who sends a request with this `Authorization` header to the path of this view.
    // GW-11
    pub(crate) async fn authorize(
        &self,
        views: &Views,
        view: Option<&str>,
        authorization: Option<&[u8]>,
    ) -> Result<Audience, Refusal> {
        let Some(token) = authorization.and_then(BearerToken::text_in) else {
            return Err(Refusal::Unauthorized(self.challenge(None, view)));
        };
        let verified = match std::str::from_utf8(token) {
            Ok(token) => timeout(VERIFICATION_TIMEOUT, self.verifier.verify(token)).await,
            Err(_) => Ok(Err(TokenRefusal::Invalid("the token is not text".to_owned()))),
        };
        let unavailable = || TokenRefusal::Unavailable("the token was not verified in time".to_owned());
        match verified.unwrap_or_else(|_| Err(unavailable())) {
            Ok(identity) => {
                let view = self.select_view(views, identity.scopes(), view)?;
                Ok(Audience::of_user(&identity, view))
            }
            Err(TokenRefusal::Invalid(reason)) => {
                tracing::info!(reason, "an access token was refused");
                Err(Refusal::InvalidToken(self.challenge(Some("invalid_token"), view)))
            }
            Err(TokenRefusal::Unavailable(reason)) => {
                tracing::info!(reason, "an access token could not be verified");
                Err(Refusal::UnverifiedToken)
            }
        }
    }

    /// Selects the view that a token with these scopes has at the path of `view`.
    fn select_view(
        &self,
        views: &Views,
        scopes: &BTreeSet<String>,
        view: Option<&str>,
    ) -> Result<Option<Arc<str>>, Refusal> {
        let insufficient = || Refusal::InsufficientScope(self.challenge(Some("insufficient_scope"), view));
        let find = |name: &str| views.get_key_value(name).map(|(name, _)| Arc::clone(name));
        if !self.scopes.iter().all(|scope| scopes.contains(scope)) {
            return Err(insufficient());
        }
        if self.view_scopes.is_empty() {
            return match view {
                None => Ok(None),
                Some(name) => find(name).map(Some).ok_or(Refusal::UnknownView),
            };
        }
        let granted = self.view_scopes.iter().filter(|(scope, _)| scopes.contains(scope));
        let granted: BTreeSet<&str> = granted.map(|(_, name)| name.as_str()).collect();
        match view {
            Some(name) if granted.contains(name) => find(name).map(Some).ok_or(Refusal::OtherView),
            Some(name) if self.view_scopes.iter().any(|(_, opened)| opened == name) => Err(insufficient()),
            // Whether there is such a view is none of its business.
            Some(_) => Err(Refusal::OtherView),
            None => match (granted.first(), granted.len()) {
                (Some(name), 1) => find(name).map(Some).ok_or(Refusal::OtherView),
                (Some(_), _) => Err(Refusal::SeveralViews),
                (None, _) => Err(insufficient()),
            },
        }
    }

    /// The challenge of a request to the path of this view, with all scopes that the request needs.
    fn challenge(&self, error: Option<&str>, view: Option<&str>) -> HeaderValue {
        let scope = self.needed_scopes(view).join(" ");
        let scope = (!scope.is_empty()).then_some(scope);
        let params =
            [("error", error), ("scope", scope.as_deref()), ("resource_metadata", Some(&*self.metadata_url))];
        let given = params.iter().filter_map(|(name, value)| Some(format!("{name}=\"{}\"", (*value)?)));
        let text = format!("Bearer {}", given.collect::<Vec<_>>().join(", "));
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("Bearer"))
    }

    /// The scopes that a request to the path of this view needs. Without a view in the path, the scopes
    /// of a token select one, so all of them are requested, and the issuer decides which it grants.
    fn needed_scopes(&self, view: Option<&str>) -> Vec<&str> {
        let mut opened: Vec<&str> = Vec::new();
        let mut needed: Vec<&str> = self.scopes.iter().map(String::as_str).collect();
        for (scope, name) in &self.view_scopes {
            if view.is_none_or(|view| view == name) && !opened.contains(&name.as_str()) {
                opened.push(name);
                if !needed.contains(&scope.as_str()) {
                    needed.push(scope);
                }
            }
        }
        needed
    }
}

/// The views of the servers by name, each with its local token.
type Views = BTreeMap<Arc<str>, Option<BearerToken>>;

fn checked_scope(scope: String) -> String {
    let fits = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    assert!(!scope.is_empty() && scope.bytes().all(fits), "{scope:?} is no scope");
    assert_ne!(scope, "offline_access", "it is no scope of a resource");
    scope
}

#[cfg(test)]
mod tests;
