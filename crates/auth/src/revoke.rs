//! Revokes tokens at the authorization server (RFC 7009).

use bowline_config::Secret;

use crate::client::OAuthClient;
use crate::context::AuthContext;
use crate::discovery::Metadata;
use crate::error::AuthError;
use crate::grant::{ClientSender, PostForm};
use crate::record::LoginRecord;

/// The tokens of a login.
#[derive(Clone, Copy)]
struct TokenPair<'a> {
    access: &'a Secret,
    refresh: Option<&'a Secret>,
}

/// Revokes the tokens of a login. Returns whether the authorization server supports that.
pub(crate) async fn revoke_tokens(ctx: &AuthContext, record: &LoginRecord) -> Result<bool, AuthError> {
    let client = record.client(&ctx.auth)?;
    let tokens = TokenPair { access: &record.access, refresh: record.refresh.as_ref() };
    revoke(ctx, &record.metadata, client.as_ref(), tokens).await
}

/// Revokes the refresh token first, because many servers revoke its access tokens with it, then the
/// access token. Both are tried, even if the first fails.
async fn revoke(
    ctx: &AuthContext,
    metadata: &Metadata,
    client: Option<&OAuthClient>,
    held: TokenPair<'_>,
) -> Result<bool, AuthError> {
    let Some(endpoint) = &metadata.revocation_endpoint else { return Ok(false) };
    let sender = ClientSender { ctx, metadata, client };
    let (mut outcome, mut blank_secret) = (Ok(true), false);
    let tokens = held.refresh.map(|token| ("refresh_token", token)).into_iter();
    for (hint, token) in tokens.chain([("access_token", held.access)]) {
        let mut form = PostForm::default();
        form.add("token", token.expose());
        form.add("token_type_hint", hint);
        if blank_secret {
            form.set("client_secret", "");
        }
        let mut ended = sender.post_ignoring_body(endpoint, &form).await;
        // The Python SDK requires the field here with every method. An empty value counts as
        // omitted (RFC 6749 §3.2).
        if !blank_secret && ended.as_ref().is_err_and(|refusal| refusal.has_code("invalid_request")) {
            blank_secret = true;
            form.set("client_secret", "");
            ended = sender.post_ignoring_body(endpoint, &form).await;
        }
        match ended {
            Ok(()) => {}
            // The server cannot revoke this kind alone; it ends with the refresh token.
            Err(refusal) if refusal.has_code("unsupported_token_type") && held.refresh.is_some() => {}
            Err(refusal) if outcome.is_ok() => outcome = Err(refusal.into_error()),
            Err(_) => {}
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use bowline_config::{AuthSettings, TokenAuth};
    use bowline_testkit::{AuthClient, AuthFault, AuthServer, CannedResponse};

    use super::*;
    use crate::error::AuthErrorKind;
    use crate::testing::{CLIENT_ID, CLIENT_SECRET, RESOURCE, client, ctx, discovery};

    async fn server() -> AuthServer {
        AuthServer::builder().client(AuthClient::basic(CLIENT_ID, CLIENT_SECRET)).start().await
    }

    async fn revoked(server: &AuthServer) -> Result<bool, AuthError> {
        let issued = server.issue(CLIENT_ID, "a", RESOURCE);
        let (access, refresh) = (Secret::new(issued.access_token), Secret::new(issued.refresh_token));
        let held = TokenPair { access: &access, refresh: Some(&refresh) };
        let client = client(server, TokenAuth::Basic);
        let outcome =
            revoke(&ctx(AuthSettings::default()), &discovery(server).metadata, Some(&client), held).await;
        assert_eq!(server.is_valid_access_token(access.expose()), !matches!(outcome, Ok(true)));
        outcome
    }

    #[tokio::test]
    async fn the_refresh_token_ends_first() {
        let server = server().await;
        assert!(revoked(&server).await.unwrap());
        let seen = server.received_at("revoke");
        let hints: Vec<_> = seen.iter().map(|seen| seen.field("token_type_hint").unwrap()).collect();
        assert_eq!(hints, ["refresh_token", "access_token"]);
        assert!(seen.iter().all(|seen| seen.client_auth == "client_secret_basic"));
    }

    #[tokio::test]
    async fn what_the_answer_looks_like_does_not_matter() {
        let server = server().await;
        server.arm(
            AuthFault::response(CannedResponse::new(200).html("<p>OK</p>")).on("revoke").executed().times(2),
        );
        assert!(revoked(&server).await.unwrap());
    }

    // As the Python SDK does.
    #[tokio::test]
    async fn a_secret_is_left_blank_where_the_field_is_wanted() {
        let server = server().await;
        // With and without `client_id`.
        server.arm(
            AuthFault::error_with(400, "invalid_request", "client_secret: Field required")
                .on("revoke")
                .times(2),
        );
        assert!(revoked(&server).await.unwrap());
        let seen = server.received_at("revoke");
        let secrets: Vec<_> = seen.iter().map(|seen| seen.field("client_secret")).collect();
        assert_eq!(secrets, [None, None, Some(""), Some("")]);
    }

    #[tokio::test]
    async fn a_failure_is_told_and_both_are_tried() {
        let server = server().await;
        server.arm(AuthFault::status(503).on("revoke").times(2));
        assert_eq!(revoked(&server).await.unwrap_err().kind, AuthErrorKind::Unavailable);
        assert_eq!(server.count("revoke"), 2);
    }

    #[tokio::test]
    async fn where_it_is_not_offered_nobody_is_asked() {
        let server = server().await;
        let mut metadata = discovery(&server).metadata;
        metadata.revocation_endpoint = None;
        let held = TokenPair { access: &Secret::new("a"), refresh: None };
        assert!(!revoke(&ctx(AuthSettings::default()), &metadata, None, held).await.unwrap());
        assert_eq!(server.count("revoke"), 0);
    }
}
