//! Owns the device authorization grant (RFC 8628): which codes are shown, and how often the token
//! endpoint is polled.

use std::time::Duration;

use bowline_config::Secret;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};
use url::Url;

use super::post::{Form, Refusal};
use super::{Ask, Request, answer, exchange};
use crate::error::{AuthError, AuthErrorKind, said};
use crate::prompt::is_page;
use crate::tokens::Tokens;

/// A device authorization response.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    secret: Secret,
    /// The code that the person types in.
    pub(crate) typed: String,
    pub(crate) url: Url,
    pub(crate) complete: Option<Url>,
    pub(crate) expires_in: Duration,
    pace: Pace,
}

/// The interval between two polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    interval: Duration,
}

/// How long a code is polled at most, whatever its `expires_in`.
const LONGEST: Duration = Duration::from_secs(30 * 60);
const SLOWEST: Duration = Duration::from_secs(60);
const FASTEST: Duration = Duration::from_secs(1);

/// Requests a device code.
pub(crate) async fn authorize(ask: &Ask<'_>) -> Result<Code, AuthError> {
    let Some(endpoint) = &ask.metadata.device_authorization_endpoint else {
        let what = "the authorization server offers no login by a code on another device";
        return Err(AuthError::new(AuthErrorKind::Setup, what).hint("log in with a browser"));
    };
    let mut form = Form::default();
    if !ask.scopes.is_empty() {
        form.add("scope", &ask.scopes.join(" "));
    }
    if let Some(resource) = ask.resource {
        form.add("resource", resource);
    }
    let body = ask.sender().post(endpoint, &form, None).await.map_err(Refusal::into_error)?;
    read(&body)
}

pub(super) fn read(body: &Map<String, Value>) -> Result<Code, AuthError> {
    let untrusted = |what: &str| AuthError::new(AuthErrorKind::Untrusted, what);
    let secret = answer::token(body, "device_code")?;
    let secret = secret.ok_or_else(|| untrusted("the answer has no code for this device"))?;
    let typed = body.get("user_code").and_then(Value::as_str).map(said).filter(|code| !code.is_empty());
    let typed = typed.ok_or_else(|| untrusted("the answer has no code for a person"))?;
    // The second name is from drafts, and in use.
    let page = |names: &[&str]| {
        let text = names.iter().find_map(|name| body.get(*name)?.as_str())?;
        Url::parse(text).ok().filter(is_page)
    };
    let url = page(&["verification_uri", "verification_url"])
        .ok_or_else(|| untrusted("the answer has no page on which the code could be typed in"))?;
    let seconds = |name: &str| body.get(name).and_then(number).map(Duration::from_secs);
    Ok(Code {
        secret,
        typed,
        url,
        complete: page(&["verification_uri_complete", "verification_url_complete"]),
        expires_in: seconds("expires_in").unwrap_or(LONGEST).min(LONGEST),
        pace: Pace::new(seconds("interval")),
    })
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// Polls until the person confirms or declines, or the code expires.
pub(crate) async fn poll(ask: &Ask<'_>, code: &Code) -> Result<Tokens, AuthError> {
    let deadline = Instant::now() + code.expires_in;
    let mut pace = code.pace;
    loop {
        if Instant::now() + pace.interval >= deadline {
            return Err(over());
        }
        sleep(pace.interval).await;
        match exchange(ask, Request::Device { device_code: &code.secret }).await {
            Ok(tokens) => return Ok(tokens),
            Err(refusal) if refusal.is("expired_token") => return Err(over()),
            // Worded like a declined login on a page; the endpoint's name means nothing to a
            // person.
            Err(refusal) if refusal.is("access_denied") => {
                let what = "the login was refused: access_denied";
                return Err(AuthError::new(AuthErrorKind::Declined, what));
            }
            Err(refusal) => pace = pace.after(&refusal).ok_or(refusal.error)?,
        }
    }
}

fn over() -> AuthError {
    AuthError::new(AuthErrorKind::LoginNeeded, "the code was not confirmed in time")
        .hint("log in again for a new one")
}

impl Pace {
    fn new(interval: Option<Duration>) -> Self {
        Self { interval: interval.unwrap_or(Duration::from_secs(5)).clamp(FASTEST, SLOWEST) }
    }

    /// The interval after an error response; `None` if polling must stop.
    fn after(self, refusal: &Refusal) -> Option<Self> {
        let interval = match refusal.code.as_deref() {
            Some("authorization_pending") => self.interval,
            Some("slow_down") => self.interval + Duration::from_secs(5),
            // No response, or none from an authorization server: RFC 8628 §3.5 asks for longer
            // intervals.
            _ if refusal.error.is_transient() => self.interval * 2,
            _ => return None,
        };
        Some(Self { interval: interval.min(SLOWEST) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn code(body: Value) -> Result<Code, AuthError> {
        read(body.as_object().unwrap())
    }

    fn refusal(code: &str) -> Refusal {
        let kind = AuthErrorKind::Refused;
        Refusal { error: AuthError::new(kind, code), code: Some(code.to_owned()) }
    }

    #[test]
    fn reads_what_the_standard_says() {
        let code = code(json!({
            "device_code": "d", "user_code": "WDJB-MJHT", "verification_uri": "https://as.example/device",
            "verification_uri_complete": "https://as.example/device?user_code=WDJB-MJHT",
            "expires_in": 1800, "interval": 7,
        }))
        .unwrap();
        assert_eq!(code.typed, "WDJB-MJHT");
        assert_eq!(code.url.as_str(), "https://as.example/device");
        assert!(code.complete.is_some());
        assert_eq!(code.expires_in, Duration::from_secs(1800));
        assert_eq!(code.pace.interval, Duration::from_secs(7));
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
        assert!(code(body).unwrap().complete.is_none());
    }

    #[test]
    fn a_hostile_pace_is_bounded() {
        let body = |interval: Value, expires_in: Value| {
            code(json!({
                "device_code": "d", "user_code": "C\u{1b}[2J", "verification_uri": "http://127.0.0.1:1/",
                "interval": interval, "expires_in": expires_in,
            }))
            .unwrap()
        };
        assert_eq!(body(json!(0), json!(9_000_000_000_u64)).pace.interval, FASTEST);
        assert_eq!(body(json!(0), json!(u64::MAX)).expires_in, LONGEST);
        assert_eq!(body(json!(1_000_000), json!(1)).pace.interval, SLOWEST);
        assert_eq!(body(json!("3"), json!(1)).pace.interval, Duration::from_secs(3));
        assert!(!body(json!(0), json!(1)).typed.contains('\u{1b}'));
    }

    #[test]
    fn the_pace_follows_what_is_said() {
        let pace = Pace::new(None);
        assert_eq!(pace.interval, Duration::from_secs(5));
        assert_eq!(pace.after(&refusal("authorization_pending")), Some(pace));
        let slower = pace.after(&refusal("slow_down")).unwrap();
        assert_eq!(slower.interval, Duration::from_secs(10));
        let away = Refusal { error: AuthError::new(AuthErrorKind::Unavailable, "gone"), code: None };
        assert_eq!(slower.after(&away).unwrap().interval, Duration::from_secs(20));
        assert_eq!(Pace::new(Some(SLOWEST)).after(&away).unwrap().interval, SLOWEST);
        for end in ["access_denied", "invalid_grant", "invalid_client", "unsupported_grant_type"] {
            assert_eq!(pace.after(&refusal(end)), None, "{end}");
        }
    }
}
