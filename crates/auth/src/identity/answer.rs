//! Decides what a 401 or 403 calls for: a refresh, another run of the headers command, a login, or
//! nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::authorize::Want;
use super::held::Login;
use super::made::Run;
use super::renew::is_passing;
use super::{Inner, Refusal};
use crate::challenge::Challenge;
use crate::error::{AuthError, AuthErrorKind};

/// The measure that a refused request calls for.
enum Plan {
    /// Refresh the token; if that fails permanently, log in again.
    Renew(Arc<Login>),
    /// Obtain a new login.
    Authorize(Box<Want>),
    /// Nothing helps; report this error.
    Nothing(AuthError),
}

/// The challenge that the server sent last.
#[derive(Default)]
pub(super) struct Seen {
    last: Mutex<Option<Challenge>>,
}

/// How long the same scopes are not requested again after a login that requested them.
const ASKED: Duration = Duration::from_secs(10 * 60);

impl Inner {
    pub(super) async fn answer(self: &Arc<Self>, refusal: &Refusal) -> Result<(), AuthError> {
        if self.held.generation() > refusal.generation {
            // The credentials have changed since the request was sent; retry with the new ones.
            return Ok(());
        }
        let challenge = Challenge::parse(&refusal.challenge);
        self.seen.set(&challenge);
        if challenge.wants_nonce() {
            return self.answer_nonce();
        }
        if self.headers.is_some() && self.answer_by_command(refusal).await? {
            return Ok(());
        }
        if !self.uses_logins() {
            return Err(self.unwanted());
        }
        // Start no login whose tokens must not be sent.
        self.ctx.net.check_encrypted(&self.ctx.url)?;
        let answered = match self.plan(refusal, challenge) {
            Plan::Nothing(error) => Err(error),
            Plan::Authorize(want) => self.authorization(*want, refusal.quiet).await,
            Plan::Renew(login) => match self.renewed(&login.record.access).await {
                Ok(()) => {
                    self.answers.add_renewed(refusal, self.held.generation());
                    Ok(())
                }
                // A temporary failure passes without a login, and a login does not fix the
                // configuration.
                Err(error) if is_passing(&error) || error.kind == AuthErrorKind::Setup => Err(error),
                Err(error) => {
                    let mut want = Want::of(Challenge::parse(&refusal.challenge));
                    want.stale = Some(login.record.access.clone());
                    want.why = Some(error);
                    self.authorization(want, refusal.quiet).await
                }
            },
        };
        if answered.as_ref().is_err_and(|error| error.kind == AuthErrorKind::LoginNeeded) {
            self.set_missing(true);
        }
        answered
    }

    fn plan(&self, refusal: &Refusal, challenge: Challenge) -> Plan {
        let login = self.held.login();
        let mut want = Want::of(challenge);
        let Some(login) = login else { return self.plan_first(refusal, want) };
        let record = &login.record;
        want.stale = Some(record.access.clone());
        want.was_let_in = self.answers.was_let_in(refusal);
        let now = SystemTime::now();
        let ended = record.expires_at.is_some_and(|end| end <= now);
        let asked = want.challenge.scope.as_deref().unwrap_or_default();
        let held = |scope: &String| record.requested.contains(scope) || record.scopes().contains(scope);
        if refusal.status == 403 && !want.challenge.is_insufficient_scope() {
            return Plan::Nothing(forbidden(&want.challenge));
        }
        // SC-03. A 401 can ask for scopes too. It is not about scopes where they are configured, or
        // where the token has simply expired.
        let wants_more = asked.iter().any(|scope| !held(scope)) && self.ctx.auth.scope.is_none() && !ended;
        if refusal.status == 403 || wants_more {
            let age = now.duration_since(record.logged_in_at).unwrap_or_default();
            let was_asked = asked.iter().all(|scope| record.requested.contains(scope)) && age < ASKED;
            if was_asked || !self.answers.take_round(&refusal.operation) {
                return Plan::Nothing(insufficient(&want.challenge));
            }
            want.more = true;
            return Plan::Authorize(Box::new(want));
        }
        if record.is_renewable() && !self.answers.is_repeated(refusal) {
            // A call is retried as far as possible; background work gives up.
            if refusal.quiet && self.answers.is_pointless(refusal) {
                return Plan::Nothing(forbidden(&want.challenge));
            }
            return Plan::Renew(login);
        }
        Plan::Authorize(Box::new(want))
    }

