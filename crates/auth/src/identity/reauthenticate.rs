//! Decides what a 401 or 403 calls for: a refresh, another run of the headers command, a login, or
//! nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Inner;
use super::authorize::LoginReason;
use super::current::ActiveLogin;
use super::refusals::{RefusalHistory, RefusedRequest};
use crate::challenge::Challenge;
use crate::context::AuthContext;
use crate::error::{AuthError, AuthErrorKind};

/// The measure that a refused request calls for.
enum Plan {
    /// Refresh the token; if that fails permanently, log in again.
    Refresh(Arc<ActiveLogin>),
    /// Obtain a new login.
    Authorize(Box<LoginReason>),
    /// Nothing helps; report this error.
    GiveUp(AuthError),
}

/// Chooses the measure for one refused request.
struct Planner<'a> {
    refusal: &'a RefusedRequest,
    refusals: &'a RefusalHistory,
    /// Whether the configuration leaves the scopes open.
    can_add_scopes: bool,
}

/// How long the same scopes are not requested again after a login that requested them.
const SCOPE_RETRY_INTERVAL: Duration = Duration::from_secs(10 * 60);

impl Inner {
    /// Re-authenticates after a 401 or 403, by whichever part can help.
    pub(super) async fn reauthenticate(&self, refusal: &RefusedRequest) -> Result<(), AuthError> {
        if self.current.generation() > refusal.generation {
            // The credentials have changed since the request was sent; retry with the new ones.
            return Ok(());
        }
        let challenge = Challenge::parse(&refusal.challenges);
        self.refusals.set_last_challenge(&challenge);
        if challenge.wants_nonce() {
            return check_nonce_learned(&self.ctx, self.current.login().as_deref());
        }
        if let Some(headers) = &self.headers
            && headers.run_again(refusal, &self.refusals).await?
        {
            return Ok(());
        }
        self.policy.check_refusal()?;
        // Start no login whose tokens must not be sent.
        self.ctx.http_client.check_encrypted(&self.ctx.url)?;
        let planner =
            Planner { refusal, refusals: &self.refusals, can_add_scopes: self.ctx.auth.scope.is_none() };
        let plan = match self.current.login() {
            Some(login) => planner.plan_with_login(login, challenge),
            None => planner.plan_without_login(challenge),
        };
        let outcome = match plan {
            Plan::GiveUp(error) => Err(error),
            Plan::Authorize(reason) => self.authorizer.request_login(*reason, refusal.background).await,
            Plan::Refresh(login) => self.refresh_refused(&login, refusal).await,
        };
        if outcome.as_ref().is_err_and(|error| error.kind == AuthErrorKind::LoginNeeded) {
            self.login.missing.set(true);
        }
        outcome
    }

    /// Refreshes a refused token; if that fails permanently, obtains a new login.
    async fn refresh_refused(&self, login: &ActiveLogin, refusal: &RefusedRequest) -> Result<(), AuthError> {
        match self.refresher.wait(&login.record.access).await {
            Ok(()) => {
                self.refusals.add_refresh(refusal, self.current.generation());
                Ok(())
            }
            // A temporary failure passes without a login, and a login does not fix the
            // configuration.
            Err(error) if error.may_pass() || error.kind == AuthErrorKind::Setup => Err(error),
            Err(error) => {
                let mut reason = LoginReason::from_challenge(Challenge::parse(&refusal.challenges));
                reason.refused_token = Some(login.record.access.clone());
                reason.refresh_error = Some(error);
                self.authorizer.request_login(reason, refusal.background).await
            }
        }
    }
}

impl Planner<'_> {
    /// Plans for a request that carried a token.
    fn plan_with_login(&self, login: Arc<ActiveLogin>, challenge: Challenge) -> Plan {
        let Self { refusal, refusals, can_add_scopes } = *self;
        let mut reason = LoginReason::from_challenge(challenge);
        let record = &login.record;
        reason.refused_token = Some(record.access.clone());
        reason.was_accepted = refusals.was_accepted(refusal);
        let now = SystemTime::now();
        let expired = record.expires_at.is_some_and(|end| end <= now);
        let asked = reason.challenge.scope.as_deref().unwrap_or_default();
        let held = |scope: &String| record.requested.contains(scope) || record.scopes().contains(scope);
        if refusal.status == 403 && !reason.challenge.is_insufficient_scope() {
            return Plan::GiveUp(forbidden_error(&reason.challenge));
        }
        // SC-03. A 401 can ask for scopes too. It is not about scopes where they are configured, or
        // where the token has simply expired.
        let wants_more = asked.iter().any(|scope| !held(scope)) && can_add_scopes && !expired;
        if refusal.status == 403 || wants_more {
            let age = now.duration_since(record.logged_in_at).unwrap_or_default();
            let was_asked =
                asked.iter().all(|scope| record.requested.contains(scope)) && age < SCOPE_RETRY_INTERVAL;
            if was_asked || !refusals.take_login(&refusal.operation) {
                return Plan::GiveUp(insufficient_scope_error(&reason.challenge));
            }
            reason.needs_more_scopes = true;
            return Plan::Authorize(Box::new(reason));
        }
        if record.is_refreshable() && !refusals.was_just_refreshed(refusal) {
            // A call is retried as far as possible; background work gives up.
            if refusal.background && refusals.is_refresh_futile(refusal) {
                return Plan::GiveUp(forbidden_error(&reason.challenge));
            }
            return Plan::Refresh(login);
        }
        Plan::Authorize(Box::new(reason))
    }

    /// Plans for a request without a login: a 401 starts one; a 403 only if it asks for scopes.
    fn plan_without_login(&self, challenge: Challenge) -> Plan {
        let Self { refusal, refusals, .. } = *self;
        match refusal.status {
            403 if !challenge.is_insufficient_scope() => Plan::GiveUp(forbidden_error(&challenge)),
            403 if !refusals.take_login(&refusal.operation) => {
                Plan::GiveUp(insufficient_scope_error(&challenge))
            }
            _ => Plan::Authorize(Box::new(LoginReason::from_challenge(challenge))),
        }
    }
}

// AX-07: the nonce came with the refusal and is known by now. The token itself is fine.
fn check_nonce_learned(ctx: &AuthContext, login: Option<&ActiveLogin>) -> Result<(), AuthError> {
    let key = login.and_then(|login| login.dpop_key.as_ref());
    if key.is_some_and(|key| key.nonces().get(&ctx.url).is_some()) {
        return Ok(());
    }
    let what = "the server requires a nonce in DPoP proofs, but sent none";
    Err(AuthError::new(AuthErrorKind::Untrusted, what))
}

// TK-04: a 403 without `insufficient_scope` is final, whichever account is used.
fn forbidden_error(challenge: &Challenge) -> AuthError {
    let words = challenge.error_description.as_ref().or(challenge.error.as_ref());
    let words = words.map(|words| format!(": {words}")).unwrap_or_default();
    AuthError::new(AuthErrorKind::Refused, format!("the server denies this to the current account{words}"))
}

fn insufficient_scope_error(challenge: &Challenge) -> AuthError {
    let scopes = challenge.scope.as_deref().unwrap_or_default().join(" ");
    let what = match scopes.as_str() {
        "" => "the server requires more permissions than the login has, and does not say which".to_owned(),
        scopes => format!("the server requires the scopes {scopes:?}, which the login was not granted"),
    };
    AuthError::new(AuthErrorKind::Insufficient, what)
        .hint("log in with an account that may do this, or ask whoever runs the server")
}
