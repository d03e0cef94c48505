//! Decides what a login requests: from which authorization server, for which scopes and resource,
//! and bound to which key.

use std::time::SystemTime;

use super::stored_login::StoredLogin;
use crate::challenge::Challenge;
use crate::client::OAuthClient;
use crate::context::AuthContext;
use crate::discover;
use crate::discovery::Discovery;
use crate::dpop;
use crate::error::AuthError;
use crate::grant::{self, TokenRequest};
use crate::listener;
use crate::login::{self, LoginMethod, LoginParams};
use crate::prompt::LoginPrompt;
use crate::record::{GrantKind, LoginDetails, LoginRecord};
use crate::register;
use crate::resource;
use crate::scope;
use crate::tokens::Tokens;

/// Everything that is determined before a login starts.
pub(super) struct LoginPlan {
    pub(super) discovery: Discovery,
    scopes: Vec<String>,
    resource: Option<String>,
    dpop_key: Option<dpop::Key>,
}

impl LoginPlan {
    /// Runs discovery and chooses scopes, resource and DPoP key.
    // TK-04, AR-04: the authorization server may have changed since the last login.
    pub(super) async fn new(
        login: &StoredLogin,
        challenge: &Challenge,
        needs_more_scopes: bool,
        extra_scopes: &[String],
    ) -> Result<Self, AuthError> {
        let ctx = &login.ctx;
        let discovery = discover::locate(ctx, challenge).await?;
        let issuer = &discovery.metadata.issuer;
        let active = login.current.login().filter(|active| active.record.metadata.issuer == *issuer);
        let initial = scope::initial(&ctx.auth, challenge, &discovery);
        let scopes = match &active {
            Some(active) if needs_more_scopes => scope::step_up(&active.record.requested, challenge),
            Some(active) if ctx.auth.scope.is_none() => scope::union(&active.record.requested, &initial),
            _ => initial,
        };
        let scopes = scope::union(&scopes, extra_scopes);
        let resource = resource::parameter(&ctx.auth, &discovery, &ctx.url);
        let dpop_key = if dpop::should_bind_tokens(&ctx.auth, &discovery, challenge.dpop)? {
            Some(dpop::Key::load_or_create(&ctx.store, &login.store.key.id).await?)
        } else {
            None
        };
        Ok(Self { discovery, scopes, resource, dpop_key })
    }

    /// The parameters of a login with a person.
    pub(super) fn params<'a>(&'a self, ctx: &'a AuthContext) -> LoginParams<'a> {
        LoginParams {
            ctx,
            discovery: &self.discovery,
            scopes: &self.scopes,
            resource: self.resource.as_deref(),
            dpop: self.dpop_key.as_ref(),
        }
    }

    pub(super) async fn log_in_with_person(
        &self,
        ctx: &AuthContext,
        prompt: &dyn LoginPrompt,
        method: LoginMethod,
    ) -> Result<LoginRecord, AuthError> {
        let outcome = login::login(&self.params(ctx), prompt, method).await?;
        Ok(self.record(ctx, Some(&outcome.client), outcome.tokens))
    }

    pub(super) async fn log_in_without_person(&self, ctx: &AuthContext) -> Result<LoginRecord, AuthError> {
        self.discovery.check_not_guessed(&ctx.server)?;
        let client = if GrantKind::from_grant(&ctx.auth.grant) == GrantKind::Workload {
            // AX-08: the assertion identifies the workload; no client is needed.
            None
        } else {
            let redirect = listener::redirect_without_listener(&ctx.auth.redirect);
            Some(register::client_for(ctx, &self.discovery, &redirect, &self.scopes).await?)
        };
        let request = TokenRequest {
            ctx,
            metadata: &self.discovery.metadata,
            client: client.as_ref(),
            scopes: &self.scopes,
            resource: self.resource.as_deref(),
            dpop: self.dpop_key.as_ref(),
        };
        let tokens = grant::request_tokens_without_person(&request).await?;
        if let Some(client) = &client {
            // The tokens matter more than the record of the client.
            let _ = register::confirm_client(ctx, client).await;
        }
        Ok(self.record(ctx, client.as_ref(), tokens))
    }

    fn record(&self, ctx: &AuthContext, client: Option<&OAuthClient>, tokens: Tokens) -> LoginRecord {
        let details = LoginDetails {
            server: &ctx.server,
            url: &ctx.url,
            auth: &ctx.auth,
            metadata: &self.discovery.metadata,
            resource: self.resource.clone(),
            client,
            requested: self.scopes.clone(),
            dpop: self.dpop_key.as_ref(),
        };
        LoginRecord::new(details, tokens, SystemTime::now())
    }
}
