//! Owns the credentials of one connection: which login it uses and when that changes.
//!
//! | file | the decision it owns |
//! |---|---|
//! | `current` | the login and headers in use |
//! | `credentials` | what a request carries |
//! | `policy` | which logins the configuration allows |
//! | `stored_login` | that the login in use and the stored one are in step |
//! | `missing_login` | whether a login is missing that another process may make |
//! | `refresh` | when the token is refreshed, and what the outcome means |
//! | `refresh_state` | what a refresh currently waits for |
//! | `unsaved_login` | retries of a login that could not be saved |
//! | `background` | refreshes and saves while the connection is idle |
//! | `headers_command` | when the headers command is run |
//! | `reauthenticate` | what a 401 or 403 calls for |
//! | `refusals` | what is known about refusals, and limits on repeated refreshes and logins |
//! | `backoff` | the backoff after failures |
//! | `authorize` | how a new login is obtained and saved, once for all processes |
//! | `login_plan` | what a login requests, and from whom |
//! | `login_lease` | that one process at a time prompts the person |
//! | `login_probe` | whether a server requires a login |
//! | `logout` | logout and account display |
//! | `single_flight` | that concurrent callers share one run |
//!
//! Each part of [`Inner`] owns its state and is handed the parts that it needs. Only what
//! coordinates several of them is a method of [`Inner`].

mod authorize;
mod background;
mod backoff;
mod credentials;
mod current;
mod headers_command;
mod login_lease;
mod login_plan;
pub(crate) mod login_probe;
mod logout;
mod missing_login;
mod policy;
mod reauthenticate;
mod refresh;
mod refresh_state;
mod refusals;
mod single_flight;
mod stored_login;
mod unsaved_login;

use std::fmt;
use std::sync::Arc;

use bowline_config::Http;
use bowline_store::EncryptedStore;
use bowline_transport::http::{Credentials, Proxies};

use self::authorize::Authorizer;
use self::credentials::IdentityCredentials;
use self::current::CurrentCredentials;
use self::headers_command::{HeadersRunner, RunReason};
use self::login_plan::LoginPlan;
use self::login_probe::LoginProbeOutcome;
pub use self::logout::LogoutOutcome;
use self::policy::LoginPolicy;
use self::refresh::Refresher;
pub use self::refresh_state::RefreshState;
use self::refusals::RefusalHistory;
pub use self::refusals::RefusedRequest;
use self::stored_login::StoredLogin;
use self::unsaved_login::SaveRetries;
use crate::account::Account;
use crate::challenge::Challenge;
use crate::context::{App, AuthContext};
use crate::discovery::DiscoveryKind;
use crate::error::{AuthError, AuthErrorKind};
use crate::examination::{self, AuthorizationExamination};
use crate::http_client::AuthHttpClient;
use crate::login::{self, LoginMethod, PendingLogin};
use crate::prompt::LoginPrompt;
use crate::record::GrantKind;
use crate::watch::Watch;

/// The credentials of one connection: its token and its headers, kept valid. Cheap to clone; clones
/// share state.
///
/// # Behavior
/// - A token is saved before it is used, and refreshed by one process at a time; the others adopt
///   the result from the store. Only if it cannot be saved for five seconds is it used unsaved,
///   with a warning, because dropping it would lose the login. [`Identity::keep_refreshed`] keeps
///   retrying the save.
/// - A refresh that has started continues when its caller is dropped. Before the program exits,
///   [`Identity::shut_down`] waits for it and retries a failed save.
/// - [`Identity::refresh_state`] reports what a refresh waits for.
/// - Temporary failures (no network, an overloaded authorization server, a busy store) change
///   nothing. The old token is used while it is valid, and attempts are repeated with backoff.
#[derive(Clone)]
pub struct Identity {
    inner: Arc<Inner>,
}

