//! Owns what a refusal means: which of a renewal, a login or nothing at all is worth another try.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::authorize::Want;
use super::held::Login;
use super::made::Run;
use super::renew::is_passing;
use super::{Inner, Refusal};
use crate::challenge::Challenge;
use crate::error::{AuthError, AuthErrorKind};

/// What is to be done about a refusal.
enum Plan {
    /// The token is renewed; if that cannot be, a new login is had.
    Renew(Arc<Login>),
    /// A new login is had.
    Authorize(Box<Want>),
    /// Nothing helps.
    Nothing(AuthError),
}

/// What the server last said of how to be let in.
#[derive(Default)]
pub(super) struct Seen {
    last: Mutex<Option<Challenge>>,
}

/// For how long it is pointless to ask for the same scopes again.
const ASKED: Duration = Duration::from_secs(10 * 60);

impl Inner {
    pub(super) async fn answer(self: &Arc<Self>, refusal: &Refusal) -> Result<(), AuthError> {
        if self.held.generation() > refusal.generation {
            // Somebody else was refused first, and we are somebody else by now.
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
        // No login is begun whose tokens could not be sent.
        self.ctx.net.check_encrypted(&self.ctx.url)?;
        let answered = match self.plan(refusal, challenge) {
            Plan::Nothing(error) => Err(error),
            Plan::Authorize(want) => self.authorization(*want, refusal.quiet).await,
            Plan::Renew(login) => match self.renewed(&login.record.access).await {
                Ok(()) => {
                    self.answers.add_renewed(refusal, self.held.generation());
                    Ok(())
                }
                // What may pass passes by itself; what is wrong with the configuration, no login mends.
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
        // SC-03. A 401 can ask for scopes as well; but where they are configured, or the token has simply ended, that
        // is not what it is about.
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
            // A call goes on as far as it can; what nobody waits for does not.
            if refusal.quiet && self.answers.is_pointless(refusal) {
                return Plan::Nothing(forbidden(&want.challenge));
            }
            return Plan::Renew(login);
        }
        Plan::Authorize(Box::new(want))
    }

    /// Without a login, a 401 is what one is begun for. A 403 is not, unless it asks for scopes.
    fn plan_first(&self, refusal: &Refusal, want: Want) -> Plan {
        match refusal.status {
            403 if !want.challenge.is_insufficient_scope() => Plan::Nothing(forbidden(&want.challenge)),
            403 if !self.answers.take_round(&refusal.operation) => {
                Plan::Nothing(insufficient(&want.challenge))
            }
            _ => Plan::Authorize(Box::new(want)),
        }
    }

    /// AX-07: the nonce came with the refusal, and was learnt. Nothing is wrong with the token.
    fn answer_nonce(&self) -> Result<(), AuthError> {
        let key = self.held.login().and_then(|login| login.key.clone());
        if key.is_some_and(|key| key.nonces().get(&self.ctx.url).is_some()) {
            return Ok(());
        }
        let what = "the server wants a nonce in proofs, and gave none";
        Err(AuthError::new(AuthErrorKind::Untrusted, what))
    }

    /// Runs the command for headers again, unless that was just done for the same. `true`: it made something else.
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

    /// Why no login is begun.
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

/// TK-04: final, whoever we are.
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
