//! Owns how a client authenticates at an authorization server (AR-05): what each proof adds to a
//! request, which proofs are tried in which order, and which one is remembered.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bowline_config::{Secret, TokenAuth};
use bowline_store::{Key, Precondition};
use serde_json::{Map, Value};
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::form_post::{PostForm, TokenEndpointError, post, post_ignoring_body};
use crate::client::{ClientOrigin, OAuthClient};
use crate::client_auth_method;
use crate::context::AuthContext;
use crate::discovery::Metadata;
use crate::dpop;
use crate::error::{AuthError, AuthErrorKind, sanitize, sanitize_url};
use crate::jwt;

/// Sends requests as a client to an authorization server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientSender<'a> {
    pub(crate) ctx: &'a AuthContext,
    pub(crate) metadata: &'a Metadata,
    /// `None` if the assertion identifies the sender (AX-08).
    pub(crate) client: Option<&'a OAuthClient>,
}

/// What a request carries to authenticate the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientProof {
    /// As the method says, and always with `client_id` in the body: the authorization servers of
    /// the Python SDK, FastMCP and the TypeScript SDK look for it there with every method.
    Method(TokenAuth),
    /// The header of `client_secret_basic` and nothing in the body, for authorization servers that
    /// count `client_id` in the body as a second credential.
    HeaderOnly,
}

/// The proofs that are left to try for one request.
///
/// `invalid_client` is decided before the grant is examined (RFC 6749 §5.2), so that the same code
/// or refresh token can be sent again with another proof.
struct ClientProofs<'a> {
    sender: ClientSender<'a>,
    client: &'a OAuthClient,
    current: ClientProof,
    left: Vec<ClientProof>,
    /// Why the first proof was refused. Reported if no other proof is accepted.
    refusal: Option<TokenEndpointError>,
    /// The proof that the next request starts with.
    remembered: ClientProof,
}

/// The record kind for clients whose working proof differs from the registered one.
const RECORD_KIND: &str = "client-auth";

// === impl ClientSender ===

impl ClientSender<'_> {
    /// Posts a form as the client, and returns the JSON object of the response.
    pub(crate) async fn post(
        &self,
        url: &Url,
        form: &PostForm,
        dpop: Option<&dpop::Key>,
    ) -> Result<Map<String, Value>, TokenEndpointError> {
        let Some(mut proofs) = ClientProofs::new(*self).await? else {
            return post(self.ctx, url, form, dpop).await;
        };
        loop {
            let outcome = post(self.ctx, url, &proofs.apply_to(form)?, dpop).await;
            if let Some(outcome) = proofs.finish(outcome).await {
                return outcome;
            }
        }
    }

    /// Posts a form as the client whose successful response has no meaningful body.
    pub(crate) async fn post_ignoring_body(
        &self,
        url: &Url,
        form: &PostForm,
    ) -> Result<(), TokenEndpointError> {
        let Some(mut proofs) = ClientProofs::new(*self).await? else {
            return post_ignoring_body(self.ctx, url, form).await;
        };
        loop {
            let outcome = post_ignoring_body(self.ctx, url, &proofs.apply_to(form)?).await;
            if let Some(outcome) = proofs.finish(outcome).await {
                return outcome;
            }
        }
    }
}

// === impl ClientProofs ===

impl<'a> ClientProofs<'a> {
    /// Starts with the remembered proof, or else the registered one, followed by the others that
    /// the client supports and the metadata allows. Returns `None` if there is no client.
    async fn new(sender: ClientSender<'a>) -> Result<Option<Self>, AuthError> {
        let Some(client) = sender.client else { return Ok(None) };
        check_issuer(client, sender.metadata)?;
        let registered = ClientProof::Method(client.method);
        let mut left = vec![registered];
        if !is_fixed(sender.ctx, client) {
            let offered = sender.metadata.token_endpoint_auth_methods_supported.as_deref();
            let others = client_auth_method::alternatives(client, offered).map(ClientProof::Method);
            left.extend(others.filter(|proof| *proof != registered));
        }
        let remembered = match sender.remembered_proof(client).await {
            Some(ClientProof::HeaderOnly) if left.contains(&ClientProof::Method(TokenAuth::Basic)) => {
                ClientProof::HeaderOnly
            }
            Some(proof) if left.contains(&proof) => proof,
            _ => registered,
        };
        left.retain(|proof| *proof != remembered);
        Ok(Some(Self { sender, client, current: remembered, left, refusal: None, remembered }))
    }