    /// Plans for a request without a login: a 401 starts one; a 403 only if it asks for scopes.
    fn plan_first(&self, refusal: &Refusal, want: Want) -> Plan {
        match refusal.status {
            403 if !want.challenge.is_insufficient_scope() => Plan::Nothing(forbidden(&want.challenge)),
            403 if !self.answers.take_round(&refusal.operation) => {
                Plan::Nothing(insufficient(&want.challenge))
            }
            _ => Plan::Authorize(Box::new(want)),
        }
    }

    // AX-07: the nonce came with the refusal and is known by now. The token itself is fine.
    fn answer_nonce(&self) -> Result<(), AuthError> {
        let key = self.held.login().and_then(|login| login.key.clone());
        if key.is_some_and(|key| key.nonces().get(&self.ctx.url).is_some()) {
            return Ok(());
        }
        let what = "the server wants a nonce in proofs, and gave none";
        Err(AuthError::new(AuthErrorKind::Untrusted, what))
    }

    /// Runs the headers command again, unless it just ran for the same refusal. Returns `true` if
    /// the headers changed.
    async fn answer_by_command(self: &Arc<Self>, refusal: &Refusal) -> Result<bool, AuthError> {
        if !self.answers.was_in_vain(refusal) {
            self.run_headers(if refusal.quiet { Run::Quiet } else { Run::Call }).await?;
            if self.held.generation() > refusal.generation {
                return Ok(true);
            }
            self.answers.add_in_vain(refusal);
        }
        if self.held.login().is_some() {
            return Ok(false);
        }
        let code = refusal.status;
        let what = format!("the server refused the headers that the headers command made ({code})");
        Err(AuthError::new(AuthErrorKind::Refused, what)
            .hint("see what the command prints; it was run again, and printed the same"))
    }

    /// Explains why no login is started.
    fn unwanted(&self) -> AuthError {
        if self.fixed {
            AuthError::new(
                AuthErrorKind::LoginNeeded,
                "the server refused the configured Authorization header",
            )
            .hint("correct it, or take it out of the configuration to log in instead")
        } else {
            AuthError::new(
                AuthErrorKind::LoginNeeded,
                "the server wants a login, which the configuration turns off",
            )
            .hint("allow it in the server's `auth`, or configure an Authorization header")
        }
    }
}

// TK-04: a 403 without `insufficient_scope` is final, whichever account is used.
fn forbidden(challenge: &Challenge) -> AuthError {
    let words = challenge.error_description.as_ref().or(challenge.error.as_ref());
    let words = words.map(|words| format!(": {words}")).unwrap_or_default();
    AuthError::new(AuthErrorKind::Refused, format!("the server refuses this to who we are{words}"))
}

fn insufficient(challenge: &Challenge) -> AuthError {
    let scopes = challenge.scope.as_deref().unwrap_or_default().join(" ");
    let what = match scopes.as_str() {
        "" => "the server wants more than the login was granted, and does not say what".to_owned(),
        scopes => format!("the server wants the scopes {scopes:?}, and logging in did not get them"),
    };
    AuthError::new(AuthErrorKind::Insufficient, what)
        .hint("log in with an account that may do this, or ask whoever runs the server")
}

impl Seen {
    fn set(&self, challenge: &Challenge) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(challenge.clone());
    }

    pub(super) fn get(&self) -> Option<Challenge> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
