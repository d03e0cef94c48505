//! One request to the authorization server from its arrival to its response, with the faults that
//! strike it.

use std::future::pending;
use std::sync::Arc;

use hyper::http::request::Parts;
use serde_json::{Value, json};

use super::fault::AuthFaultKind;
use super::protection::{PRM_WELL_KNOWN, Protection, request_origin};
use super::request::{AuthRequest, EndpointResponse};
use super::{AuthCore, authorize, device, jwt, metadata, register, token};
use crate::canary::{self, SECRET_PREFIX};
use crate::http::{Conn, HttpResponse, full_response};
use crate::sync::pause;

/// The owner of the port that received a request: the authorization server, or an MCP server it
/// protects.
#[derive(Clone, Copy)]
pub(crate) enum PortOwner<'a> {
    AuthServer(&'a AuthCore),
    McpServer(&'a Protection),
}

pub(crate) async fn serve_request(
    owner: PortOwner<'_>,
    conn: &Arc<Conn>,
    head: &Parts,
    body: &[u8],
) -> HttpResponse {
    let (core, mut request) = match owner {
        PortOwner::AuthServer(core) => (core, AuthRequest::parse(&core.origin, head, body)),
        PortOwner::McpServer(protected) => {
            (&*protected.core, AuthRequest::parse(&request_origin(head), head, body))
        }
    };
    let endpoint_exists = find_endpoint(owner, &mut request);
    let grant = request.grant().unwrap_or_default().to_owned();
    let names = [if endpoint_exists { request.endpoint } else { "" }, &grant, &request.path];
    // Faults are taken before the request is recorded: a fault that a test arms when it sees a
    // request is meant for the next one.
    request.faults = core.faults.take_matching(&names, None);
    let seq = core.request_log.record(request.to_received());
    core.record_leaked_secrets(&request);
    pause(request.faults.delay()).await;
    match request.faults.before_execution() {
        None => {}
        Some(kind @ (AuthFaultKind::Error { .. } | AuthFaultKind::NonceChallenge)) => {
            let outcome = core.injected_error(&request, kind);
            return finish_response(core, seq, &request, outcome);
        }
        Some(kind) => return fail_response(core, seq, kind, conn).await,
    }
    let outcome =
        if endpoint_exists { call_endpoint(owner, core, &request) } else { EndpointResponse::Empty(404) };
    match request.faults.after_execution() {
        None => finish_response(core, seq, &request, outcome),
        Some(kind @ (AuthFaultKind::Error { .. } | AuthFaultKind::NonceChallenge)) => {
            let outcome = core.injected_error(&request, kind);
            finish_response(core, seq, &request, outcome)
        }
        Some(kind) => fail_response(core, seq, kind, conn).await,
    }
}

/// Finds the endpoint of a request, and returns whether it exists: a metadata request gets its
/// endpoint name even where nothing is published.
fn find_endpoint(owner: PortOwner<'_>, request: &mut AuthRequest) -> bool {
    if request.path.contains("/.well-known/o") {
        request.endpoint = if request.path.contains("oauth-protected-resource") { "prm" } else { "metadata" };
        return match owner {
            PortOwner::AuthServer(core) => metadata::is_published_at(&core.script(), &request.path),
            PortOwner::McpServer(_) => request.path == format!("{PRM_WELL_KNOWN}/mcp"),
        };
    }
    let PortOwner::AuthServer(core) = owner else { return false };
    let script = core.script();
    let Some(name) = request.path.strip_prefix(&script.path) else { return false };
    request.endpoint = match name {
        "/authorize" => "authorize",
        "/token" => "token",
        "/register" if script.registration => "register",
        "/device" if script.device => "device",
        "/verify" if script.device => "verify",
        "/revoke" => "revoke",
        "/jwks" => "jwks",
        "/userinfo" => "userinfo",
        _ => return false,
    };
    true
}

fn call_endpoint(owner: PortOwner<'_>, core: &AuthCore, request: &AuthRequest) -> EndpointResponse {
    match (request.endpoint, request.method.as_str()) {
        ("prm", "GET") => match owner {
            PortOwner::McpServer(protected) => {
                EndpointResponse::ok(protected.metadata_document(&request.origin))
            }
            PortOwner::AuthServer(_) => EndpointResponse::Empty(404),
        },
        ("metadata", "GET") => EndpointResponse::ok(metadata::metadata_document(core, &request.origin)),
        ("authorize", "GET" | "POST") => authorize::handle_authorization(core, request),
        ("token", "POST") => token::handle_token_request(core, request),
        ("register", "POST") => register::handle_registration(core, request),
        ("device", "POST") => device::start_device_authorization(core, request),
        ("verify", "GET" | "POST") => device::handle_verification(core, request),
        ("revoke", "POST") => token::handle_revocation(core, request),
        ("jwks", "GET") => EndpointResponse::ok(json!({"keys": [core.key().published_jwk()]})),
        ("userinfo", "GET" | "POST") => token::handle_userinfo(core, request),
        _ => EndpointResponse::Empty(405),
    }
}

impl AuthCore {
    /// Returns an injected error, in the form of its endpoint.
    fn injected_error(&self, request: &AuthRequest, kind: &AuthFaultKind) -> EndpointResponse {
        let (status, code, description) = if let AuthFaultKind::Error { status, code, description } = kind {
            (*status, code.as_str(), description.as_deref())
        } else {
            self.vault.lock().nonce = Some(jwt::random_text());
            (400, "use_dpop_nonce", Some("a nonce is needed"))
        };
        let mut members = json!({"error": code});
        if let Some(description) = description {
            members["error_description"] = json!(description);
        }
        match (request.endpoint, request.field("redirect_uri")) {
            ("authorize", Some(to)) => authorize::redirect_back(self, request, to, members),
            _ => EndpointResponse::Json(status, members, vec![]),
        }
    }

    /// Records secrets in places where no client may send them.
    fn record_leaked_secrets(&self, request: &AuthRequest) {
        let secret = |value: &str| value.contains(SECRET_PREFIX);
        // These are generated by the client, which must not leak them either.
        for field in ["code_verifier", "client_assertion"] {
            request.field(field).into_iter().for_each(canary::record_secret);
        }
        if request.endpoint != "authorize"
            && request.method == "GET"
            && request.form.values().any(|value| secret(value))
        {
            self.request_log.record_violation(format!("a secret in the query of {}", request.path));
        }
        let public = ["metadata", "authorize", "register", "jwks"].contains(&request.endpoint);
        if public && request.header("authorization").is_some_and(secret) {
            self.request_log.record_violation(format!("TK-02: a token sent to {}", request.path));
        }
    }
}

fn finish_response(
    core: &AuthCore,
    seq: u64,
    request: &AuthRequest,
    mut outcome: EndpointResponse,
) -> HttpResponse {
    outcome.apply_faults(&request.faults);
    let mut answer = outcome.to_canned_response();
    if request.endpoint == "token"
        && let Some(nonce) = core.vault.lock().nonce.clone()
    {
        answer = answer.header("dpop-nonce", &nonce);
    }
    core.request_log.record_response(seq, answer.status, outcome.error_code());
    full_response(&answer, &Value::Null)
}

/// Applies a fault that leaves nothing of the response.
async fn fail_response(core: &AuthCore, seq: u64, kind: &AuthFaultKind, conn: &Arc<Conn>) -> HttpResponse {
    match kind {
        AuthFaultKind::Response(answer) => {
            core.request_log.record_response(seq, answer.status, None);
            return full_response(answer, &Value::Null);
        }
        AuthFaultKind::Reset => conn.reset(),
        AuthFaultKind::Close => conn.close(),
        _ => {}
    }
    pending().await
}
