//! Client authentication (RFC 6749 2.3, RFC 7523).

use super::client::AuthClient;
use super::jwt::Jwt;
use super::request::{AuthRequest, EndpointResponse};
use super::vault::Vault;
use super::{AuthCore, wall_clock};

/// Returns the authenticated client of a request to the token endpoint or a related one; `None` if
/// the request names no client.
pub(super) fn authenticate_client(
    core: &AuthCore,
    request: &AuthRequest,
    vault: &mut Vault,
) -> Result<Option<AuthClient>, EndpointResponse> {
    let (method, id, proof) = request.client_credentials();
    let refuse = |why: &str| Err(EndpointResponse::error(401, "invalid_client", why));
    let Some(id) = id else { return Ok(None) };
    if method == "client_secret_basic"
        && ["client_secret", "client_assertion"]
            .iter()
            .any(|it| request.field(it).is_some_and(|it| !it.is_empty()))
    {
        return Err(EndpointResponse::error(400, "invalid_request", "more than one way to authenticate"));
    }
    let Some(client) = find_client(core, vault, &id) else { return refuse("unknown client") };
    if client.method != method {
        return refuse(&format!("the client is registered with {}, not {method}", client.method));
    }
    let proved = match method {
        "none" => true,
        "private_key_jwt" => {
            proof.is_some_and(|assertion| is_assertion_valid(core, request, vault, &client, &assertion))
        }
        _ => proof.is_some() && proof == client.secret,
    };
    if !proved {
        return refuse("client authentication failed");
    }
    Ok(Some(client))
}

/// Returns the client with this id.
pub(super) fn find_client(core: &AuthCore, vault: &Vault, id: &str) -> Option<AuthClient> {
    let script = core.script();
    script.clients.iter().find(|client| client.id == id).or_else(|| vault.clients.get(id)).cloned()
}

fn is_assertion_valid(
    core: &AuthCore,
    request: &AuthRequest,
    vault: &mut Vault,
    client: &AuthClient,
    assertion: &str,
) -> bool {
    let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    let (Some(jwt), Some(key)) = (Jwt::parse(assertion), &client.key) else { return false };
    let issuer = core.issuer_at(&request.origin);
    let endpoint = format!("{}{}", request.origin, request.path);
    request.field("client_assertion_type") == Some(kind)
        && jwt.is_signed_by(key)
        && jwt.claim_text("iss") == Some(&client.id)
        && jwt.claim_text("sub") == Some(&client.id)
        && jwt.has_audience(&[&issuer, &endpoint])
        && jwt.is_current(wall_clock().as_secs())
        && jwt.claim_text("jti").is_some_and(|id| vault.record_first_use("assertion", id))
}
