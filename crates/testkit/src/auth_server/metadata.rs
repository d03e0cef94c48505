//! The authorization server metadata document and the paths it is published at.

use serde_json::{Value, json};

use super::AuthCore;
use super::script::AuthScript;

/// Returns whether the document is published at this path.
pub(super) fn is_published_at(script: &AuthScript, path: &str) -> bool {
    let (oauth, oidc) = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration");
    let own = &script.path;
    [format!("{oauth}{own}"), format!("{oidc}{own}"), format!("{own}{oidc}")].contains(&path.to_owned())
}

/// Returns the document for clients that use this origin.
pub(super) fn metadata_document(core: &AuthCore, origin: &str) -> Value {
    let script = core.script();
    let base = format!("{origin}{}", script.path);
    let mut grants = vec!["authorization_code", "client_credentials"];
    if script.refresh != super::RefreshTokenPolicy::Never {
        grants.push("refresh_token");
    }
    grants.push("urn:ietf:params:oauth:grant-type:jwt-bearer");
    grants.push("urn:ietf:params:oauth:grant-type:token-exchange");
    let mut document = json!({
        "issuer": core.issuer_at(origin),
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "revocation_endpoint": format!("{base}/revoke"),
        "jwks_uri": format!("{base}/jwks"),
        "userinfo_endpoint": format!("{base}/userinfo"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "token_endpoint_auth_methods_supported":
            ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"],
        "token_endpoint_auth_signing_alg_values_supported": ["ES256", "EdDSA", "RS256", "PS256"],
    });
    if script.device {
        grants.push("urn:ietf:params:oauth:grant-type:device_code");
        document["device_authorization_endpoint"] = json!(format!("{base}/device"));
    }
    document["grant_types_supported"] = json!(grants);
    if script.registration {
        document["registration_endpoint"] = json!(format!("{base}/register"));
    }
    if script.iss {
        document["authorization_response_iss_parameter_supported"] = json!(true);
    }
    if script.dpop {
        document["dpop_signing_alg_values_supported"] = json!(["ES256", "EdDSA"]);
    }
    if !script.scopes.is_empty() {
        document["scopes_supported"] = json!(script.scopes);
    }
    for (member, value) in &script.metadata {
        document[member] = value.clone();
    }
    if let Some(members) = document.as_object_mut() {
        members.retain(|member, _| !script.metadata_off.contains(member));
    }
    document
}
