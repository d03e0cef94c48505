//! Owns the credentials of one connection: which login it uses and when that changes.
//!
//! | file | the decision it owns |
//! |---|---|
//! | `current` | the login and headers in use |
//! | `credentials` | what a request carries |
//! | `refresh` | when the token is refreshed, and what the outcome means |
//! | `unsaved_login` | retries of a login that could not be saved |
//! | `refresh_state` | what a refresh currently waits for |
//! | `headers_command` | when the headers command is run |
//! | `reauthenticate` | what a 401 or 403 calls for |
//! | `authorize` | how a new login is obtained, with or without a person |
//! | `login_lease` | that one process at a time prompts the person |
//! | `login_probe` | whether a server requires a login |
//! | `logout` | logout and account display |
//! | `backoff` | the backoff after failures |
//! | `refusals` | what is known about refusals, and limits on repeated refreshes and logins |
//! | `single_flight` | that concurrent callers share one run |

mod authorize;
mod backoff;
mod credentials;
mod current;
mod headers_command;
mod login_lease;
mod login_probe;
mod logout;
mod reauthenticate;
mod refresh;
mod refresh_state;
mod refusals;
mod single_flight;
mod unsaved_login;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_config::{Grant, Http};
use bowline_store::EncryptedStore;
use bowline_transport::http::{Credentials, Proxies};
use http::header::AUTHORIZATION;
use tokio::sync::{Notify, watch};

use self::backoff::FailureBackoff;
use self::credentials::IdentityCredentials;
use self::current::CurrentCredentials;
use self::headers_command::{CommandFailures, RunReason};
pub use self::refresh_state::RefreshState;
use self::refusals::RefusalHistory;
pub use self::refusals::RefusedRequest;
use self::single_flight::{CancelableSingleFlight, CriticalSection, DetachedSingleFlight};
use crate::account::Account;
use crate::command_headers::CommandHeaders;
use crate::context::{App, AuthContext};
use crate::error::AuthError;
#[cfg(doc)]
use crate::error::AuthErrorKind;
use crate::http_client::AuthHttpClient;
use crate::login::PendingLogin;
use crate::prompt::LoginPrompt;
use crate::record::{GrantKind, LoginRecord};
use crate::refresh::driver::LoginStore;

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
pub struct LoginOptions {
    /// Scopes to request in addition to those that are requested anyway.
    pub scopes: Vec<String>,
    /// Whether to log in with a code on another device (RFC 8628).
    pub device_code: bool,
}

/// The result of a logout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogoutOutcome {
    /// No login was stored.
    NotLoggedIn,
    /// The login was deleted and its tokens were revoked.
    Revoked,
    /// The login was deleted; the authorization server has no revocation endpoint.
    RevocationUnsupported,
    /// The login was deleted; revocation failed with this message.
    RevocationFailed(String),
}

struct Inner {
    ctx: AuthContext,
    login_store: LoginStore,
    prompt: Option<Arc<dyn LoginPrompt>>,
    /// Whether the configuration sets an `Authorization` header.
    has_configured_authorization: bool,
    headers: Option<CommandHeaders>,
    current: CurrentCredentials,
    /// Token refreshes.
    refreshes: DetachedSingleFlight,
    /// Held while a refresh token is spent but its successor is not yet stored.
    critical_section: CriticalSection,
    /// Runs of the headers command.
    command_runs: DetachedSingleFlight,
    command_failures: CommandFailures,
    /// Retries of failed saves.
    saves: DetachedSingleFlight,
    /// What a refresh waits for, published to watchers.
    refresh_state: watch::Sender<RefreshState>,
    /// Logins started by a refused request.
    logins: CancelableSingleFlight,
    backoff: FailureBackoff,
    refusals: RefusalHistory,
    /// Whether a request failed for want of a login. While set, the store is polled more often,
    /// because another process may log in.
    login_missing: AtomicBool,
    /// Wakes [`Identity::keep_refreshed`] when `login_missing` is set.
    login_missing_notify: Notify,
}