    /// Adds the current proof to a form.
    fn apply_to(&self, form: &PostForm) -> Result<PostForm, AuthError> {
        let client = self.client;
        let mut form = form.clone();
        if self.current != ClientProof::HeaderOnly {
            form.add("client_id", &client.id);
        }
        match self.current {
            ClientProof::Method(TokenAuth::None) => {}
            ClientProof::Method(TokenAuth::Post) => {
                form.set("client_secret", client_secret(client)?.expose());
            }
            ClientProof::Method(TokenAuth::Basic) | ClientProof::HeaderOnly => {
                form.authorize(basic_authorization(&client.id, client_secret(client)?));
            }
            ClientProof::Method(TokenAuth::PrivateKeyJwt) => {
                form.add("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
                form.add("client_assertion", jwt::client_assertion(client, self.sender.metadata)?.expose());
            }
        }
        Ok(form)
    }

    /// The final outcome of a request; `None` if another proof is to be tried.
    async fn finish<T>(
        &mut self,
        outcome: Result<T, TokenEndpointError>,
    ) -> Option<Result<T, TokenEndpointError>> {
        match outcome {
            Err(refusal) if self.advance(&refusal) => {
                tracing::debug!(
                    server = %self.sender.ctx.server, refused = %refusal.error, next = self.current.name(),
                    "another client authentication method is tried"
                );
                self.refusal.get_or_insert(refusal);
                None
            }
            Err(refusal) if refusal.has_code(INVALID_CLIENT) || refusal.has_code(INVALID_REQUEST) => {
                Some(Err(self.refusal.take().unwrap_or(refusal)))
            }
            outcome => {
                // A server that gives another error code has accepted the client. Without a code,
                // nothing is known.
                if outcome.as_ref().err().is_none_or(|refusal| refusal.code.is_some()) {
                    self.remember().await;
                }
                Some(outcome)
            }
        }
    }

    /// Moves to the next proof after a refusal. Returns whether there is one.
    fn advance(&mut self, refusal: &TokenEndpointError) -> bool {
        let basic = self.current == ClientProof::Method(TokenAuth::Basic);
        // "Includes multiple credentials" is `invalid_request` (RFC 6749 §5.2).
        if basic && refusal.has_code(INVALID_REQUEST) && self.remembered != ClientProof::HeaderOnly {
            self.current = ClientProof::HeaderOnly;
            return true;
        }
        if !refusal.has_code(INVALID_CLIENT) || self.left.is_empty() {
            return false;
        }
        self.current = self.left.remove(0);
        true
    }

    /// Remembers the current proof for the next request. If that fails, it is found again.
    async fn remember(&self) {
        if self.current == self.remembered {
            return;
        }
        let ClientSender { ctx, metadata, .. } = self.sender;
        let written =
            ctx.store.put(&record_key(self.client, metadata), &self.current.name(), Precondition::Any).await;
        if let Err(error) = written {
            tracing::debug!(server = %ctx.server, %error, "the client authentication method is not remembered");
        }
    }
}

impl ClientSender<'_> {
    async fn remembered_proof(&self, client: &OAuthClient) -> Option<ClientProof> {
        // A client without secret or key has only one proof.
        if client.method == TokenAuth::None {
            return None;
        }
        let (name, _) = self.ctx.store.get::<String>(&record_key(client, self.metadata)).await.ok()??;
        ClientProof::from_name(&name)
    }
}

impl ClientProof {
    fn name(self) -> &'static str {
        match self {
            Self::Method(method) => method.as_str(),
            Self::HeaderOnly => HEADER_ONLY,
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        if name == HEADER_ONLY {
            Some(Self::HeaderOnly)
        } else {
            TokenAuth::from_name(name).map(Self::Method)
        }
    }
}

const HEADER_ONLY: &str = "client_secret_basic, header only";
const INVALID_CLIENT: &str = "invalid_client";
const INVALID_REQUEST: &str = "invalid_request";

/// Whether the configuration fixes the method: then no other is tried.
fn is_fixed(ctx: &AuthContext, client: &OAuthClient) -> bool {
    let method = ctx.auth.client.as_ref().and_then(|settings| settings.method);
    client.origin == ClientOrigin::Configured && method.is_some()
}

fn record_key(client: &OAuthClient, metadata: &Metadata) -> Key {
    Key::new(RECORD_KIND, format!("{} at {}", client.id, metadata.issuer))
}

// AR-04: the credentials of a client must never reach another issuer, whatever went wrong before.
fn check_issuer(client: &OAuthClient, metadata: &Metadata) -> Result<(), AuthError> {
    if client.issuer == metadata.issuer {
        return Ok(());
    }
    let what = format!(
        "the client {} is registered at {}, so its credentials are not sent to {}",
        sanitize(&client.id),
        sanitize_url(&client.issuer),
        sanitize_url(&metadata.issuer)
    );
    Err(AuthError::new(AuthErrorKind::Untrusted, what))
}

/// The `Authorization` header of `client_secret_basic`. Both parts are form-encoded first (RFC 6749
/// §2.3.1), so that they may contain a colon. A space becomes `%20`, which form decoders and
/// percent decoders both accept.
pub(super) fn basic_authorization(id: &str, secret: &Secret) -> Secret {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
    let pair = format!("{}:{}", encoded(id), encoded(secret.expose()));
    Secret::new(format!("Basic {}", BASE64_STANDARD.encode(pair)))
}

fn client_secret(client: &OAuthClient) -> Result<&Secret, AuthError> {
    client.secret.as_ref().ok_or_else(|| {
        let what = format!(
            "the client {} authenticates by {}, but has no secret",
            sanitize(&client.id),
            client.method.as_str()
        );
        AuthError::new(AuthErrorKind::Setup, what).hint("set `client_secret` in the server's `auth`")
    })
}

#[cfg(test)]
mod tests;
