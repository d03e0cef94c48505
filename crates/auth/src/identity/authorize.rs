//! Obtains a new login, with or without a person: one login serves every refused request of every
//! process.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_config::Secret;
use bowline_store::Precondition;
use tokio::time::sleep;

use super::current::ActiveLogin;
use super::login_lease::LoginLease;
use super::login_plan::LoginPlan;
use super::policy::LoginPolicy;
use super::refresh::Refresher;
use super::refusals::NEW_TOKEN_WINDOW;
use super::single_flight::CancelableSingleFlight;
use super::stored_login::StoredLogin;
use crate::account::Account;
use crate::challenge::Challenge;
use crate::discovery::Discovery;
use crate::error::{AuthError, AuthErrorKind, sanitize_url};
use crate::login::{self, LoginMethod};
use crate::prompt::LoginPrompt;
use crate::record::{GrantKind, LoginDetails, LoginRecord};
use crate::refresh::core::{LoginSource, RetainedRight, UnsavedLogin};
use crate::refresh::due;

/// Obtains new logins for one server.
pub(super) struct Authorizer {
    login: Arc<StoredLogin>,
    refresher: Arc<Refresher>,
    prompt: Option<Arc<dyn LoginPrompt>>,
    /// Logins started by a refused request.
    runs: CancelableSingleFlight,
}

/// Why a login is needed.
#[derive(Clone, Debug)]
pub(super) struct LoginReason {
    /// The server's challenge.
    pub(super) challenge: Challenge,
    /// The token that the server refused.
    pub(super) refused_token: Option<Secret>,
    /// Whether the server wants more scopes than that token has.
    pub(super) needs_more_scopes: bool,
    /// Whether the server accepted the token before it refused it.
    pub(super) was_accepted: bool,
    /// Why the old login could not be refreshed.
    pub(super) refresh_error: Option<AuthError>,
}

/// How often the store is checked while another process is logging in.
const LEASE_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How often the store is checked for another login while a page is shown.
const STORE_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How often a failed save is retried before the login is used unsaved; about six seconds in all.
const MAX_SAVE_RETRIES: u32 = 7;

impl Authorizer {
    pub(super) fn new(
        login: Arc<StoredLogin>,
        refresher: Arc<Refresher>,
        prompt: Option<Arc<dyn LoginPrompt>>,
    ) -> Self {
        Self { login, refresher, prompt, runs: CancelableSingleFlight::default() }
    }

    /// Whether a refused request can start a login with a person.
    pub(super) fn is_interactive(&self) -> bool {
        self.prompt.is_some()
            && self.login.policy == LoginPolicy::OnRefusal
            && self.grant() == GrantKind::Person
    }

    /// Obtains a login for all refused requests at once; a person is prompted once, and not for
    /// background work.
    pub(super) async fn request_login(
        self: &Arc<Self>,
        reason: LoginReason,
        background: bool,
    ) -> Result<(), AuthError> {
        if self.grant() == GrantKind::Person && (background || !self.is_interactive()) {
            // Another process may have logged in.
            return if self.adopt_better_login(&reason).await? {
                Ok(())
            } else {
                Err(reason.login_needed_error())
            };
        }
        let authorizer = Arc::clone(self);
        self.runs.join(|| Box::pin(authorizer.authorize(reason))).await
    }

    async fn authorize(self: Arc<Self>, reason: LoginReason) -> Result<(), AuthError> {
        let backoff = &self.refresher.backoff;
        if self.grant() != GrantKind::Person
            && let Some(error) = backoff.active_error()
        {
            return Err(error);
        }
        // One process prompts the person; the others wait and adopt its login.
        let lease = loop {
            if self.adopt_better_login(&reason).await? {
                return Ok(());
            }
            if let Some(lease) = LoginLease::acquire(&self.login.store).await? {
                break lease;
            }
            tracing::debug!(server = %self.login.ctx.server, "somebody else is logging in");
            sleep(LEASE_POLL_INTERVAL).await;
        };
        if self.adopt_better_login(&reason).await? {
            return Ok(());
        }
        let outcome = lease.keep_during(Box::pin(self.run_authorization(&reason))).await;
        lease.release().await;
        match &outcome {
            Ok(()) => backoff.clear(),
            // AX-09: credentials that were rejected are not sent again with every call.
            Err(error) if self.grant() != GrantKind::Person => backoff.add(error),
            Err(_) => {}
        }
        outcome
    }

