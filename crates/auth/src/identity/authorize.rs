//! Obtains a new login: which grant is used, which scopes are requested, and that one login serves
//! every refused request.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_config::Secret;
use bowline_store::Precondition;
use tokio::time::sleep;

use super::current::ActiveLogin;
use super::headers_command::RunReason;
use super::login_lease::LoginLease;
use super::login_probe::{LoginProbeOutcome, probe};
use super::refusals::NEW_TOKEN_WINDOW;
use super::{Inner, LoginOptions, RefreshState};
use crate::account::Account;
use crate::challenge::Challenge;
use crate::client::OAuthClient;
use crate::command_headers::CommandHeaders;
use crate::discover;
use crate::discovery::{Discovery, DiscoveryKind};
use crate::dpop;
use crate::error::{AuthError, AuthErrorKind};
use crate::grant::{self, TokenRequest};
use crate::listener;
use crate::login::{self, LoginMethod, LoginParams, PendingLogin};
use crate::prompt::LoginPrompt;
use crate::record::{GrantKind, LoginDetails, LoginRecord};
use crate::refresh::core::{LoginSource, RetainedRight, UnsavedLogin};
use crate::refresh::due;
use crate::register;
use crate::resource;
use crate::scope;
use crate::tokens::Tokens;

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

/// Everything that is determined before a login starts.
struct LoginPlan {
    discovery: Discovery,
    scopes: Vec<String>,
    resource: Option<String>,
    dpop_key: Option<dpop::Key>,
}

/// How often the store is checked while another process is logging in.
const LEASE_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How often the store is checked for another login while a page is shown.
const STORE_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How often a failed save is retried before the login is used unsaved; about six seconds in all.
const MAX_SAVE_RETRIES: u32 = 7;

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
}

impl Inner {
    /// Obtains a login for all refused requests at once; a person is prompted once.
    pub(super) async fn request_login(
        self: &Arc<Self>,
        want: LoginReason,
        quiet: bool,
    ) -> Result<(), AuthError> {
        let by = GrantKind::from_grant(&self.ctx.auth.grant);
        if by == GrantKind::Person && (quiet || !self.starts_logins() || self.prompt.is_none()) {
            // Another process may have logged in.
            return if self.adopt_better_login(&want).await? {
                Ok(())
            } else {
                Err(login_needed_error(&want))
            };
        }
        let inner = Arc::clone(self);
        self.logins.join(|| Box::pin(inner.authorize(want))).await
    }

    async fn authorize(self: Arc<Self>, want: LoginReason) -> Result<(), AuthError> {
        let by = GrantKind::from_grant(&self.ctx.auth.grant);
        if by != GrantKind::Person
            && let Some(error) = self.backoff.active_error()
        {
            return Err(error);
        }
        // One process prompts the person; the others wait and adopt its login.
        let hold = loop {
            if self.adopt_better_login(&want).await? {
                return Ok(());
            }
            if let Some(hold) = LoginLease::acquire(&self.login_store).await? {
                break hold;
            }
            tracing::debug!(server = %self.ctx.server, "somebody else is logging in");
            sleep(LEASE_POLL_INTERVAL).await;
        };
        if self.adopt_better_login(&want).await? {
            return Ok(());
        }
        let outcome = hold.keep_during(Box::pin(self.run_authorization(&want))).await;
        hold.release().await;
        match &outcome {
            Ok(()) => self.backoff.clear(),
            // AX-09: credentials that were rejected are not sent again with every call.
            Err(error) if by != GrantKind::Person => self.backoff.add(error),
            Err(_) => {}
        }
        outcome
    }

    async fn run_authorization(self: &Arc<Self>, want: &LoginReason) -> Result<(), AuthError> {
        let plan = self.plan_login(&want.challenge, want.needs_more_scopes, &[]).await?;
        self.check_not_just_refused(want, &plan.discovery)?;
        let made = match GrantKind::from_grant(&self.ctx.auth.grant) {
            GrantKind::Person => {
                let Some(prompt) = &self.prompt else { return Err(login_needed_error(want)) };
                let how = LoginMethod::choose(&self.ctx.auth, &plan.discovery, &**prompt);
                // While the page is shown, a login by another process counts too, so poll for it.
                self.set_login_missing(true);
                tokio::select! {
                    biased;
                    made = self.log_in_with_person(&plan, &**prompt, how) => made?,
                    () = self.wait_for_other_login(want) => return Ok(()),
                }
            }
            GrantKind::ClientCredentials | GrantKind::Enterprise | GrantKind::Workload => {
                self.log_in_without_person(&plan).await?
            }
        };
        self.save_and_use(made).await
    }

