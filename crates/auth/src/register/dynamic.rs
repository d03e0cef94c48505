//! Registers a client dynamically (AR-03, RFC 7591): what is requested, what is changed after a
//! refusal, and which responses are accepted.

use bowline_config::{Secret, TokenAuth};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, Response};
use serde_json::{Map, Value, json};
use url::{Host, Url};

use super::{DEVICE_CODE_GRANT, register_by_hand_hint};
use crate::client_auth_method;
use crate::context::AuthContext;
use crate::discovery::{Discovery, DiscoveryKind, Metadata};
use crate::error::{AuthError, AuthErrorKind, sanitize, sanitize_url};

/// What a client is registered for.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegistrationRequest<'a> {
    pub(super) redirect: &'a Url,
    pub(super) scopes: &'a [String],
}

/// A registered client.
#[derive(Debug)]
pub(super) struct Registration {
    pub(super) id: String,
    pub(super) secret: Option<Secret>,
    pub(super) method: TokenAuth,
    /// The redirect that was registered in the end.
    pub(super) redirect: Url,
    /// Expiry of the secret in seconds since the epoch; `None` if it does not expire.
    pub(super) secret_expires_at: Option<u64>,
}

/// The longest accepted client id and secret, in bytes.
const MAX_TEXT_LENGTH: usize = 4 * 1024;

/// Registers a client. After a refusal it is tried once more, with a changed request.
pub(super) async fn register(
    ctx: &AuthContext,
    discovery: &Discovery,
    endpoint: &Url,
    wish: &RegistrationRequest<'_>,
) -> Result<Registration, AuthError> {
    let metadata = &discovery.metadata;
    let body = request_body(ctx, metadata, wish);
    let mut redirect = wish.redirect.clone();
    let mut answer = post(ctx, endpoint, &body).await?;
    if let Outcome::Refused(refusal) = Outcome::of(&answer) {
        let adjusted = match refusal.code.as_deref() {
            Some("invalid_redirect_uri") => localhost_redirect(&redirect).map(|by_name| {
                redirect = by_name;
                with_field(&body, "redirect_uris", json!([redirect.as_str()]))
            }),
            _ => Some(reduced_body(&body, metadata)),
        };
        if let Some(adjusted) = adjusted.filter(|adjusted| *adjusted != body) {
            answer = post(ctx, endpoint, &adjusted).await?;
        }
    }
    match Outcome::of(&answer) {
        Outcome::Registered(answer) => parse_registration(&answer, metadata, redirect),
        Outcome::Refused(refusal) => {
            let what = format!(
                "{} refused to register this client: {}",
                sanitize_url(&metadata.issuer),
                refusal.shown
            );
            Err(AuthError::new(AuthErrorKind::Setup, what)
                .hint(register_by_hand_hint(&sanitize_url(&metadata.issuer))))
        }
        // No metadata announced this endpoint; most likely the server wants an API key.
        Outcome::Closed if discovery.kind == DiscoveryKind::DefaultEndpoints => {
            let what = format!("{} requires authentication but advertises no login method", ctx.server);
            let hint = "if it takes a key or a token, give it in `headers`; if it takes a login, set `issuer` and \
                        `client_id` in its `auth`";
            Err(AuthError::new(AuthErrorKind::Setup, what).hint(hint))
        }
        Outcome::Closed => {
            let issuer = sanitize_url(&metadata.issuer);
            let what = format!("{issuer} accepts only registered clients");
            Err(AuthError::new(AuthErrorKind::Setup, what).hint(register_by_hand_hint(&issuer)))
        }
        Outcome::Unavailable(status) => {
            let what = format!(
                "{} could not register this client (status {status})",
                sanitize_url(&metadata.issuer)
            );
            Err(AuthError::new(AuthErrorKind::Unavailable, what))
        }
    }
}

fn request_body(
    ctx: &AuthContext,
    metadata: &Metadata,
    wish: &RegistrationRequest<'_>,
) -> Map<String, Value> {
    let mut grants = vec!["authorization_code", "refresh_token"];
    let lists = |grants: &Vec<String>| grants.iter().any(|grant| grant == DEVICE_CODE_GRANT);
    if metadata.device_authorization_endpoint.is_some()
        && metadata.grant_types_supported.as_ref().is_none_or(lists)
    {
        grants.push(DEVICE_CODE_GRANT);
    }
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
    set("client_name", json!(ctx.app.name));
    set("redirect_uris", json!([wish.redirect.as_str()]));
    set("grant_types", json!(grants));
    set("response_types", json!(["code"]));
    set("application_type", json!("native"));
    if let Some(method) =
        client_auth_method::to_request(metadata.token_endpoint_auth_methods_supported.as_deref())
    {
        set("token_endpoint_auth_method", json!(method.as_str()));
    }
    if let Some(uri) = &ctx.app.uri {
        set("client_uri", json!(uri.as_str()));
    }
    if !wish.scopes.is_empty() {
        set("scope", json!(wish.scopes.join(" ")));
    }
    body
}

