//! Validates the metadata documents of servers and authorization servers.

use bowline_config::is_loopback;
use serde_json::Value;
use url::Url;

use crate::challenge::is_scope;
use crate::discovery::Metadata;
use crate::error::{AuthError, AuthErrorKind, sanitize_url};
use crate::resource;

/// Protected resource metadata (RFC 9728), checked to be about the server that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceMetadata {
    /// The resource, verbatim.
    pub(crate) resource: String,
    /// The issuers, verbatim.
    pub(crate) authorization_servers: Vec<String>,
    pub(crate) scopes: Option<Vec<String>>,
    pub(crate) wants_dpop: bool,
}

/// The longest URL, in bytes, and the longest list that are accepted.
const MAX_URL_LENGTH: usize = 2 * 1024;
const MAX_LIST_LENGTH: usize = 512;

impl ResourceMetadata {
    /// Whether a document at a guessed address is resource metadata at all: many sites answer every
    /// path.
    pub(crate) fn is_resource_metadata(document: &Value) -> bool {
        document.get("resource").is_some() || document.get("authorization_servers").is_some()
    }

    /// Parses a document that is said to describe `server`, or the configured resource `meant`
    /// (AD-03).
    pub(crate) fn parse(document: &Value, server: &Url, meant: Option<&str>) -> Result<Self, AuthError> {
        let Some(resource) =
            document.get("resource").and_then(Value::as_str).filter(|it| it.len() <= MAX_URL_LENGTH)
        else {
            return Err(untrusted("the server's metadata has no `resource`"));
        };
        if !resource::covers(resource, server) && meant != Some(resource) {
            let what = format!(
                "the metadata of {} is about {}, which is another server",
                sanitize_url(server.as_str()),
                sanitize_url(resource)
            );
            return Err(untrusted(what).hint("if it is the same server, use that address"));
        }
        let flag = |name| document.get(name).is_some_and(is_true);
        Ok(Self {
            resource: resource.to_owned(),
            authorization_servers: strings(document, "authorization_servers").unwrap_or_default(),
            scopes: scopes(document),
            wants_dpop: flag("dpop_bound_access_tokens_required")
                || strings(document, "dpop_signing_alg_values_supported")
                    .is_some_and(|algs| !algs.is_empty()),
        })
    }
}

impl Metadata {
    /// Whether a document is authorization server metadata at all.
    pub(crate) fn is_issuer_metadata(document: &Value) -> bool {
        ["issuer", "authorization_endpoint", "token_endpoint"].iter().any(|name| document.get(name).is_some())
    }

    /// Parses a document found at the address of one of `issuers`, which are the spellings of that
    /// address. Its `issuer` must equal one of them exactly (AD-06).
    pub(crate) fn parse(document: &Value, issuers: &[&str]) -> Result<Self, AuthError> {
        let asked = sanitize_url(issuers.first().copied().unwrap_or_default());
        let issuer = match document.get("issuer").and_then(Value::as_str) {
            Some(issuer) if issuers.contains(&issuer) => issuer.to_owned(),
            Some(other) => {
                let what = format!(
                    "the metadata of {asked} names the issuer {}, so it is not used",
                    sanitize_url(other)
                );
                return Err(untrusted(what));
            }
            None => return Err(untrusted(format!("the metadata of {asked} has no `issuer`"))),
        };
        let endpoint = |name: &str| match document.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                parse_endpoint(value.as_str().unwrap_or_default(), &format!("{name} of {asked}")).map(Some)
            }
        };
        let list = |name| strings(document, name);
        let flag = |name| document.get(name).is_some_and(is_true);
        Ok(Self {
            authorization_endpoint: endpoint("authorization_endpoint")?,
            token_endpoint: endpoint("token_endpoint")?,
            registration_endpoint: endpoint("registration_endpoint")?,
            device_authorization_endpoint: endpoint("device_authorization_endpoint")?,
            revocation_endpoint: endpoint("revocation_endpoint")?,
            scopes_supported: scopes(document),
            code_challenge_methods_supported: list("code_challenge_methods_supported"),
            token_endpoint_auth_methods_supported: list("token_endpoint_auth_methods_supported"),
            token_endpoint_auth_signing_alg_values_supported: list(
                "token_endpoint_auth_signing_alg_values_supported",
            ),
            grant_types_supported: list("grant_types_supported"),
            grant_profiles_supported: list("authorization_grant_profiles_supported"),
            dpop_signing_alg_values_supported: list("dpop_signing_alg_values_supported"),
            client_id_metadata_document_supported: flag("client_id_metadata_document_supported"),
            authorization_response_iss_parameter_supported: flag(
                "authorization_response_iss_parameter_supported",
            ),
            issuer,
        })
    }

    /// Assumes the default endpoints at an origin without metadata (AD-07).
    pub(crate) fn with_default_endpoints(origin: &str) -> Result<Self, AuthError> {
        let endpoint = |name: &str| {
            parse_endpoint(&format!("{origin}/{name}"), &format!("the address of {origin}")).map(Some)
        };
        Ok(Self {
            issuer: origin.to_owned(),
            authorization_endpoint: endpoint("authorize")?,
            token_endpoint: endpoint("token")?,
            registration_endpoint: endpoint("register")?,
            ..Self::default()
        })
    }
}