/// Everything needed to create an [`Identity`].
pub struct IdentitySetup {
    /// The server's configured name.
    pub server: Arc<str>,
    /// The server's HTTP configuration.
    pub http: Http,
    /// The application that clients are registered as.
    pub app: Arc<App>,
    /// Holds logins, registered clients and DPoP keys.
    pub store: EncryptedStore,
    /// Shows login pages and device codes to a person. With `None`, a login that needs a person
    /// fails at once.
    pub prompt: Option<Arc<dyn LoginPrompt>>,
    /// Proxies for requests to the server and to authorization servers.
    pub proxies: Proxies,
}

/// Options of an explicit login.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoginOptions {
    /// Scopes to request in addition to those that are requested anyway.
    pub scopes: Vec<String>,
    /// Whether to log in with a code on another device (RFC 8628).
    pub device_code: bool,
}

impl LoginOptions {
    /// Requests these scopes in addition to those that are requested anyway.
    #[must_use]
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Logs in with a code on another device (RFC 8628).
    #[must_use]
    pub fn device_code(mut self) -> Self {
        self.device_code = true;
        self
    }
}

/// The parts of an identity.
struct Inner {
    ctx: AuthContext,
    policy: LoginPolicy,
    current: Arc<CurrentCredentials>,
    headers: Option<Arc<HeadersRunner>>,
    login: Arc<StoredLogin>,
    refresher: Arc<Refresher>,
    saves: SaveRetries,
    authorizer: Arc<Authorizer>,
    refusals: Arc<RefusalHistory>,
}

impl Identity {
    /// Creates an identity without reading the store or sending a request.
    #[doc(hidden)]
    pub fn new(setup: IdentitySetup) -> Self {
        let IdentitySetup { server, http, app, store, prompt, proxies } = setup;
        let http_client = AuthHttpClient::new(&http, proxies);
        let policy = LoginPolicy::from_settings(&http);
        let client_secret = http.auth.client.as_ref().and_then(|client| client.secret.clone());
        let current = Arc::new(CurrentCredentials::new(client_secret));
        let ctx = AuthContext { server, url: http.url, auth: Arc::new(http.auth), app, store, http_client };
        let headers = http.headers_command.map(|command| {
            Arc::new(HeadersRunner::new(command, ctx.http_client.clone(), Arc::clone(&current)))
        });
        let login = Arc::new(StoredLogin::new(ctx.clone(), policy, Arc::clone(&current)));
        let refresher = Arc::new(Refresher::new(Arc::clone(&login)));
        let saves = SaveRetries::new(Arc::clone(&login));
        let authorizer = Arc::new(Authorizer::new(Arc::clone(&login), Arc::clone(&refresher), prompt));
        let refusals = Arc::default();
        let inner = Inner { ctx, policy, current, headers, login, refresher, saves, authorizer, refusals };
        Self { inner: Arc::new(inner) }
    }

    /// Returns what signs the requests of the connection.
    #[doc(hidden)]
    pub fn credentials(&self) -> Arc<dyn Credentials> {
        let inner = &self.inner;
        Arc::new(IdentityCredentials {
            ctx: inner.ctx.clone(),
            policy: inner.policy,
            current: Arc::clone(&inner.current),
            refusals: Arc::clone(&inner.refusals),
        })
    }

    /// Whether requests carry credentials.
    pub fn has_credentials(&self) -> bool {
        let inner = &self.inner;
        inner.policy == LoginPolicy::ConfiguredHeader
            || !inner.current.headers().is_empty()
            || inner.current.login().is_some()
    }

    /// Whether a refused request can start a login with a person, which takes unbounded time.
    pub fn is_interactive(&self) -> bool {
        self.inner.authorizer.is_interactive()
    }

    /// Loads the stored login, and runs the headers command if one is configured. Call it before
    /// the first request; what fails here is retried when it is needed.
    ///
    /// Dropping the future leaves the current credentials unchanged.
    ///
    /// Fails with [`AuthErrorKind::PlainHttp`] if there are credentials that must not be sent over
    /// plain `http`. None are sent then.
    pub async fn load(&self) -> Result<(), AuthError> {
        let inner = &self.inner;
        let read = inner.login.reload().await;
        if inner.headers.is_some() || self.has_credentials() {
            inner.ctx.http_client.check_encrypted(&inner.ctx.url)?;
        }
        if let Some(headers) = &inner.headers {
            headers.run_if_due(RunReason::Background).await?;
        }
        read
    }

