//! Validates token responses.
//!
//! Lenient where servers are known to be sloppy and nothing depends on it; strict about the tokens
//! themselves.

use std::time::{Duration, SystemTime};

use bowline_config::Secret;
use serde_json::{Map, Value};

use crate::error::{AuthError, AuthErrorKind, sanitize};
use crate::tokens::{Scheme, Tokens};

/// The longest lifetime that is believed. A token that ends earlier is refreshed when it is
/// refused.
const MAX_TOKEN_LIFE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Parses the response to a request that was sent at this time.
pub(super) fn parse_tokens(body: &Map<String, Value>, asked_at: SystemTime) -> Result<Tokens, AuthError> {
    let access =
        parse_token(body, "access_token")?.ok_or_else(|| untrusted("the answer has no access token"))?;
    Ok(Tokens {
        access,
        scheme: parse_scheme(body)?,
        refresh: parse_token(body, "refresh_token")?,
        expires_at: parse_lifetime(body).and_then(|life| asked_at.checked_add(life)),
        scopes: parse_scopes(body.get("scope")),
        id_token: parse_token(body, "id_token")?,
    })
}

/// Parses a token, if present. It must fit into a header.
pub(super) fn parse_token(body: &Map<String, Value>, name: &str) -> Result<Option<Secret>, AuthError> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) if text.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(Some(Secret::new(text.as_str())))
        }
        Some(_) => Err(untrusted(&format!("{name} in the answer is not a valid token"))),
    }
}

/// Parses `token_type`. A missing one means bearer, because many servers omit it; unknown types are
/// refused.
fn parse_scheme(body: &Map<String, Value>) -> Result<Scheme, AuthError> {
    match body.get("token_type") {
        None | Some(Value::Null) => Ok(Scheme::Bearer),
        Some(Value::String(name)) if name.is_empty() || name.eq_ignore_ascii_case("bearer") => {
            Ok(Scheme::Bearer)
        }
        Some(Value::String(name)) if name.eq_ignore_ascii_case("dpop") => Ok(Scheme::Dpop),
        Some(Value::String(name)) => {
            Err(untrusted(&format!("tokens of type {} cannot be used", sanitize(name))))
        }
        Some(_) => Err(untrusted("token_type in the answer is not a string")),
    }
}

/// Parses `expires_in`, a number or a numeric string. Zero and negative values are mistakes, so the
/// expiry is unknown then.
fn parse_lifetime(body: &Map<String, Value>) -> Option<Duration> {
    let seconds = match body.get("expires_in")? {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    if seconds <= 0.0 || !seconds.is_finite() {
        return None;
    }
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(MAX_TOKEN_LIFE).min(MAX_TOKEN_LIFE))
}

/// Parses scopes separated by spaces or commas, or in a list. An empty value counts as missing,
/// which means the requested scopes.
fn parse_scopes(scope: Option<&Value>) -> Option<Vec<String>> {
    let names: Vec<String> = match scope? {
        Value::String(text) if text.contains(char::is_whitespace) => {
            text.split_whitespace().map(str::to_owned).collect()
        }
        Value::String(text) => text.split(',').map(str::to_owned).collect(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => return None,
    };
    let names: Vec<_> = names.into_iter().filter(|name| !name.is_empty()).take(MAX_SCOPES).collect();
    (!names.is_empty()).then_some(names)
}

/// Further scopes are dropped.
const MAX_SCOPES: usize = 1000;

fn untrusted(what: &str) -> AuthError {
    AuthError::new(AuthErrorKind::Untrusted, what)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use serde_json::json;

    use super::*;

    fn read(body: Value) -> Result<Tokens, AuthError> {
        parse_tokens(body.as_object().unwrap(), UNIX_EPOCH)
    }

    fn life(expires_in: Value) -> Option<u64> {
        let tokens = read(json!({"access_token": "a", "expires_in": expires_in})).unwrap();
        tokens.expires_at.map(|at| at.duration_since(UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn reads_what_the_standard_says() {
        let tokens = read(json!({
            "access_token": "at", "token_type": "Bearer", "expires_in": 3600,
            "refresh_token": "rt", "scope": "a b", "id_token": "it",
        }))
        .unwrap();
        assert_eq!(tokens.access.expose(), "at");
        assert_eq!(tokens.scheme, Scheme::Bearer);
        assert_eq!(tokens.refresh.unwrap().expose(), "rt");
        assert_eq!(tokens.expires_at, Some(UNIX_EPOCH + Duration::from_secs(3600)));
        assert_eq!(tokens.scopes.unwrap(), ["a", "b"]);
        assert_eq!(tokens.id_token.unwrap().expose(), "it");
    }

    #[test]
    fn reads_lives_as_servers_write_them() {
        assert_eq!(life(json!("3600")), Some(3600));
        assert_eq!(life(json!(3599.9)), Some(3599));
        assert_eq!(life(json!(" 60 ")), Some(60));
        assert_eq!(life(json!(0)), None);
        assert_eq!(life(json!(-5)), None);
        assert_eq!(life(json!(null)), None);
        assert_eq!(life(json!("soon")), None);
        assert_eq!(life(json!("NaN")), None);
        assert_eq!(life(json!(1e300)), Some(MAX_TOKEN_LIFE.as_secs()));
    }

    #[test]
    fn reads_scopes_as_servers_write_them() {
        let scopes = |value: Value| parse_scopes(Some(&value));
        assert_eq!(scopes(json!(["a", "b"])).unwrap(), ["a", "b"]);
        assert_eq!(scopes(json!("a,b")).unwrap(), ["a", "b"]);
        assert_eq!(scopes(json!("a,1 b")).unwrap(), ["a,1", "b"]);
        assert_eq!(scopes(json!("")), None);
        assert_eq!(scopes(json!(7)), None);
    }

    #[test]
    fn omitted_fields_are_none() {
        let tokens = read(json!({"access_token": "a", "refresh_token": "", "id_token": null})).unwrap();
        assert_eq!(tokens.scheme, Scheme::Bearer);
        assert!(tokens.refresh.is_none() && tokens.id_token.is_none() && tokens.expires_at.is_none());
    }

    // AX-03: the grant of an identity provider has the token type N_A.
    #[test]
    fn a_token_of_another_type_is_never_shown() {
        for kind in ["N_A", "mac", "pop"] {
            let error = read(json!({"access_token": "a", "token_type": kind})).unwrap_err();
            assert_eq!(error.kind, AuthErrorKind::Untrusted, "{kind}");
        }
    }

    #[test]
    fn a_token_that_does_not_fit_a_header_is_refused() {
        for bad in [json!("a\r\nX: y"), json!("a b"), json!("ä"), json!(["a"]), json!(1)] {
            let error = read(json!({"access_token": bad})).unwrap_err();
            assert_eq!(error.kind, AuthErrorKind::Untrusted);
        }
        assert!(read(json!({})).is_err());
    }
}
