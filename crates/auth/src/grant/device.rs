//! Owns the device authorization grant (RFC 8628): which codes are shown, and how often the token
//! endpoint is polled.

use std::time::Duration;

use bowline_config::Secret;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};
use url::Url;

use super::form_post::{PostForm, TokenEndpointError};
use super::{TokenGrant, TokenRequest, exchange_grant, token_response};
use crate::error::{AuthError, AuthErrorKind, sanitize};
use crate::metadata::is_https_or_loopback;
use crate::tokens::Tokens;

/// A device authorization response.
#[derive(Clone, Debug)]
pub(crate) struct DeviceAuthorization {
    device_code: Secret,
    /// The code that the person types in.
    pub(crate) user_code: String,
    pub(crate) verification_url: Url,
    pub(crate) complete_url: Option<Url>,
    pub(crate) expires_in: Duration,
    poll_interval: PollInterval,
}

/// The interval between two polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PollInterval {
    interval: Duration,
}

/// How long a code is polled at most, whatever its `expires_in`.
const MAX_CODE_LIFE: Duration = Duration::from_secs(30 * 60);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60);
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Requests a device code.
pub(crate) async fn request_device_code(ask: &TokenRequest<'_>) -> Result<DeviceAuthorization, AuthError> {
    let Some(endpoint) = &ask.metadata.device_authorization_endpoint else {
        let what = "the authorization server does not support login with a device code";
        return Err(AuthError::new(AuthErrorKind::Setup, what).hint("log in with a browser"));
    };
    let mut form = PostForm::default();
    if !ask.scopes.is_empty() {
        form.add("scope", &ask.scopes.join(" "));
    }
    if let Some(resource) = ask.resource {
        form.add("resource", resource);
    }
    let body = ask.sender().post(endpoint, &form, None).await.map_err(TokenEndpointError::into_error)?;
    parse_response(&body)
}