    /// A number that changes whenever requests are signed differently. Read it before sending a
    /// request.
    pub fn generation(&self) -> u64 {
        self.inner.current.generation()
    }

    /// Watches [`Identity::generation`].
    pub fn watch_generation(&self) -> Watch<u64> {
        Watch::new(self.inner.current.watch_generation())
    }

    /// A hash of account, issuer, resource and scopes: unchanged by a refresh, changed by another
    /// login. Zero means no login.
    pub fn login_fingerprint(&self) -> u64 {
        self.inner.current.login_fingerprint()
    }

    /// Whether the token expires soon or the command headers are too old. Cheap enough for every
    /// request.
    pub fn is_due(&self) -> bool {
        self.inner.is_due()
    }

    /// Refreshes the token if it expires soon, and the command headers if they are too old.
    ///
    /// Fails only if the token has expired and the refresh failed temporarily. If a login is
    /// needed, it returns `Ok`, because the server's refusal says what it requires.
    ///
    /// Dropping the future does not stop a refresh that has started.
    pub async fn refresh_if_due(&self) -> Result<(), AuthError> {
        self.inner.refresh_if_due().await
    }

    /// Re-authenticates after a 401 or 403. `Ok` means: retry on the same link.
    ///
    /// Does the least that helps: nothing if the credentials have changed since, a refresh, another
    /// run of the headers command, a request for more scopes, or a login.
    ///
    /// Concurrent refusals share one attempt. Dropping the future does not stop a refresh that has
    /// started; a login with a person ends when its last waiter is dropped.
    pub async fn reauthenticate(&self, refusal: &RefusedRequest) -> Result<(), AuthError> {
        self.inner.reauthenticate(refusal).await
    }

    /// Refreshes the token in time, adopts logins of other processes and retries failed saves, for
    /// as long as it is polled.
    ///
    /// Dropping the future does not stop a refresh or a save that has started.
    pub async fn keep_refreshed(&self) {
        let Inner { login, refresher, saves, .. } = &*self.inner;
        background::keep_refreshed(login, refresher, saves).await;
    }

    /// Waits for a running refresh, lets no other start, then retries a failed save for up to five
    /// minutes. Call it before the program exits: tokens that were received and not saved are lost,
    /// and the login with them.
    ///
    /// `Ok` means that everything is saved; [`AuthErrorKind::Store`] says why it is not.
    ///
    /// Dropping the future does not stop the refresh, and no other can start afterwards.
    pub async fn shut_down(&self) -> Result<(), AuthError> {
        self.inner.refresher.close().await;
        self.inner.saves.finish().await
    }

    /// Watches what a refresh of the login waits for.
    pub fn refresh_state(&self) -> Watch<RefreshState> {
        Watch::new(self.inner.login.refresh_state.subscribe())
    }

    /// Logs in regardless of what is stored, prompting a person unless the grant needs none.
    ///
    /// Dropping the future cancels the login, unless it has just succeeded.
    pub async fn login(&self, options: &LoginOptions) -> Result<Account, AuthError> {
        let plan = self.inner.plan_login(options).await?;
        let method = options.device_code.then_some(LoginMethod::Device);
        self.inner.authorizer.log_in(&plan, method).await
    }

    /// Begins a login that [`Identity::finish_login`] finishes, perhaps in another process.
    ///
    /// Dropping the future may leave a registered client, which the next login uses, and a login that
    /// nobody can finish, which expires.
    pub async fn begin_login(&self, options: &LoginOptions) -> Result<PendingLogin, AuthError> {
        let ctx = &self.inner.ctx;
        if GrantKind::from_grant(&ctx.auth.grant) != GrantKind::Person {
            let what = "the configured grant needs no person, so there is no login to begin";
            return Err(AuthError::new(AuthErrorKind::Setup, what));
        }
        let plan = self.inner.plan_login(options).await?;
        login::begin(&plan.params(ctx)).await
    }

