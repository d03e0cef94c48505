//! Owns how a form is sent to an authorization server, and what an error response means.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bowline_config::Secret;
use bowline_transport::Redactor;
use bowline_transport::http::SendFence;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, Response};
use serde_json::{Map, Value};
use url::{Url, form_urlencoded};

use crate::context::AuthContext;
use crate::dpop;
use crate::error::{AuthError, AuthErrorKind, sanitize, sanitize_url};

/// A form with its `Authorization` header and fence. `Debug` shows the field names only.
#[derive(Clone, Default)]
pub(crate) struct PostForm {
    fields: Vec<(&'static str, String)>,
    authorization: Option<Secret>,
    fence: Option<SendFence>,
}

impl PostForm {
    /// Adds a field.
    pub(crate) fn add(&mut self, name: &'static str, value: &str) {
        self.fields.push((name, value.to_owned()));
    }

    /// Replaces the field of this name.
    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.fields.retain(|(other, _)| *other != name);
        self.add(name, value);
    }

    /// Sets the `Authorization` header.
    pub(crate) fn authorize(&mut self, value: Secret) {
        self.authorization = Some(value);
    }

    /// Holds the form back until the fence opens.
    pub(super) fn send_after(&mut self, fence: &SendFence) {
        self.fence = Some(fence.clone());
    }

    /// Redacts our secrets, should the authorization server repeat what it received.
    fn redactor(&self) -> Redactor {
        let fields = self.fields.iter().filter(|(name, _)| SECRET_FIELDS.contains(name));
        let mut secrets: Vec<String> = fields.map(|(_, value)| value.clone()).collect();
        if let Some(header) = &self.authorization {
            let shown = Redactor::secret_in_header(header.expose());
            secrets.push(shown.to_owned());
            // For `Basic`, also the encoded secret after the client id.
            if let Ok(pair) = BASE64_STANDARD.decode(shown)
                && let Some((_, secret)) = String::from_utf8_lossy(&pair).split_once(':')
            {
                secrets.push(secret.to_owned());
            }
        }
        Redactor::new(secrets)
    }

