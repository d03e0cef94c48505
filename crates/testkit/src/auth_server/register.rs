//! Dynamic client registration (RFC 7591).

use serde_json::{Value, json};

use super::client::AuthClient;
use super::request::{AuthRequest, EndpointResponse};
use super::{AuthCore, jwt};
use crate::SECRET_PREFIX;

pub(super) fn handle_registration(core: &AuthCore, request: &AuthRequest) -> EndpointResponse {
    let script = core.script();
    let metadata = &request.json;
    if !metadata.is_object() {
        return EndpointResponse::error(400, "invalid_client_metadata", "a JSON object is needed");
    }
    let redirects: Vec<String> = metadata["redirect_uris"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|uri| uri.as_str().map(str::to_owned))
        .collect();
    let by_code = metadata["grant_types"]
        .as_array()
        .is_none_or(|grants| grants.iter().any(|grant| grant == "authorization_code"));
    if by_code && redirects.is_empty() {
        return EndpointResponse::error(400, "invalid_redirect_uri", "redirect_uris is missing");
    }
    let method = script
        .forced_method
        .as_deref()
        .or(metadata["token_endpoint_auth_method"].as_str())
        .unwrap_or("client_secret_basic");
    let id = format!("client-{}", jwt::random_text());
    let secret =
        method.starts_with("client_secret").then(|| format!("{SECRET_PREFIX}client-{}", jwt::random_text()));
    let mut response = metadata.clone();
    response["client_id"] = json!(id);
    response["client_id_issued_at"] = json!(core.now().as_secs());
    response["token_endpoint_auth_method"] = json!(method);
    // RFC 7592: with these a client could change or delete its registration.
    response["registration_access_token"] =
        json!(format!("{SECRET_PREFIX}registration-{}", jwt::random_text()));
    response["registration_client_uri"] = json!(format!("{}{}/{id}", request.origin, request.path));
    if let Some(secret) = &secret {
        response["client_secret"] = json!(secret);
        response["client_secret_expires_at"] = json!(0);
    }
    let client = AuthClient {
        id: id.clone(),
        method: method.into(),
        redirects,
        key: metadata["jwks"]["keys"].get(0).cloned().filter(Value::is_object),
        secret,
    };
    core.vault.lock().clients.insert(id, client);
    core.request_log.update_counts(|counts| counts.registrations += 1);
    EndpointResponse::Json(201, response, vec![])
}