impl Identity {
    /// Creates an identity without reading the store or sending a request.
    pub fn new(setup: IdentitySetup) -> Self {
        let IdentitySetup { server, http, app, store: safe, prompt, proxies } = setup;
        let net = AuthHttpClient::new(&http, proxies);
        let fixed = http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION.as_str()));
        let shelf = LoginStore { store: safe.clone(), key: LoginRecord::key(&server, &http.auth, &http.url) };
        let client_secret = http.auth.client.as_ref().and_then(|client| client.secret.clone());
        let ctx = AuthContext {
            server,
            url: http.url,
            auth: Arc::new(http.auth),
            app,
            store: safe,
            http_client: net,
        };
        Self {
            inner: Arc::new(Inner {
                ctx,
                login_store: shelf,
                prompt,
                has_configured_authorization: fixed,
                headers: http.headers_command.map(CommandHeaders::new),
                current: CurrentCredentials::new(client_secret),
                refreshes: DetachedSingleFlight::default(),
                critical_section: CriticalSection::new(),
                command_runs: DetachedSingleFlight::default(),
                command_failures: CommandFailures::default(),
                saves: DetachedSingleFlight::default(),
                refresh_state: watch::Sender::default(),
                logins: CancelableSingleFlight::default(),
                backoff: FailureBackoff::default(),
                refusals: RefusalHistory::default(),
                login_missing: AtomicBool::new(false),
                login_missing_notify: Notify::new(),
            }),
        }
    }

    /// Returns what signs the requests of the connection.
    pub fn credentials(&self) -> Arc<dyn Credentials> {
        Arc::new(IdentityCredentials(Arc::clone(&self.inner)))
    }

    /// Whether requests carry credentials.
    pub fn has_credentials(&self) -> bool {
        let inner = &self.inner;
        inner.has_configured_authorization
            || !inner.current.headers().is_empty()
            || inner.current.login().is_some()
    }

    /// Whether a refused request can start a login with a person, which takes unbounded time.
    pub fn is_interactive(&self) -> bool {
        let inner = &self.inner;
        inner.prompt.is_some()
            && inner.starts_logins()
            && GrantKind::from_grant(&inner.ctx.auth.grant) == GrantKind::Person
    }

    /// Loads the stored login, and runs the headers command if one is configured. Call it before
    /// the first request; what fails here is retried when it is needed.
    ///
    /// Dropping the future leaves the current credentials unchanged.
    ///
    /// Fails with [`AuthErrorKind::PlainHttp`] if there are credentials that must not be sent over
    /// plain `http`. None are sent then.
    pub async fn load(&self) -> Result<(), AuthError> {
        let read = self.inner.reload().await;
        if self.inner.headers.is_some() || self.has_credentials() {
            self.inner.ctx.http_client.check_encrypted(&self.inner.ctx.url)?;
        }
        if self.inner.headers.as_ref().is_some_and(CommandHeaders::is_due) {
            self.inner.run_headers_command(RunReason::Background).await?;
        }
        read
    }

    /// A number that changes whenever requests are signed differently. Read it before sending a
    /// request.
    pub fn generation(&self) -> u64 {
        self.inner.current.generation()
    }

    /// Watches [`Identity::generation`].
    pub fn watch_generation(&self) -> watch::Receiver<u64> {
        self.inner.current.watch_generation()
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
    pub async fn keep_refreshed(&self) {
        self.inner.keep_refreshed().await;
    }

    /// Waits for a running refresh, lets no other start, then retries a failed save for up to five
    /// minutes. Call it before the program exits: tokens that were received and not saved are lost,
    /// and the login with them.
    ///
    /// `Ok` means that everything is saved; [`AuthErrorKind::Store`] says why it is not.
    ///
    /// Dropping the future does not stop the refresh, and no other can start afterwards.
    pub async fn shut_down(&self) -> Result<(), AuthError> {
        self.inner.shut_down().await
    }

    /// Watches what a refresh of the login waits for.
    pub fn refresh_state(&self) -> watch::Receiver<RefreshState> {
        self.inner.refresh_state.subscribe()
    }

    /// Logs in regardless of what is stored, prompting a person unless the grant needs none.
    ///
    /// Dropping the future cancels the login, unless it has just succeeded.
    pub async fn login(&self, options: &LoginOptions) -> Result<Account, AuthError> {
        self.inner.log_in(options).await
    }

    /// Begins a login that [`Identity::finish_login`] finishes, perhaps in another process.
    pub async fn begin_login(&self, options: &LoginOptions) -> Result<PendingLogin, AuthError> {
        self.inner.begin_login(options).await
    }

    /// Finishes a login with the address that the browser was redirected to, or the code in it.
    ///
    /// Dropping the future may lose the login.
    pub async fn finish_login(&self, pasted: &str) -> Result<Account, AuthError> {
        self.inner.finish_login(pasted).await
    }

    /// Deletes the login and revokes its tokens, where the authorization server supports that.
    ///
    /// Deletion comes first. If the future is dropped after that, the tokens may stay valid, but
    /// nobody holds them.
    pub async fn logout(&self) -> Result<LogoutOutcome, AuthError> {
        self.inner.log_out().await
    }

    /// Logs out of another stored login, such as one made before the server's configuration
    /// changed.
    ///
    /// The revocation request uses this server's HTTP settings, and the configured client secret if
    /// the login was made with the configured client.
    pub async fn logout_account(&self, account: &Account) -> Result<LogoutOutcome, AuthError> {
        self.inner.log_out_account(account).await
    }

    /// The id that this server's login is stored under, whether or not there is one; equals
    /// [`Account::id`].
    pub fn login_id(&self) -> &str {
        &self.inner.login_store.key.id
    }

    /// Describes the stored login, if there is one.
    pub async fn account(&self) -> Result<Option<Account>, AuthError> {
        self.inner.account().await
    }
}

impl Inner {
    /// Whether a login can be used at all with this configuration.
    fn uses_logins(&self) -> bool {
        !self.has_configured_authorization && self.ctx.auth.grant != Grant::Off
    }

    /// Whether a refused request starts a login. With a headers command, only an explicit login
    /// does.
    fn starts_logins(&self) -> bool {
        self.uses_logins() && self.headers.is_none()
    }

    fn set_login_missing(&self, missing: bool) {
        self.login_missing.store(missing, Ordering::Relaxed);
        if missing {
            self.login_missing_notify.notify_one();
        }
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