    fn request(&self, url: &Url) -> Result<Request<Bytes>, AuthError> {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(&self.fields);
        let mut request = Request::new(Bytes::from(body.finish()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = url.as_str().parse().map_err(|_| {
            let what = format!("{} cannot be used: it is not a valid URL", sanitize_url(url.as_str()));
            AuthError::new(AuthErrorKind::Untrusted, what)
        })?;
        if let Some(fence) = &self.fence {
            request.extensions_mut().insert(fence.clone());
        }
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        if let Some(value) = &self.authorization {
            headers.insert(AUTHORIZATION, sensitive_header(value.expose()));
        }
        Ok(request)
    }
}

/// Fields that authenticate, or can be exchanged for tokens.
const SECRET_FIELDS: [&str; 8] = [
    "assertion",
    "client_assertion",
    "client_secret",
    "code",
    "code_verifier",
    "device_code",
    "refresh_token",
    "subject_token",
];

/// A header value that `Debug` does not print.
fn sensitive_header(value: &str) -> HeaderValue {
    let mut value = HeaderValue::from_str(value).expect("base64 and tokens are visible ASCII");
    value.set_sensitive(true);
    value
}

/// A failed token request.
#[derive(Debug)]
pub(crate) struct TokenEndpointError {
    pub(super) error: AuthError,
    /// The `error` code of the response (RFC 6749 §5.2).
    pub(super) code: Option<String>,
}

impl TokenEndpointError {
    pub(crate) fn has_code(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    pub(crate) fn into_error(self) -> AuthError {
        self.error
    }
}

impl From<AuthError> for TokenEndpointError {
    fn from(error: AuthError) -> Self {
        Self { error, code: None }
    }
}

/// Posts a form to an endpoint from the metadata, and returns the JSON object of the response.
///
/// With a key, a DPoP proof is added. If its nonce was missing, the form is sent once more with the
/// nonce (AX-07).
pub(super) async fn post(
    ctx: &AuthContext,
    url: &Url,
    form: &PostForm,
    dpop: Option<&dpop::Key>,
) -> Result<Map<String, Value>, TokenEndpointError> {
    let mut again = true;
    loop {
        let mut request = form.request(url)?;
        if let Some(key) = dpop {
            let proof = key.proof(&Method::POST, url, None, key.nonces().get(url).as_deref());
            request.headers_mut().insert(HeaderName::from_static("dpop"), sensitive_header(&proof));
        }
        let response = ctx.http_client.request_discovered(request).await?;
        let new_nonce = dpop.is_some_and(|key| key.nonces().learn(url, response.headers()));
        let outcome = parse_response(&response, url, form);
        match &outcome {
            Err(refusal) if refusal.has_code("use_dpop_nonce") && new_nonce && again => again = false,
            _ => return outcome,
        }
    }
}

/// Posts a form to a configured endpoint, without a DPoP proof.
pub(super) async fn post_to_configured(
    ctx: &AuthContext,
    url: &Url,
    form: &PostForm,
) -> Result<Map<String, Value>, TokenEndpointError> {
    let response = ctx.http_client.request_configured(form.request(url)?).await?;
    parse_response(&response, url, form)
}

/// Posts a form whose successful response has no meaningful body.
pub(super) async fn post_ignoring_body(
    ctx: &AuthContext,
    url: &Url,
    form: &PostForm,
) -> Result<(), TokenEndpointError> {
    let response = ctx.http_client.request_discovered(form.request(url)?).await?;
    if response.status().is_success() { Ok(()) } else { parse_response(&response, url, form).map(drop) }
}

/// Parses the response to a form: a JSON object without `error`, or the reason why not.
pub(super) fn parse_response(
    response: &Response<Bytes>,
    url: &Url,
    form: &PostForm,
) -> Result<Map<String, Value>, TokenEndpointError> {
    let at = sanitize_url(url.as_str());
    let status = response.status().as_u16();
    let failed = |kind, what: String| TokenEndpointError { error: AuthError::new(kind, what), code: None };
    // Whatever the body says: a later attempt may succeed, and this response must not cost the
    // login.
    if status >= 500 || matches!(status, 408 | 425 | 429) {
        return Err(failed(AuthErrorKind::Unavailable, format!("{at} answered with status {status}")));
    }
    if (300..400).contains(&status) {
        return Err(failed(
            AuthErrorKind::Untrusted,
            format!("{at} redirects to another address (status {status})"),
        ));
    }
    let body = parse_object(response);
    if let Some(refusal) = body.as_ref().and_then(|body| parse_error(body, &at, status, form)) {
        return Err(refusal);
    }
    match body {
        Some(body) if status < 300 => Ok(body),
        // A page from an intermediary, such as a captive portal.
        None if status < 300 && !response.body().is_empty() => {
            Err(failed(AuthErrorKind::Unavailable, format!("{at} answered with something other than JSON")))
        }
        None if status < 300 => Ok(Map::new()),
        _ => Err(failed(AuthErrorKind::Refused, format!("{at} answered with status {status} and no reason"))),
    }
}

/// The object in a response. A form counts as one, because some servers reply that way regardless
/// of `Accept`.
fn parse_object(response: &Response<Bytes>) -> Option<Map<String, Value>> {
    let body = response.body().strip_prefix(b"\xef\xbb\xbf").unwrap_or(response.body());
    if let Ok(object) = serde_json::from_slice(body) {
        return Some(object);
    }
    let essence = response.headers().get(CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim();
    if !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return None;
    }
    let pairs = form_urlencoded::parse(body);
    Some(pairs.map(|(name, value)| (name.into_owned(), Value::String(value.into_owned()))).collect())
}

/// Reads the `error` of a response, whatever its status: some servers send 200 for everything.
fn parse_error(
    body: &Map<String, Value>,
    at: &str,
    status: u16,
    form: &PostForm,
) -> Option<TokenEndpointError> {
    let code = match body.get("error")? {
        Value::Null | Value::Bool(false) => return None,
        Value::String(code) => code.as_str(),
        Value::Object(inner) => {
            ["code", "type", "message"].iter().find_map(|name| inner.get(*name)?.as_str()).unwrap_or("error")
        }
        _ => "error",
    };
    let kind = match code {
        "invalid_grant" => AuthErrorKind::InvalidGrant,
        "invalid_client" | "unauthorized_client" => AuthErrorKind::InvalidClient,
        "temporarily_unavailable" | "server_error" | "slow_down" => AuthErrorKind::Unavailable,
        "access_denied" => AuthErrorKind::Declined,
        _ => AuthErrorKind::Refused,
    };
    // Redact before truncating: half a secret is not recognized.
    let redactor = form.redactor();
    let quoted = |text: &str| sanitize(&redactor.redact_text(text));
    let description = body.get("error_description").and_then(Value::as_str).map(quoted).unwrap_or_default();
    let sep = if description.is_empty() { "" } else { ": " };
    let what = format!("{at} refused with {}{sep}{description}", quoted(code));
    // Older versions of the Python SDK send this for a client that does not authenticate.
    let code = if code == "unauthorized_client" && status == 401 { "invalid_client" } else { code };
    Some(TokenEndpointError { error: AuthError::new(kind, what), code: Some(code.to_owned()) })
}

impl fmt::Debug for PostForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.fields.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_authorization_server_repeats_is_redacted() {
        let mut form = PostForm::default();
        form.add("client_id", "the-client-itself");
        form.add("refresh_token", "refresh-0123456789");
        form.authorize(Secret::new(format!("Basic {}", BASE64_STANDARD.encode("me:hunter2hunter2"))));
        let said = "the-client-itself refresh-0123456789 bWU6aHVudGVyMmh1bnRlcjI= hunter2hunter2";
        let body = serde_json::json!({ "error": "invalid_request", "error_description": said });
        let refusal = parse_error(body.as_object().unwrap(), "there", 400, &form).unwrap();
        let shown = refusal.into_error().what;
        assert!(shown.ends_with("the-client-itself [redacted] [redacted] [redacted]"), "{shown}");
    }

    #[test]
    fn nothing_secret_is_shown() {
        let mut form = PostForm::default();
        form.add("client_secret", "hunter2");
        form.authorize(Secret::new("Basic hunter2"));
        let shown = format!(
            "{form:?} {:?}",
            form.request(&"https://as.example/token".parse().unwrap()).unwrap().headers()
        );
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