/// Parses the URL of an endpoint: `https`, or loopback (AF-07).
pub(crate) fn parse_endpoint(text: &str, whose: &str) -> Result<Url, AuthError> {
    let unusable =
        |why: &str| Err(untrusted(format!("{whose} cannot be used: {} {why}", sanitize_url(text))));
    let url = match Url::parse(text) {
        Ok(url) if text.len() <= MAX_URL_LENGTH && url.has_host() => url,
        _ => return unusable("is not a valid URL"),
    };
    if !is_https_or_loopback(&url) {
        return unusable("is neither https nor on this machine");
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return unusable("has a fragment or credentials, which are not allowed");
    }
    Ok(url)
}

/// Parses an issuer: a URL as of an endpoint, without a query (RFC 8414 §2).
pub(crate) fn parse_issuer(text: &str) -> Result<Url, AuthError> {
    let url = parse_endpoint(text, "the authorization server")?;
    if url.query().is_some() || text.contains(|c: char| c.is_ascii_control() || c.is_whitespace()) {
        return Err(untrusted(format!(
            "the authorization server cannot be used: {} has a query or a space, which an issuer may not have",
            sanitize_url(text)
        )));
    }
    Ok(url)
}

/// Whether a URL is `https`, or on this machine: others are neither requested nor shown to a person
/// (AF-07, SE-03).
pub(crate) fn is_https_or_loopback(url: &Url) -> bool {
    match url.scheme() {
        "https" => url.has_host(),
        "http" => is_loopback(url),
        _ => false,
    }
}

/// A list of strings. Other values are dropped; a single string is split at spaces.
fn strings(document: &Value, name: &str) -> Option<Vec<String>> {
    let fits = |text: &&str| !text.is_empty() && text.len() <= MAX_URL_LENGTH;
    match document.get(name)? {
        Value::Array(list) => Some(
            list.iter()
                .filter_map(Value::as_str)
                .filter(fits)
                .take(MAX_LIST_LENGTH)
                .map(str::to_owned)
                .collect(),
        ),
        Value::String(text) => Some(
            text.split_ascii_whitespace().filter(fits).take(MAX_LIST_LENGTH).map(str::to_owned).collect(),
        ),
        _ => None,
    }
}

fn scopes(document: &Value) -> Option<Vec<String>> {
    let mut list = strings(document, "scopes_supported")?;
    list.retain(|scope| is_scope(scope));
    Some(list).filter(|list| !list.is_empty())
}

fn is_true(value: &Value) -> bool {
    value.as_bool().unwrap_or_else(|| value.as_str() == Some("true"))
}

fn untrusted(what: impl Into<String>) -> AuthError {
    AuthError::new(AuthErrorKind::Untrusted, what)
}

#[cfg(test)]
mod tests;