    async fn run_authorization(self: &Arc<Self>, reason: &LoginReason) -> Result<(), AuthError> {
        let ctx = &self.login.ctx;
        let plan = LoginPlan::new(&self.login, &reason.challenge, reason.needs_more_scopes, &[]).await?;
        self.check_not_just_refused(reason, &plan.discovery)?;
        let record = match self.grant() {
            GrantKind::Person => {
                let Some(prompt) = &self.prompt else { return Err(reason.login_needed_error()) };
                let method = LoginMethod::choose(&ctx.auth, &plan.discovery, &**prompt);
                // While the page is shown, a login by another process counts too, so poll for it.
                self.login.missing.set(true);
                tokio::select! {
                    biased;
                    record = plan.log_in_with_person(ctx, &**prompt, method) => record?,
                    () = self.wait_for_other_login(reason) => return Ok(()),
                }
            }
            GrantKind::ClientCredentials | GrantKind::Enterprise | GrantKind::Workload => {
                plan.log_in_without_person(ctx).await?
            }
        };
        self.save_and_use(record).await
    }

    /// Waits until another login satisfies the reason, whichever process makes it.
    async fn wait_for_other_login(&self, reason: &LoginReason) {
        let current = &self.login.current;
        let mut changes = current.watch_generation();
        let logged_in_at = || current.login().map(|login| login.record.logged_in_at);
        let before = logged_in_at();
        // If the server names no scopes, a refresh of the same login is not an improvement.
        let only_another =
            reason.needs_more_scopes && reason.challenge.scope.as_deref().unwrap_or_default().is_empty();
        loop {
            tokio::select! {
                () = sleep(STORE_POLL_INTERVAL) => {}
                _ = changes.changed() => {}
            }
            // A busy store is simply polled again.
            let found = Box::pin(self.adopt_better_login(reason)).await.unwrap_or(false);
            if found && !(only_another && logged_in_at() == before) {
                return;
            }
        }
    }