pub(super) fn parse_response(body: &Map<String, Value>) -> Result<DeviceAuthorization, AuthError> {
    let untrusted = |what: &str| AuthError::new(AuthErrorKind::Untrusted, what);
    let device_code = token_response::parse_token(body, "device_code")?;
    let device_code = device_code.ok_or_else(|| untrusted("the answer has no `device_code`"))?;
    let user_code =
        body.get("user_code").and_then(Value::as_str).map(sanitize).filter(|code| !code.is_empty());
    let user_code = user_code.ok_or_else(|| untrusted("the answer has no `user_code`"))?;
    // The second name is from drafts, and in use.
    let page = |names: &[&str]| {
        let text = names.iter().find_map(|name| body.get(*name)?.as_str())?;
        Url::parse(text).ok().filter(is_https_or_loopback)
    };
    let verification_url = page(&["verification_uri", "verification_url"])
        .ok_or_else(|| untrusted("the answer has no usable `verification_uri`"))?;
    let seconds = |name: &str| body.get(name).and_then(number).map(Duration::from_secs);
    Ok(DeviceAuthorization {
        device_code,
        user_code,
        verification_url,
        complete_url: page(&["verification_uri_complete", "verification_url_complete"]),
        expires_in: seconds("expires_in").unwrap_or(MAX_CODE_LIFE).min(MAX_CODE_LIFE),
        poll_interval: PollInterval::new(seconds("interval")),
    })
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// Polls until the person confirms or declines, or the code expires.
pub(crate) async fn poll_device_tokens(
    ask: &TokenRequest<'_>,
    code: &DeviceAuthorization,
) -> Result<Tokens, AuthError> {
    let deadline = Instant::now() + code.expires_in;
    let mut pace = code.poll_interval;
    loop {
        if Instant::now() + pace.interval >= deadline {
            return Err(code_expired_error());
        }
        sleep(pace.interval).await;
        match exchange_grant(ask, TokenGrant::Device { device_code: &code.device_code }).await {
            Ok(tokens) => return Ok(tokens),
            Err(refusal) if refusal.has_code("expired_token") => return Err(code_expired_error()),
            // Worded like a declined login on a page; the endpoint's name means nothing to a
            // person.
            Err(refusal) if refusal.has_code("access_denied") => {
                let what = "the login was refused: access_denied";
                return Err(AuthError::new(AuthErrorKind::Declined, what));
            }
            Err(refusal) => pace = pace.after_refusal(&refusal).ok_or(refusal.error)?,
        }
    }
}

fn code_expired_error() -> AuthError {
    AuthError::new(AuthErrorKind::LoginNeeded, "the code was not confirmed in time")
        .hint("log in again for a new one")
}

impl PollInterval {
    fn new(interval: Option<Duration>) -> Self {
        Self {
            interval: interval.unwrap_or(Duration::from_secs(5)).clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL),
        }
    }

    /// The interval after an error response; `None` if polling must stop.
    fn after_refusal(self, refusal: &TokenEndpointError) -> Option<Self> {
        let interval = match refusal.code.as_deref() {
            Some("authorization_pending") => self.interval,
            Some("slow_down") => self.interval + Duration::from_secs(5),
            // No response, or none from an authorization server: RFC 8628 §3.5 asks for longer
            // intervals.
            _ if refusal.error.is_transient() => self.interval * 2,
            _ => return None,
        };
        Some(Self { interval: interval.min(MAX_POLL_INTERVAL) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn code(body: Value) -> Result<DeviceAuthorization, AuthError> {
        parse_response(body.as_object().unwrap())
    }

    fn refusal(code: &str) -> TokenEndpointError {
        let kind = AuthErrorKind::Refused;
        TokenEndpointError { error: AuthError::new(kind, code), code: Some(code.to_owned()) }
    }

    #[test]
    fn reads_what_the_standard_says() {
        let code = code(json!({
            "device_code": "d", "user_code": "WDJB-MJHT", "verification_uri": "https://as.example/device",
            "verification_uri_complete": "https://as.example/device?user_code=WDJB-MJHT",
            "expires_in": 1800, "interval": 7,
        }))
        .unwrap();
        assert_eq!(code.user_code, "WDJB-MJHT");
        assert_eq!(code.verification_url.as_str(), "https://as.example/device");
        assert!(code.complete_url.is_some());
        assert_eq!(code.expires_in, Duration::from_secs(1800));
        assert_eq!(code.poll_interval.interval, Duration::from_secs(7));
    }

    // SE-03
    #[test]
    fn a_page_that_must_not_be_opened_is_none() {
        for page in ["javascript:alert(1)", "file:///etc/passwd", "http://as.example/device"] {
            let body = json!({"device_code": "d", "user_code": "C", "verification_uri": page});
            assert_eq!(code(body).unwrap_err().kind, AuthErrorKind::Untrusted, "{page}");
        }
        let body = json!({
            "device_code": "d", "user_code": "C", "verification_uri": "https://as.example/",
            "verification_uri_complete": "javascript:alert(1)",
        });
        assert!(code(body).unwrap().complete_url.is_none());
    }

    #[test]
    fn a_hostile_poll_interval_is_bounded() {
        let body = |interval: Value, expires_in: Value| {
            code(json!({
                "device_code": "d", "user_code": "C\u{1b}[2J", "verification_uri": "http://127.0.0.1:1/",
                "interval": interval, "expires_in": expires_in,
            }))
            .unwrap()
        };
        assert_eq!(body(json!(0), json!(9_000_000_000_u64)).poll_interval.interval, MIN_POLL_INTERVAL);
        assert_eq!(body(json!(0), json!(u64::MAX)).expires_in, MAX_CODE_LIFE);
        assert_eq!(body(json!(1_000_000), json!(1)).poll_interval.interval, MAX_POLL_INTERVAL);
        assert_eq!(body(json!("3"), json!(1)).poll_interval.interval, Duration::from_secs(3));
        assert!(!body(json!(0), json!(1)).user_code.contains('\u{1b}'));
    }

    #[test]
    fn the_poll_interval_follows_the_error_code() {
        let pace = PollInterval::new(None);
        assert_eq!(pace.interval, Duration::from_secs(5));
        assert_eq!(pace.after_refusal(&refusal("authorization_pending")), Some(pace));
        let slower = pace.after_refusal(&refusal("slow_down")).unwrap();
        assert_eq!(slower.interval, Duration::from_secs(10));
        let away =
            TokenEndpointError { error: AuthError::new(AuthErrorKind::Unavailable, "gone"), code: None };
        assert_eq!(slower.after_refusal(&away).unwrap().interval, Duration::from_secs(20));
        assert_eq!(
            PollInterval::new(Some(MAX_POLL_INTERVAL)).after_refusal(&away).unwrap().interval,
            MAX_POLL_INTERVAL
        );
        for end in ["access_denied", "invalid_grant", "invalid_client", "unsupported_grant_type"] {
            assert_eq!(pace.after_refusal(&refusal(end)), None, "{end}");
        }
    }
}