/// The request without its optional parts.
fn reduced_body(body: &Map<String, Value>, metadata: &Metadata) -> Map<String, Value> {
    let mut plain = with_field(body, "grant_types", json!(["authorization_code", "refresh_token"]));
    plain.remove("scope");
    plain.remove("client_uri");
    if metadata.token_endpoint_auth_methods_supported.is_none() {
        plain.remove("token_endpoint_auth_method");
    }
    plain
}

fn with_field(body: &Map<String, Value>, name: &str, value: Value) -> Map<String, Value> {
    let mut body = body.clone();
    body.insert(name.to_owned(), value);
    body
}

/// The redirect with `localhost` instead of an IP address, which some servers refuse.
fn localhost_redirect(redirect: &Url) -> Option<Url> {
    let address =
        redirect.scheme() == "http" && matches!(redirect.host(), Some(Host::Ipv4(ip)) if ip.is_loopback());
    let mut url = redirect.clone();
    (address && url.set_host(Some("localhost")).is_ok()).then_some(url)
}

async fn post(
    ctx: &AuthContext,
    endpoint: &Url,
    body: &Map<String, Value>,
) -> Result<Response<Bytes>, AuthError> {
    let body = serde_json::to_vec(body).map(Bytes::from).unwrap_or_default();
    let request = Request::post(endpoint.as_str())
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json")
        .body(body)
        .map_err(|_| {
            AuthError::new(AuthErrorKind::Untrusted, "the address for registrations cannot be used")
        })?;
    ctx.http_client.request_discovered(request).await
}

/// The meaning of a registration response.
enum Outcome {
    Registered(Value),
    /// This request was refused.
    Refused(RegistrationError),
    /// Registration is not open, or there is no such endpoint.
    Closed,
    Unavailable(u16),
}

struct RegistrationError {
    code: Option<String>,
    /// The error text for display.
    shown: String,
}

impl Outcome {
    fn of(answer: &Response<Bytes>) -> Self {
        let status = answer.status().as_u16();
        let body: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        match status {
            200..=299 if body.get("client_id").is_some() => Self::Registered(body),
            200..=299 | 400 | 413 | 415 | 422 => Self::Refused(RegistrationError::of(status, &body)),
            408 | 425 | 429 | 500.. => Self::Unavailable(status),
            // The endpoint does not exist, or not for everybody.
            _ => Self::Closed,
        }
    }
}

impl RegistrationError {
    fn of(status: u16, body: &Value) -> Self {
        let text =
            |name| body.get(name).and_then(Value::as_str).map(sanitize).filter(|text| !text.is_empty());
        let code = text("error");
        let shown = match (&code, text("error_description")) {
            (Some(code), Some(why)) => format!("{code} ({why})"),
            (Some(code), None) => code.clone(),
            (None, _) => format!("its answer (status {status}) is not a valid registration response"),
        };
        Self { code, shown }
    }
}

fn parse_registration(answer: &Value, metadata: &Metadata, redirect: Url) -> Result<Registration, AuthError> {
    let text = |name| answer.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let fits = |text: &&str| text.len() <= MAX_TEXT_LENGTH && !text.chars().any(char::is_control);
    let (id, secret) = (text("client_id").filter(fits), text("client_secret"));
    let (Some(id), true) = (id, secret.as_ref().is_none_or(fits)) else {
        let what = format!("{} registered this client under an unusable id", sanitize_url(&metadata.issuer));
        return Err(AuthError::new(AuthErrorKind::Untrusted, what));
    };
    let offered = metadata.token_endpoint_auth_methods_supported.as_deref();
    let method = client_auth_method::for_registered_client(
        text("token_endpoint_auth_method"),
        secret.is_some(),
        offered,
    )?;
    Ok(Registration {
        id: id.to_owned(),
        secret: secret.map(Secret::from).filter(|_| method != TokenAuth::None),
        method,
        redirect,
        secret_expires_at: answer.get("client_secret_expires_at").and_then(seconds).filter(|&at| at > 0),
    })
}

/// Parses a number, a float or a numeric string.
fn seconds(value: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it saturates, which is right"
    )]
    let whole = |number: f64| number as u64;
    value.as_u64().or_else(|| value.as_f64().map(whole)).or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests;