    /// Finishes a login with the address that the browser was redirected to, or the code in it.
    ///
    /// Dropping the future may lose the login.
    pub async fn finish_login(&self, pasted: &str) -> Result<Account, AuthError> {
        self.inner.check_login_allowed()?;
        self.inner.login.reload().await?;
        self.inner.authorizer.finish_login(pasted).await
    }

    /// Deletes the login and revokes its tokens, where the authorization server supports that.
    ///
    /// Deletion comes first. If the future is dropped after that, the tokens may stay valid, but
    /// nobody holds them.
    pub async fn logout(&self) -> Result<LogoutOutcome, AuthError> {
        logout::log_out(&self.inner.login, &self.inner.refresher.backoff).await
    }

    /// Logs out of another stored login, such as one made before the server's configuration
    /// changed.
    ///
    /// The revocation request uses this server's HTTP settings, and the configured client secret if
    /// the login was made with the configured client.
    ///
    /// If the future is dropped after the deletion, the tokens may stay valid, as with
    /// [`Identity::logout`].
    pub async fn logout_account(&self, account: &Account) -> Result<LogoutOutcome, AuthError> {
        if account.id == self.login_id() {
            return self.logout().await;
        }
        logout::log_out_other(&self.inner.ctx, &account.id).await
    }

    /// Examines the steps that a login would take, without taking any that changes something:
    /// nothing is registered, refreshed, stored or shown to a person. For diagnosis.
    ///
    /// Bounded in time. Dropping the future cancels it.
    #[doc(hidden)]
    pub async fn examine(&self) -> AuthorizationExamination {
        examination::examine(&self.inner.ctx).await
    }

    /// The id that this server's login is stored under, whether or not there is one; equals
    /// [`Account::id`].
    pub fn login_id(&self) -> &str {
        &self.inner.login.store.key.id
    }

    /// Describes the stored login, if there is one. Dropping the future has no effect.
    pub async fn account(&self) -> Result<Option<Account>, AuthError> {
        logout::account(&self.inner.login, &self.inner.refresher.backoff).await
    }
}

impl Inner {
    fn is_due(&self) -> bool {
        self.headers.as_ref().is_some_and(|headers| headers.is_due()) || self.refresher.is_due()
    }

    async fn refresh_if_due(&self) -> Result<(), AuthError> {
        if let Some(headers) = &self.headers
            && let Err(error) = headers.run_if_due(RunReason::Call).await
            // Older headers may still be accepted; the server decides.
            && !headers.has_output()
        {
            return Err(error);
        }
        self.refresher.refresh_if_due().await
    }

    /// Plans an explicit login. The challenge comes from the last refusal, or from a probe.
    async fn plan_login(&self, options: &LoginOptions) -> Result<LoginPlan, AuthError> {
        self.check_login_allowed()?;
        if let Some(headers) = &self.headers {
            headers.run_if_due(RunReason::Requested).await?;
        }
        self.login.reload().await?;
        let probed = match self.refusals.last_challenge() {
            Some(challenge) => LoginProbeOutcome::Refused(challenge),
            None => login_probe::probe(&self.ctx).await,
        };
        let challenge = match &probed {
            LoginProbeOutcome::Refused(challenge) => challenge.clone(),
            LoginProbeOutcome::Accepted | LoginProbeOutcome::Unknown => Challenge::default(),
        };
        let plan = LoginPlan::new(&self.login, &challenge, false, &options.scopes).await?;
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

    fn check_login_allowed(&self) -> Result<(), AuthError> {
        self.policy.check_login_allowed()?;
        self.ctx.http_client.check_encrypted(&self.ctx.url)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.inner;
        f.debug_struct("Identity")
            .field("server", &inner.ctx.server)
            .field("generation", &inner.current.generation())
            .finish_non_exhaustive()
    }
}