    /// Adopts the stored login if it satisfies the reason, refreshing it if due. Returns whether it
    /// did.
    async fn adopt_better_login(&self, reason: &LoginReason) -> Result<bool, AuthError> {
        self.login.reload().await?;
        let current = &self.login.current;
        let Some(login) = current.login().filter(|login| reason.is_satisfied_by(&login.record)) else {
            return Ok(false);
        };
        if !due::is_due(&login.record, SystemTime::now()) {
            return Ok(true);
        }
        if !login.record.is_refreshable() {
            return Ok(false);
        }
        // The stored login merely needs a refresh; the server has not refused it.
        match self.refresher.wait(&login.record.access).await {
            Ok(()) => Ok(current.login().is_some_and(|login| reason.is_satisfied_by(&login.record))),
            Err(error) if error.may_pass() => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Fails if a login from the same authorization server, made less than [`NEW_TOKEN_WINDOW`]
    /// ago, was never accepted: another one would be refused too.
    fn check_not_just_refused(&self, reason: &LoginReason, discovery: &Discovery) -> Result<(), AuthError> {
        let Some(login) = self.login.current.login() else { return Ok(()) };
        let record = &login.record;
        let had = if record.by == GrantKind::Person { record.logged_in_at } else { record.obtained_at() };
        let new = SystemTime::now().duration_since(had).is_ok_and(|age| age < NEW_TOKEN_WINDOW);
        let other = reason.needs_more_scopes || reason.was_accepted || reason.refresh_error.is_some();
        if other || !new || record.metadata.issuer != discovery.metadata.issuer {
            return Ok(());
        }
        let issuer = sanitize_url(&discovery.metadata.issuer);
        let words = reason.challenge.error_description.as_ref();
        let words = words.map(|words| format!(": {words}")).unwrap_or_default();
        let what = format!("the server refuses a token that {issuer} has just issued for it{words}");
        Err(AuthError::new(AuthErrorKind::Refused, what)
            .hint("ask whoever runs the server why; `resource` and `scope` in its `auth` can be changed"))
    }

    /// Logs in by a plan, regardless of what is stored. `method` is how a person logs in; by default
    /// it is chosen.
    pub(super) async fn log_in(
        self: &Arc<Self>,
        plan: &LoginPlan,
        method: Option<LoginMethod>,
    ) -> Result<Account, AuthError> {
        let ctx = &self.login.ctx;
        let record = match self.grant() {
            GrantKind::Person => {
                let Some(prompt) = &self.prompt else {
                    return Err(AuthError::new(
                        AuthErrorKind::LoginNeeded,
                        "there is nobody to ask to log in",
                    ));
                };
                let method =
                    method.unwrap_or_else(|| LoginMethod::choose(&ctx.auth, &plan.discovery, &**prompt));
                // Refused requests of any process wait for this login meanwhile. It does not wait
                // for theirs.
                let lease = LoginLease::acquire(&self.login.store).await?;
                let login = Box::pin(plan.log_in_with_person(ctx, &**prompt, method));
                let record = match lease {
                    None => login.await,
                    Some(lease) => {
                        let record = lease.keep_during(login).await;
                        // Release it also on failure: the program may exit now, and the next one
                        // must not wait.
                        lease.release().await;
                        record
                    }
                };
                record?
            }
            GrantKind::ClientCredentials | GrantKind::Enterprise | GrantKind::Workload => {
                plan.log_in_without_person(ctx).await?
            }
        };
        self.save_account(record).await
    }

    /// Finishes a login that was begun earlier, perhaps by another process.
    pub(super) async fn finish_login(self: &Arc<Self>, pasted: &str) -> Result<Account, AuthError> {
        let ctx = &self.login.ctx;
        let finished = login::finish(ctx, pasted).await?;
        let details = LoginDetails {
            server: &ctx.server,
            url: &ctx.url,
            auth: &ctx.auth,
            metadata: &finished.metadata,
            resource: finished.resource,
            client: Some(&finished.client),
            requested: finished.scopes,
            dpop: finished.dpop.as_ref(),
        };
        self.save_account(LoginRecord::new(details, finished.tokens, SystemTime::now())).await
    }

    async fn save_account(self: &Arc<Self>, record: LoginRecord) -> Result<Account, AuthError> {
        let account = Account::from_record(&self.login.store.key, &record, SystemTime::now());
        self.save_and_use(record).await?;
        Ok(account)
    }

    /// Saves a new login in place of any other, then uses it. Runs in its own task, so it finishes
    /// when the caller is dropped.
    async fn save_and_use(self: &Arc<Self>, record: LoginRecord) -> Result<(), AuthError> {
        let authorizer = Arc::clone(self);
        let task = tokio::spawn(async move { authorizer.save_and_use_now(record).await });
        task.await.unwrap_or_else(|_| {
            Err(AuthError::new(AuthErrorKind::Store, "the login was canceled: the program is ending"))
        })
    }

    async fn save_and_use_now(&self, record: LoginRecord) -> Result<(), AuthError> {
        let stored = &self.login;
        let mut tries = 0;
        let version = loop {
            match stored.ctx.store.put(&stored.store.key, &record, Precondition::Any).await {
                Ok(version) => break version,
                Err(error) if tries == MAX_SAVE_RETRIES => {
                    let server = &stored.ctx.server;
                    tracing::warn!(
                        %server, %error,
                        "the login cannot be stored; it is lost if that does not succeed before this program ends"
                    );
                    stored.report_save_error(&LoginSource::Login(None), &error.to_string());
                    break None;
                }
                Err(_) => {
                    sleep(Duration::from_millis(50 << tries)).await;
                    tries += 1;
                }
            }
        };
        let before = stored.current.login();
        let unsaved = version.is_none().then(|| {
            let replaced = before.as_deref().and_then(ActiveLogin::stored_login_time);
            UnsavedLogin {
                record: record.clone(),
                source: LoginSource::Login(replaced),
                right: RetainedRight::default(),
            }
        });
        let mut login = stored.activate(record, version, before.as_deref()).await?;
        login.unsaved = unsaved;
        self.refresher.backoff.clear();
        stored.missing.set(false);
        stored.current.set_login(login);
        Ok(())
    }

    fn grant(&self) -> GrantKind {
        GrantKind::from_grant(&self.login.ctx.auth.grant)
    }
}

impl LoginReason {
    pub(super) fn from_challenge(challenge: Challenge) -> Self {
        Self {
            challenge,
            refused_token: None,
            needs_more_scopes: false,
            was_accepted: false,
            refresh_error: None,
        }
    }

    /// Whether a stored login differs from the refused one and has the scopes that are wanted.
    fn is_satisfied_by(&self, record: &LoginRecord) -> bool {
        let asked = self.challenge.scope.as_deref().unwrap_or_default();
        let enough = !self.needs_more_scopes || asked.iter().all(|scope| record.scopes().contains(scope));
        self.refused_token.as_ref() != Some(&record.access) && enough
    }

    fn login_needed_error(&self) -> AuthError {
        let (what, hint) = match (&self.refresh_error, &self.refused_token) {
            (Some(why), _) => (why.what.clone(), "log in again"),
            (None, Some(_)) if self.needs_more_scopes => {
                ("the server requires more scopes than the login has".to_owned(), "log in again")
            }
            (None, Some(_)) => ("the server no longer accepts the login".to_owned(), "log in again"),
            (None, None) => ("not logged in yet".to_owned(), "log in"),
        };
        AuthError::new(AuthErrorKind::LoginNeeded, what).hint(hint)
    }
}

#[cfg(test)]
mod tests;
