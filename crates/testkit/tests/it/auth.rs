//! The authorization server and what it protects, tested with plain requests.

mod access_tokens;
mod assertions;
mod authorize;
mod clients;
mod crowd;
mod device;
mod dpop;
mod faults;
mod metadata;
mod protection;
mod refresh;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bowline_testkit::{AuthControl, follow_authorize_url};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use url::{Url, form_urlencoded};

use crate::support::within_timeout;

pub(super) const REDIRECT: &str = "http://127.0.0.1:9/callback";
pub(super) const RESOURCE: &str = "http://127.0.0.1:1/mcp";
/// The pair of RFC 7636, appendix B.
pub(super) const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
pub(super) const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// An HTTP response.
#[derive(Debug)]
pub(super) struct HttpReply {
    pub(super) status: u16,
    pub(super) headers: hyper::HeaderMap,
    pub(super) body: Vec<u8>,
}

impl HttpReply {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(super) fn text(&self, member: &str) -> String {
        self.json()[member].as_str().unwrap_or_else(|| panic!("no {member} in {self:?}")).to_owned()
    }

    pub(super) fn error(&self) -> (u16, String) {
        (self.status, self.text("error"))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// Sends one request on its own connection. Returns `Err` if no response arrives.
pub(super) async fn try_send(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<HttpReply, String> {
    let url = Url::parse(url).unwrap();
    let host = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let stream = TcpStream::connect(&host).await.map_err(|e| e.to_string())?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let mut request = Request::builder().method(method).uri(target).header("host", host);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap();
    let (head, body) =
        within_timeout(sender.send_request(request)).await.map_err(|e| e.to_string())?.into_parts();
    let body = within_timeout(body.collect()).await.map_err(|e| e.to_string())?.to_bytes().to_vec();
    Ok(HttpReply { status: head.status.as_u16(), headers: head.headers, body })
}

pub(super) async fn get(url: &str) -> HttpReply {
    try_send("GET", url, &[], "").await.unwrap()
}

pub(super) async fn post_with(
    url: &str,
    fields: &[(&str, &str)],
    headers: &[(&str, &str)],
) -> Result<HttpReply, String> {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let mut all = vec![("content-type", "application/x-www-form-urlencoded")];
    all.extend_from_slice(headers);
    try_send("POST", url, &all, &body).await
}

pub(super) async fn token(auth: &AuthControl, fields: &[(&str, &str)]) -> HttpReply {
    post_with(&auth.endpoint("token"), fields, &[]).await.unwrap()
}

pub(super) async fn register(auth: &AuthControl, changes: Value) -> HttpReply {
    let mut wanted = json!({
        "client_name": "plain", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
    });
    for (member, value) in changes.as_object().unwrap() {
        wanted[member] = value.clone();
    }
    let kind = [("content-type", "application/json")];
    try_send("POST", &auth.endpoint("register"), &kind, &wanted.to_string()).await.unwrap()
}

pub(super) async fn public_client(auth: &AuthControl) -> String {
    register(auth, json!({})).await.text("client_id")
}

pub(super) fn authorize_url(auth: &AuthControl, client: &str, scope: &str) -> String {
    let fields = [
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", REDIRECT),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("state", "s1"),
        ("resource", RESOURCE),
        ("scope", scope),
    ];
    Url::parse_with_params(&auth.endpoint("authorize"), fields).unwrap().into()
}

pub(super) fn query_parameter(url: &str, name: &str) -> Option<String> {
    Url::parse(url).unwrap().query_pairs().find(|(n, _)| n == name).map(|(_, value)| value.into_owned())
}

pub(super) async fn code(auth: &AuthControl, client: &str, scope: &str) -> String {
    let back = follow_authorize_url(&authorize_url(auth, client, scope)).await;
    query_parameter(&back, "code").unwrap_or_else(|| panic!("no code in {back}"))
}

/// Returns the form that redeems a code.
pub(super) fn code_form<'a>(client: &'a str, code: &'a str) -> Vec<(&'static str, &'a str)> {
    vec![
        ("grant_type", "authorization_code"),
        ("client_id", client),
        ("code", code),
        ("code_verifier", VERIFIER),
        ("redirect_uri", REDIRECT),
        ("resource", RESOURCE),
    ]
}

pub(super) fn refresh_form<'a>(client: &'a str, refresh: &'a str) -> Vec<(&'static str, &'a str)> {
    vec![
        ("grant_type", "refresh_token"),
        ("client_id", client),
        ("refresh_token", refresh),
        ("resource", RESOURCE),
    ]
}

/// Completes a login, and returns the client and the response with its tokens.
pub(super) async fn login(auth: &AuthControl, scope: &str) -> (String, HttpReply) {
    let client = public_client(auth).await;
    let code = code(auth, &client, scope).await;
    let said = token(auth, &code_form(&client, &code)).await;
    assert_eq!(said.status, 200, "{said:?}");
    (client, said)
}

pub(super) fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")))
}

/// Returns the claims of a signed token.
pub(super) fn claims(jwt: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(jwt.split('.').nth(1).unwrap()).unwrap()).unwrap()
}