    /// Waits until another login satisfies the reason, whichever process makes it.
    async fn wait_for_other_login(self: &Arc<Self>, want: &LoginReason) {
        let mut changes = self.current.watch_generation();
        let since = |inner: &Self| inner.current.login().map(|login| login.record.logged_in_at);
        let before = since(self);
        // If the server names no scopes, a refresh of the same login is not an improvement.
        let only_another =
            want.needs_more_scopes && want.challenge.scope.as_deref().unwrap_or_default().is_empty();
        loop {
            tokio::select! {
                () = sleep(STORE_POLL_INTERVAL) => {}
                _ = changes.changed() => {}
            }
            // A busy store is simply polled again.
            let found = Box::pin(self.adopt_better_login(want)).await.unwrap_or(false);
            if found && !(only_another && since(self) == before) {
                return;
            }
        }
    }

    /// Adopts the stored login if it satisfies the reason, refreshing it if due. Returns whether it
    /// did.
    async fn adopt_better_login(self: &Arc<Self>, want: &LoginReason) -> Result<bool, AuthError> {
        self.reload().await?;
        let Some(login) = self.current.login().filter(|login| want.is_satisfied_by(&login.record)) else {
            return Ok(false);
        };
        if !due::is_due(&login.record, SystemTime::now()) {
            return Ok(true);
        }
        if !login.record.is_refreshable() {
            return Ok(false);
        }
        // The stored login merely needs a refresh; the server has not refused it.
        match self.wait_for_refresh(&login.record.access).await {
            Ok(()) => Ok(self.current.login().is_some_and(|login| want.is_satisfied_by(&login.record))),
            Err(error) if error.may_pass() => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Runs discovery and chooses scopes, resource and DPoP key.
    // TK-04, AR-04: the authorization server may have changed since the last login.
    async fn plan_login(
        &self,
        challenge: &Challenge,
        more: bool,
        extra: &[String],
    ) -> Result<LoginPlan, AuthError> {
        let ctx = &self.ctx;
        let discovery = discover::locate(ctx, challenge).await?;
        let held =
            self.current.login().filter(|login| login.record.metadata.issuer == discovery.metadata.issuer);
        let initial = scope::initial(&ctx.auth, challenge, &discovery);
        let scopes = match &held {
            Some(login) if more => scope::step_up(&login.record.requested, challenge),
            Some(login) if ctx.auth.scope.is_none() => scope::union(&login.record.requested, &initial),
            _ => initial,
        };
        let scopes = scope::union(&scopes, extra);
        let resource = resource::parameter(&ctx.auth, &discovery, &ctx.url);
        let key = if dpop::should_bind_tokens(&ctx.auth, &discovery, challenge.dpop)? {
            Some(dpop::Key::load_or_create(&ctx.store, &self.login_store.key.id).await?)
        } else {
            None
        };
        Ok(LoginPlan { discovery, scopes, resource, dpop_key: key })
    }

    /// Fails if a login from the same authorization server, made less than [`NEW_TOKEN_WINDOW`]
    /// ago, was never accepted: another one would be refused too.
    fn check_not_just_refused(&self, want: &LoginReason, discovery: &Discovery) -> Result<(), AuthError> {
        let Some(login) = self.current.login() else { return Ok(()) };
        let record = &login.record;
        let had = if record.by == GrantKind::Person { record.logged_in_at } else { record.obtained_at() };
        let new = SystemTime::now().duration_since(had).is_ok_and(|age| age < NEW_TOKEN_WINDOW);
        let other = want.needs_more_scopes || want.was_accepted || want.refresh_error.is_some();
        if other || !new || record.metadata.issuer != discovery.metadata.issuer {
            return Ok(());
        }
        let issuer = &discovery.metadata.issuer;
        let words = want.challenge.error_description.as_ref();
        let words = words.map(|words| format!(": {words}")).unwrap_or_default();
        let what = format!("the server refuses a token that {issuer} has just given for it{words}");
        Err(AuthError::new(AuthErrorKind::Refused, what).hint(
            "whoever runs the server has to see why; `resource` and `scope` in its `auth` can be changed",
        ))
    }

    async fn log_in_with_person(
        &self,
        plan: &LoginPlan,
        prompt: &dyn LoginPrompt,
        how: LoginMethod,
    ) -> Result<LoginRecord, AuthError> {
        let wanted = LoginParams {
            ctx: &self.ctx,
            discovery: &plan.discovery,
            scopes: &plan.scopes,
            resource: plan.resource.as_deref(),
            dpop: plan.dpop_key.as_ref(),
        };
        let made = login::login(&wanted, prompt, how).await?;
        Ok(self.new_record(plan, Some(&made.client), made.tokens))
    }

    async fn log_in_without_person(&self, plan: &LoginPlan) -> Result<LoginRecord, AuthError> {
        let ctx = &self.ctx;
        plan.discovery.check_not_guessed(&ctx.server)?;
        let client = if GrantKind::from_grant(&ctx.auth.grant) == GrantKind::Workload {
            // AX-08: the assertion identifies the workload; no client is needed.
            None
        } else {
            let redirect = listener::redirect_without_listener(&ctx.auth.redirect);
            Some(register::client_for(ctx, &plan.discovery, &redirect, &plan.scopes).await?)
        };
        let ask = TokenRequest {
            ctx,
            metadata: &plan.discovery.metadata,
            client: client.as_ref(),
            scopes: &plan.scopes,
            resource: plan.resource.as_deref(),
            dpop: plan.dpop_key.as_ref(),
        };
        let tokens = grant::request_tokens_without_person(&ask).await?;
        if let Some(client) = &client {
            // The tokens matter more than the record of the client.
            let _ = register::confirm_client(ctx, client).await;
        }
        Ok(self.new_record(plan, client.as_ref(), tokens))
    }

    fn new_record(&self, plan: &LoginPlan, client: Option<&OAuthClient>, tokens: Tokens) -> LoginRecord {
        let made = LoginDetails {
            server: &self.ctx.server,
            url: &self.ctx.url,
            auth: &self.ctx.auth,
            metadata: &plan.discovery.metadata,
            resource: plan.resource.clone(),
            client,
            requested: plan.scopes.clone(),
            dpop: plan.dpop_key.as_ref(),
        };
        LoginRecord::new(made, tokens, SystemTime::now())
    }

    /// Saves a new login in place of any other, then uses it. Runs in its own task, so it finishes
    /// when the caller is dropped.
    async fn save_and_use(self: &Arc<Self>, record: LoginRecord) -> Result<(), AuthError> {
        let inner = Arc::clone(self);
        let task = tokio::spawn(async move { inner.save_and_use_now(record).await });
        task.await.unwrap_or_else(|_| {
            Err(AuthError::new(AuthErrorKind::Store, "the login was canceled: the program is ending"))
        })
    }

    async fn save_and_use_now(&self, record: LoginRecord) -> Result<(), AuthError> {
        let mut tries = 0;
        let version = loop {
            match self.ctx.store.put(&self.login_store.key, &record, Precondition::Any).await {
                Ok(version) => break version,
                Err(error) if tries == MAX_SAVE_RETRIES => {
                    let server = &self.ctx.server;
                    tracing::warn!(
                        %server, %error,
                        "the login cannot be stored; it is lost if that does not succeed before this program ends"
                    );
                    let unwritten = self.save_error(&LoginSource::Login(None), &error.to_string());
                    self.set_refresh_state(RefreshState::Store(unwritten));
                    break None;
                }
                Err(_) => {
                    sleep(Duration::from_millis(50 << tries)).await;
                    tries += 1;
                }
            }
        };
        let before = self.current.login();
        let unsaved = version.is_none().then(|| {
            let replaced = before.as_deref().and_then(ActiveLogin::stored_login_time);
            UnsavedLogin {
                record: record.clone(),
                source: LoginSource::Login(replaced),
                right: RetainedRight::default(),
            }
        });
        let mut login = ActiveLogin::from_record(&self.ctx.store, record, version, before.as_deref()).await?;
        login.unsaved = unsaved;
        self.backoff.clear();
        self.set_login_missing(false);
        self.current.set_login(login);
        Ok(())
    }

    // === Explicit logins ===

    pub(super) async fn log_in(self: &Arc<Self>, options: &LoginOptions) -> Result<Account, AuthError> {
        let plan = self.plan_requested_login(options).await?;
        let record = match GrantKind::from_grant(&self.ctx.auth.grant) {
            GrantKind::Person => {
                let Some(prompt) = &self.prompt else {
                    return Err(AuthError::new(
                        AuthErrorKind::LoginNeeded,
                        "there is nobody to ask to log in",
                    ));
                };
                let how = if options.device_code {
                    LoginMethod::Device
                } else {
                    LoginMethod::choose(&self.ctx.auth, &plan.discovery, &**prompt)
                };
                // Refused requests of any process wait for this login meanwhile. It does not wait
                // for theirs.
                let hold = LoginLease::acquire(&self.login_store).await?;
                let login = Box::pin(self.log_in_with_person(&plan, &**prompt, how));
                let record = match hold {
                    None => login.await,
                    Some(hold) => {
                        let record = hold.keep_during(login).await;
                        // Release it also on failure: the program may exit now, and the next one
                        // must not wait.
                        hold.release().await;
                        record
                    }
                };
                record?
            }
            GrantKind::ClientCredentials | GrantKind::Enterprise | GrantKind::Workload => {
                self.log_in_without_person(&plan).await?
            }
        };
        let account = Account::from_record(&self.login_store.key, &record, SystemTime::now());
        self.save_and_use(record).await?;
        Ok(account)
    }

    pub(super) async fn begin_login(
        self: &Arc<Self>,
        options: &LoginOptions,
    ) -> Result<PendingLogin, AuthError> {
        if GrantKind::from_grant(&self.ctx.auth.grant) != GrantKind::Person {
            let what = "the configuration has tokens without a person, so that there is nothing to begin";
            return Err(AuthError::new(AuthErrorKind::Setup, what));
        }
        let plan = self.plan_requested_login(options).await?;
        let wanted = LoginParams {
            ctx: &self.ctx,
            discovery: &plan.discovery,
            scopes: &plan.scopes,
            resource: plan.resource.as_deref(),
            dpop: plan.dpop_key.as_ref(),
        };
        login::begin(&wanted).await
    }

    pub(super) async fn finish_login(self: &Arc<Self>, pasted: &str) -> Result<Account, AuthError> {
        self.check_logins_enabled()?;
        self.reload().await?;
        let finished = login::finish(&self.ctx, pasted).await?;
        let made = LoginDetails {
            server: &self.ctx.server,
            url: &self.ctx.url,
            auth: &self.ctx.auth,
            metadata: &finished.metadata,
            resource: finished.resource,
            client: Some(&finished.client),
            requested: finished.scopes,
            dpop: finished.dpop.as_ref(),
        };
        let record = LoginRecord::new(made, finished.tokens, SystemTime::now());
        let account = Account::from_record(&self.login_store.key, &record, SystemTime::now());
        self.save_and_use(record).await?;
        Ok(account)
    }

    async fn plan_requested_login(self: &Arc<Self>, options: &LoginOptions) -> Result<LoginPlan, AuthError> {
        self.check_logins_enabled()?;
        if self.headers.as_ref().is_some_and(CommandHeaders::is_due) {
            self.run_headers_command(RunReason::Requested).await?;
        }
        self.reload().await?;
        let probed = match self.refusals.last_challenge() {
            Some(challenge) => LoginProbeOutcome::Refused(challenge),
            None => probe(&self.ctx).await,
        };
        let challenge = match &probed {
            LoginProbeOutcome::Refused(challenge) => challenge.clone(),
            LoginProbeOutcome::Accepted | LoginProbeOutcome::Unknown => Challenge::default(),
        };
        let plan = self.plan_login(&challenge, false, &options.scopes).await?;
        // A server may need a login for some calls only; then its metadata names an authorization
        // server.
        if matches!(probed, LoginProbeOutcome::Accepted)
            && plan.discovery.kind == DiscoveryKind::DefaultEndpoints
        {
            let what = format!("{} requires no login", self.ctx.server);
            return Err(AuthError::new(AuthErrorKind::NotNeeded, what));
        }
        Ok(plan)
    }

    fn check_logins_enabled(&self) -> Result<(), AuthError> {
        if self.uses_logins() {
            return self.ctx.http_client.check_encrypted(&self.ctx.url);
        }
        let why = if self.has_configured_authorization {
            "it sets an Authorization header"
        } else {
            "it turns logins off"
        };
        let what = format!("the configuration does not allow a login: {why}");
        Err(AuthError::new(AuthErrorKind::Setup, what))
    }
}

fn login_needed_error(want: &LoginReason) -> AuthError {
    let (what, hint) = match (&want.refresh_error, &want.refused_token) {
        (Some(why), _) => (why.what.clone(), "log in again"),
        (None, Some(_)) if want.needs_more_scopes => {
            ("the server requires more scopes than the login has".to_owned(), "log in again")
        }
        (None, Some(_)) => ("the server no longer accepts the login".to_owned(), "log in again"),
        (None, None) => ("not logged in yet".to_owned(), "log in"),
    };
    AuthError::new(AuthErrorKind::LoginNeeded, what).hint(hint)
}

#[cfg(test)]
mod tests;
