//! Decides what a 401 or 403 calls for: a refresh, another run of the headers command, a login, or
//! nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Inner;
use super::authorize::LoginReason;
use super::current::ActiveLogin;
use super::headers_command::RunReason;
use super::refusals::RefusedRequest;
use crate::challenge::Challenge;
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

/// How long the same scopes are not requested again after a login that requested them.
const SCOPE_RETRY_INTERVAL: Duration = Duration::from_secs(10 * 60);

impl Inner {
    pub(super) async fn reauthenticate(self: &Arc<Self>, refusal: &RefusedRequest) -> Result<(), AuthError> {
        if self.current.generation() > refusal.generation {
            // The credentials have changed since the request was sent; retry with the new ones.
            return Ok(());
        }
        let challenge = Challenge::parse(&refusal.challenges);
        self.refusals.set_last_challenge(&challenge);
        if challenge.wants_nonce() {
            return self.check_nonce_learned();
        }
        if self.headers.is_some() && self.rerun_headers_command(refusal).await? {
            return Ok(());
        }
        if !self.uses_logins() {
            return Err(self.logins_disabled_error());
        }
        // Start no login whose tokens must not be sent.
        self.ctx.http_client.check_encrypted(&self.ctx.url)?;
        let answered = match self.plan(refusal, challenge) {
            Plan::GiveUp(error) => Err(error),
            Plan::Authorize(want) => self.request_login(*want, refusal.background).await,
            Plan::Refresh(login) => match self.wait_for_refresh(&login.record.access).await {
                Ok(()) => {
                    self.refusals.add_refresh(refusal, self.current.generation());
                    Ok(())
                }
                // A temporary failure passes without a login, and a login does not fix the
                // configuration.
                Err(error) if error.may_pass() || error.kind == AuthErrorKind::Setup => Err(error),
                Err(error) => {
                    let mut want = LoginReason::from_challenge(Challenge::parse(&refusal.challenges));
                    want.refused_token = Some(login.record.access.clone());
                    want.refresh_error = Some(error);
                    self.request_login(want, refusal.background).await
                }
            },
        };
        if answered.as_ref().is_err_and(|error| error.kind == AuthErrorKind::LoginNeeded) {
            self.set_login_missing(true);
        }
        answered
    }

    fn plan(&self, refusal: &RefusedRequest, challenge: Challenge) -> Plan {
        let login = self.current.login();
        let mut want = LoginReason::from_challenge(challenge);
        let Some(login) = login else { return self.plan_without_login(refusal, want) };
        let record = &login.record;
        want.refused_token = Some(record.access.clone());
        want.was_accepted = self.refusals.was_accepted(refusal);
        let now = SystemTime::now();
        let ended = record.expires_at.is_some_and(|end| end <= now);
        let asked = want.challenge.scope.as_deref().unwrap_or_default();
        let held = |scope: &String| record.requested.contains(scope) || record.scopes().contains(scope);
        if refusal.status == 403 && !want.challenge.is_insufficient_scope() {
            return Plan::GiveUp(forbidden_error(&want.challenge));
        }
        // SC-03. A 401 can ask for scopes too. It is not about scopes where they are configured, or
        // where the token has simply expired.
        let wants_more = asked.iter().any(|scope| !held(scope)) && self.ctx.auth.scope.is_none() && !ended;
        if refusal.status == 403 || wants_more {
            let age = now.duration_since(record.logged_in_at).unwrap_or_default();
            let was_asked =
                asked.iter().all(|scope| record.requested.contains(scope)) && age < SCOPE_RETRY_INTERVAL;
            if was_asked || !self.refusals.take_login(&refusal.operation) {
                return Plan::GiveUp(insufficient_scope_error(&want.challenge));
            }
            want.needs_more_scopes = true;
            return Plan::Authorize(Box::new(want));
        }
        if record.is_refreshable() && !self.refusals.was_just_refreshed(refusal) {
            // A call is retried as far as possible; background work gives up.
            if refusal.background && self.refusals.is_refresh_futile(refusal) {
                return Plan::GiveUp(forbidden_error(&want.challenge));
            }
            return Plan::Refresh(login);
        }
        Plan::Authorize(Box::new(want))
    }

    /// Plans for a request without a login: a 401 starts one; a 403 only if it asks for scopes.
    fn plan_without_login(&self, refusal: &RefusedRequest, want: LoginReason) -> Plan {
        match refusal.status {
            403 if !want.challenge.is_insufficient_scope() => Plan::GiveUp(forbidden_error(&want.challenge)),
            403 if !self.refusals.take_login(&refusal.operation) => {
                Plan::GiveUp(insufficient_scope_error(&want.challenge))
            }
            _ => Plan::Authorize(Box::new(want)),
        }
    }

    // AX-07: the nonce came with the refusal and is known by now. The token itself is fine.
    fn check_nonce_learned(&self) -> Result<(), AuthError> {
        let key = self.current.login().and_then(|login| login.dpop_key.clone());
        if key.is_some_and(|key| key.nonces().get(&self.ctx.url).is_some()) {
            return Ok(());
        }
        let what = "the server wants a nonce in proofs, and gave none";
        Err(AuthError::new(AuthErrorKind::Untrusted, what))
    }

    /// Runs the headers command again, unless it just ran for the same refusal. Returns `true` if
    /// the headers changed.
    async fn rerun_headers_command(self: &Arc<Self>, refusal: &RefusedRequest) -> Result<bool, AuthError> {
        if !self.refusals.was_command_futile(refusal) {
            self.run_headers_command(if refusal.background {
                RunReason::Background
            } else {
                RunReason::Call
            })
            .await?;
            if self.current.generation() > refusal.generation {
                return Ok(true);
            }
            self.refusals.add_futile_command(refusal);
        }
        if self.current.login().is_some() {
            return Ok(false);
        }
        let code = refusal.status;
        let what = format!("the server refused the headers that the headers command made ({code})");
        Err(AuthError::new(AuthErrorKind::Refused, what)
            .hint("check what the command prints; it was run again, with the same result"))
    }

    /// Explains why no login is started.
    fn logins_disabled_error(&self) -> AuthError {
        if self.has_configured_authorization {
            AuthError::new(
                AuthErrorKind::LoginNeeded,
                "the server refused the configured Authorization header",
            )
            .hint("correct it, or remove it from the configuration to log in instead")
        } else {
            AuthError::new(
                AuthErrorKind::LoginNeeded,
                "the server requires a login, which the configuration turns off",
            )
            .hint("allow it in the server's `auth`, or configure an Authorization header")
        }
    }
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
