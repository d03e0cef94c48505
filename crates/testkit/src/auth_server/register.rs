//! Dynamic client registration (RFC 7591).

use std::time::Duration;

use serde_json::{Value, json};

use super::ask::{Ask, Outcome};
use super::client::AuthClient;
use super::{Core, jwt};
use crate::SECRET;
use crate::sync::lock;

pub(super) fn register(core: &Core, ask: &Ask) -> Outcome {
    let script = core.script();
    let wanted = &ask.json;
    if !wanted.is_object() {
        return Outcome::error(400, "invalid_client_metadata", "a JSON object is needed");
    }
    let redirects: Vec<String> = wanted["redirect_uris"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|uri| uri.as_str().map(str::to_owned))
        .collect();
    let by_code = wanted["grant_types"]
        .as_array()
        .is_none_or(|grants| grants.iter().any(|grant| grant == "authorization_code"));
    if by_code && redirects.is_empty() {
        return Outcome::error(400, "invalid_redirect_uri", "redirect_uris is missing");
    }
    if let Some(uri) =
        redirects.iter().find(|uri| script.refused_redirects.iter().any(|part| uri.contains(part)))
    {
        return Outcome::error(400, "invalid_redirect_uri", &format!("{uri} is not allowed"));
    }
    let method = script
        .forced_method
        .as_deref()
        .or(wanted["token_endpoint_auth_method"].as_str())
        .unwrap_or("client_secret_basic");
    let id = format!("client-{}", jwt::random());
    let secret = method.starts_with("client_secret").then(|| format!("{SECRET}client-{}", jwt::random()));
    let now = core.now();
    let secret_expires = script.secret_lifetime_ms.map(|ms| (now + Duration::from_millis(ms)).as_secs());
    let mut answer = wanted.clone();
    answer["client_id"] = json!(id);
    answer["client_id_issued_at"] = json!(now.as_secs());
    answer["token_endpoint_auth_method"] = json!(method);
    // RFC 7592: with these a client could change or delete its registration.
    answer["registration_access_token"] = json!(format!("{SECRET}registration-{}", jwt::random()));
    answer["registration_client_uri"] = json!(format!("{}{}/{id}", ask.origin, ask.path));
    if let Some(secret) = &secret {
        answer["client_secret"] = json!(secret);
        answer["client_secret_expires_at"] = json!(secret_expires.unwrap_or(0));
    }
    let client = AuthClient {
        id: id.clone(),
        method: method.into(),
        redirects,
        key: wanted["jwks"]["keys"].get(0).cloned().filter(Value::is_object),
        secret_expires: secret_expires.filter(|_| secret.is_some()),
        secret,
    };
    lock(&core.vault).clients.insert(id, client);
    core.log.count(|counts| counts.registrations += 1);
    Outcome::Json(201, answer, vec![])
}
