//! Owns how a client proves itself to an authorization server (AR-05).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bowline_config::{Secret, TokenAuth};
use url::form_urlencoded::byte_serialize;

use super::post::Form;
use crate::client::OAuthClient;
use crate::error::{AuthError, AuthErrorKind, said};
use crate::jwt;
use crate::place::Metadata;

/// Adds to a request what proves that it is this client's, in the one way that the client is registered for.
pub(crate) fn prove(client: &OAuthClient, metadata: &Metadata, form: &mut Form) -> Result<(), AuthError> {
    if client.issuer != metadata.issuer {
        // AR-04. Nothing that looks like a client of one issuer may reach another, whatever went wrong before.
        let what = format!(
            "the client {} is known to {}, and is not shown to {}",
            said(&client.id),
            said(&client.issuer),
            said(&metadata.issuer)
        );
        return Err(AuthError::new(AuthErrorKind::Untrusted, what));
    }
    match client.method {
        TokenAuth::None => form.add("client_id", &client.id),
        TokenAuth::Post => {
            form.add("client_id", &client.id);
            form.add("client_secret", secret(client)?.expose());
        }
        TokenAuth::Basic => form.authorize(basic(&client.id, secret(client)?)),
        TokenAuth::PrivateKeyJwt => {
            form.add("client_id", &client.id);
            form.add("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
            form.add("client_assertion", jwt::assertion(client, metadata)?.expose());
        }
    }
    Ok(())
}

/// The `Authorization` of a client with a secret. Both parts are encoded as in a form first (RFC 6749 §2.3.1), so
/// that a colon in one of them is no end of it.
pub(super) fn basic(id: &str, secret: &Secret) -> Secret {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret.expose()));
    Secret::new(format!("Basic {}", BASE64_STANDARD.encode(pair)))
}

fn secret(client: &OAuthClient) -> Result<&Secret, AuthError> {
    client.secret.as_ref().ok_or_else(|| {
        let what = format!(
            "the client {} proves itself by {}, and has no secret",
            said(&client.id),
            client.method.as_str()
        );
        AuthError::new(AuthErrorKind::Setup, what).hint("give `client_secret` in the client's settings")
    })
}
