//! [`AuthRequest`]: one request as the endpoints see it, and [`EndpointResponse`]: what they
//! return.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::http::request::Parts;
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use super::fault::AuthFaultKind;
use super::jwt::Jwt;
use super::request_log::ReceivedAuthRequest;
use crate::armed_faults::MatchedFaults;
use crate::canned_response::CannedResponse;

/// The prefix of the grant types that are not in RFC 6749.
const GRANT_URN_PREFIX: &str = "urn:ietf:params:oauth:grant-type:";

/// A parsed request to the authorization server.
pub(super) struct AuthRequest {
    /// The origin the client used for this request.
    pub(super) origin: String,
    pub(super) endpoint: &'static str,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) form: BTreeMap<String, String>,
    pub(super) json: Value,
    pub(super) faults: MatchedFaults<AuthFaultKind>,
}

impl AuthRequest {
    pub(super) fn parse(origin: &str, head: &Parts, body: &[u8]) -> Self {
        let query = head.uri.query().unwrap_or_default();
        let is_form = header_text(&head.headers, "content-type")
            .is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
        let mut form = BTreeMap::<String, String>::new();
        for (name, value) in form_urlencoded::parse(if is_form { body } else { query.as_bytes() }) {
            form.entry(name.into_owned())
                .and_modify(|given| {
                    given.push(' ');
                    given.push_str(&value);
                })
                .or_insert_with(|| value.clone().into_owned());
        }
        Self {
            origin: origin.into(),
            endpoint: "other",
            method: head.method.to_string(),
            path: head.uri.path().into(),
            headers: head.headers.clone(),
            form,
            json: if is_form { Value::Null } else { serde_json::from_slice(body).unwrap_or(Value::Null) },
            faults: MatchedFaults::default(),
        }
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.form.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the grant type without its prefix.
    pub(super) fn grant(&self) -> Option<&str> {
        let grant = (self.endpoint == "token").then(|| self.field("grant_type")).flatten()?;
        Some(grant.strip_prefix(GRANT_URN_PREFIX).unwrap_or(grant))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header_text(&self.headers, name)
    }

    /// Returns how the client identifies itself: the authentication method, its id, and its secret
    /// or assertion.
    pub(super) fn client_credentials(&self) -> (&'static str, Option<String>, Option<String>) {
        let decode = |part: &str| {
            form_urlencoded::parse(format!("v={}", part.replace('&', "%26")).as_bytes())
                .next()
                .map(|(_, value)| value.into_owned())
        };
        let basic = self.header("authorization").and_then(|value| {
            let (scheme, code) = value.split_once(' ')?;
            scheme
                .eq_ignore_ascii_case("basic")
                .then(|| String::from_utf8(STANDARD.decode(code).ok()?).ok())?
        });
        let id = self.field("client_id").map(str::to_owned);
        if let Some((user, password)) = basic.as_deref().and_then(|pair| pair.split_once(':')) {
            return ("client_secret_basic", decode(user), decode(password));
        }
        if let Some(assertion) = self.field("client_assertion") {
            let named = Jwt::parse(assertion).and_then(|jwt| jwt.claim_text("sub").map(str::to_owned));
            return ("private_key_jwt", id.or(named), Some(assertion.into()));
        }
        if let Some(secret) = self.field("client_secret") {
            return ("client_secret_post", id, Some(secret.into()));
        }
        (if id.is_some() { "none" } else { "" }, id, None)
    }

    pub(super) fn to_received(&self) -> ReceivedAuthRequest {
        let (client_auth, client_id, _) = self.client_credentials();
        ReceivedAuthRequest {
            seq: 0,
            endpoint: self.endpoint,
            grant: self.grant().map(str::to_owned),
            method: self.method.clone(),
            path: self.path.clone(),
            form: self.form.clone(),
            json: self.json.clone(),
            headers: self
                .headers
                .iter()
                .map(|(name, value)| {
                    (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
                })
                .collect(),
            client_auth,
            client_id,
            status: 0,
            error: None,
        }
    }
}

/// The response of an endpoint, before faults modify it.
pub(super) enum EndpointResponse {
    Json(u16, Value, Vec<(String, String)>),
    /// A redirect to the client with these parameters.
    Redirect(String, Value),
    Html(u16, String),
    Empty(u16),
}

impl EndpointResponse {
    pub(super) fn ok(json: Value) -> Self {
        Self::Json(200, json, vec![])
    }

    /// Returns an error as in RFC 6749 5.2.
    pub(super) fn error(status: u16, code: &str, description: &str) -> Self {
        let headers = if code == "invalid_client" && status == 401 {
            vec![("www-authenticate".into(), "Basic realm=\"token\"".into())]
        } else {
            vec![]
        };
        Self::Json(status, json!({"error": code, "error_description": description}), headers)
    }

    pub(super) fn error_code(&self) -> Option<String> {
        match self {
            Self::Json(_, members, _) | Self::Redirect(_, members) => {
                members["error"].as_str().map(str::to_owned)
            }
            Self::Html(..) | Self::Empty(_) => None,
        }
    }

    pub(super) fn apply_faults(&mut self, faults: &MatchedFaults<AuthFaultKind>) {
        if let Self::Json(_, members, _) | Self::Redirect(_, members) = self {
            faults.modify_members(members);
        }
    }

    pub(super) fn to_canned_response(&self) -> CannedResponse {
        match self {
            Self::Json(status, json, headers) => {
                let mut answer = CannedResponse::new(*status)
                    .header("content-type", "application/json")
                    .header("cache-control", "no-store")
                    .body(json.to_string());
                answer.headers.extend(headers.iter().cloned());
                answer
            }
            Self::Redirect(to, members) => CannedResponse::new(302)
                .header("location", &with_query(to, members.as_object().unwrap_or(&Map::new()))),
            Self::Html(status, html) => CannedResponse::new(*status)
                .header("content-type", "text/html; charset=utf-8")
                .header(
                    "content-security-policy",
                    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
                )
                .body(html.clone()),
            Self::Empty(status) => CannedResponse::new(*status),
        }
    }
}

fn with_query(to: &str, members: &Map<String, Value>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in members {
        match value {
            Value::String(text) => query.append_pair(name, text),
            other => query.append_pair(name, &other.to_string()),
        };
    }
    format!("{to}{}{}", if to.contains('?') { '&' } else { '?' }, query.finish())
}

pub(super) fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
