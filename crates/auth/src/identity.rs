//! Owns who one connection is, at any moment.
//!
//! | file | the decision it owns |
//! |---|---|
//! | `held` | what is held at the moment |
//! | `sign` | what a request carries |
//! | `renew` | when the token is renewed, and what comes of it |
//! | `unsaved` | how what could not be written down is written down after all |
//! | `waiting` | what a refresh waits for at the moment |
//! | `made` | when the command for headers is run |
//! | `answer` | what a refusal means |
//! | `authorize` | how a new login comes about, without a person or with one |
//! | `leave` | how a login ends |
//! | `memory` | what is not tried again |
//! | `flight` | that what many want is done once |

mod answer;
mod authorize;
mod flight;
mod held;
mod leave;
mod made;
mod memory;
mod renew;
mod sign;
mod unsaved;
mod waiting;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_config::{Grant, Http};
use bowline_store::Safe;
use bowline_transport::http::{Credentials, Proxies};
use http::header::AUTHORIZATION;
use tokio::sync::{Notify, watch};
use url::Url;

use self::answer::Seen;
use self::flight::{Errand, Gate, Task};
use self::held::Held;
use self::made::{Run, Tries};
use self::memory::{Answers, Failures};
use self::sign::Signer;
pub use self::waiting::RefreshState;
use crate::account::Account;
use crate::ctx::{App, Ctx};
use crate::error::AuthError;
#[cfg(doc)]
use crate::error::AuthErrorKind;
use crate::headers::Headers;
use crate::net::Net;
use crate::prompt::LoginPrompt;
use crate::record::{By, Record};
use crate::refresh::drive::Shelf;

/// Who one connection is: its token and its headers, kept good. Cheap to clone; clones are the same.
///
/// # Behavior
/// - A token is written down before it is used, and renewed by one process at a time: the others take over what that
///   one got. Only if it cannot be written down for five seconds is it used all the same, with a warning: to lose it
///   would be to lose the login. [`Identity::keep`] goes on trying to write it down.
/// - A renewal that is under way goes on when whoever wanted it is dropped. Before the program ends,
///   [`Identity::settle`] waits for it, and goes on trying to write down what could not be.
/// - What a renewal waits for is told by [`Identity::refresh_state`].
/// - What may pass (no network, an authorization server that is overloaded, a store that is busy) changes nothing. The
///   old token is used for as long as it is good, and further attempts come at growing intervals.
#[derive(Clone)]
pub struct Identity {
    inner: Arc<Inner>,
}

/// What an identity is made of.
pub struct IdentitySetup {
    /// The server's configured name.
    pub server: Arc<str>,
    /// How it is reached.
    pub http: Http,
    /// Who we say we are.
    pub app: Arc<App>,
    /// What we remember.
    pub safe: Safe,
    /// Who brings a person to a login; `None`: nobody, and a login that needs one fails at once.
    pub prompt: Option<Arc<dyn LoginPrompt>>,
    /// How others are reached.
    pub proxies: Proxies,
}

/// A request that was refused for who we are.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// 401 or 403.
    pub status: u16,
    /// Every `WWW-Authenticate` header.
    pub challenge: Vec<String>,
    /// [`Identity::generation`] before it was sent.
    pub generation: u64,
    /// What was wanted, such as `tools/call search`.
    pub operation: String,
    /// Whether no person is to be asked: nobody waits for it.
    pub quiet: bool,
}

/// How a login is to be had.
#[derive(Clone, Debug, Default)]
pub struct LoginOptions {
    /// Scopes to ask for beside those that are asked for anyway.
    pub scopes: Vec<String>,
    /// By a code on another device.
    pub device: bool,
}

/// A login that somebody else goes on with.
#[derive(Clone, Debug)]
pub struct Begun {
    /// Where a person logs in.
    pub url: Url,
    /// Where they are sent to in the end; nobody listens there.
    pub redirect: Url,
}

/// What came of a logout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoggedOut {
    /// There was nothing to forget.
    Nothing,
    /// Forgotten, and ended at the authorization server.
    Revoked,
    /// Forgotten; the authorization server offers no way to end tokens.
    Forgotten,
    /// Forgotten; the authorization server could not be told, and why.
    Untold(String),
}

struct Inner {
    ctx: Ctx,
    shelf: Shelf,
    prompt: Option<Arc<dyn LoginPrompt>>,
    /// Whether the configuration holds an `Authorization`.
    fixed: bool,
    headers: Option<Headers>,
    held: Held,
    /// Renewals of the token.
    renewals: Task,
    /// What of a renewal must not be broken off.
    gate: Gate,
    /// Runs of the command for headers.
    runs: Task,
    tries: Tries,
    /// Attempts to write down what could not be.
    saves: Task,
    /// What a refresh waits for.
    waiting: watch::Sender<RefreshState>,
    /// Logins that a refusal brought about.
    logins: Errand,
    failures: Failures,
    answers: Answers,
    /// What the server last said of how to be let in.
    seen: Seen,
    /// Whether somebody was turned away for want of a login: then it matters if one comes from elsewhere.
    missing: AtomicBool,
    /// Wakes whoever looks out for it.
    missed: Notify,
}

impl Identity {
    /// Nothing is read and nobody is asked yet.
    pub fn new(setup: IdentitySetup) -> Self {
        let IdentitySetup { server, http, app, safe, prompt, proxies } = setup;
        let net = Net::new(&http, proxies);
        let fixed = http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION.as_str()));
        let shelf = Shelf { safe: safe.clone(), key: Record::key(&server, &http.auth, &http.url) };
        let client_secret = http.auth.client.as_ref().and_then(|client| client.secret.clone());
        let ctx = Ctx { server, url: http.url, auth: Arc::new(http.auth), app, safe, net };
        Self {
            inner: Arc::new(Inner {
                ctx,
                shelf,
                prompt,
                fixed,
                headers: http.headers_command.map(Headers::new),
                held: Held::new(client_secret),
                renewals: Task::default(),
                gate: Gate::new(),
                runs: Task::default(),
                tries: Tries::default(),
                saves: Task::default(),
                waiting: watch::Sender::default(),
                logins: Errand::default(),
                failures: Failures::default(),
                answers: Answers::default(),
                seen: Seen::default(),
                missing: AtomicBool::new(false),
                missed: Notify::new(),
            }),
        }
    }

    /// What signs the requests of the connection.
    pub fn credentials(&self) -> Arc<dyn Credentials> {
        Arc::new(Signer(Arc::clone(&self.inner)))
    }

    /// Whether requests carry something that proves who we are.
    pub fn has_credentials(&self) -> bool {
        let inner = &self.inner;
        inner.fixed || !inner.held.made().is_empty() || inner.held.login().is_some()
    }

    /// Whether a refusal can bring a person to a login, which takes as long as it takes.
    pub fn is_interactive(&self) -> bool {
        let inner = &self.inner;
        inner.prompt.is_some() && inner.begins_logins() && By::of(&inner.ctx.auth.grant) == By::Person
    }

    /// Reads what is remembered, and runs the command for headers if there is one. To be done before the first
    /// request; what fails then is tried again when it is needed.
    ///
    /// Dropping the future leaves what is held as it was.
    ///
    /// [`AuthErrorKind::PlainHttp`]: there is something to prove who we are that must not be sent. Nothing is.
    pub async fn load(&self) -> Result<(), AuthError> {
        let read = self.inner.reload().await;
        if self.inner.headers.is_some() || self.has_credentials() {
            self.inner.ctx.net.check_encrypted(&self.inner.ctx.url)?;
        }
        if self.inner.headers.as_ref().is_some_and(Headers::are_due) {
            self.inner.run_headers(Run::Quiet).await?;
        }
        read
    }

    /// Changes whenever requests are signed differently. To be read before a request is sent.
    pub fn generation(&self) -> u64 {
        self.inner.held.generation()
    }

    /// The same, for whoever waits for it.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.held.changes()
    }

    /// Who we are and what we may do, as a number: a renewal does not change it, another login does.
    pub fn standing(&self) -> u64 {
        self.inner.held.standing()
    }

    /// Whether the token ends soon, or the headers are too old. Costs next to nothing.
    pub fn is_due(&self) -> bool {
        self.inner.is_due()
    }

    /// Renews the token if it ends soon, and the headers if they are too old. An error only if the token has ended
    /// and cannot be renewed for a reason that may pass. If only a person can help, the request is worth sending: the
    /// server's refusal says what it wants.
    ///
    /// Dropping the future does not end a renewal that is under way.
    pub async fn fresh(&self) -> Result<(), AuthError> {
        self.inner.fresh().await
    }

    /// Does what it takes for a refused request to go again: nothing if we are somebody else by now, a renewal, the
    /// command for headers, more scopes, or a login. `Ok`: it is worth another try, on the same connection.
    ///
    /// All who are refused at once wait for the same. Dropping the future does not end a renewal that is under way;
    /// a login with a person ends when the last who waits for it is dropped.
    pub async fn answer(&self, refusal: &Refusal) -> Result<(), AuthError> {
        self.inner.answer(refusal).await
    }

    /// Renews the token in time, and takes over what other processes got, for as long as it is polled.
    pub async fn keep(&self) {
        self.inner.keep().await;
    }

    /// Waits for a renewal that is under way, and begins no other; then goes on trying to write down what could not
    /// be, for five minutes at most. To be done before the program ends: what an authorization server gave and nobody
    /// wrote down is lost, and the login with it.
    ///
    /// `Ok`: everything is written down. [`AuthErrorKind::Store`]: it could not be, and why.
    ///
    /// Dropping the future does not end the renewal, and lets none begin all the same.
    pub async fn settle(&self) -> Result<(), AuthError> {
        self.inner.settle().await
    }

    /// What a renewal of the login waits for, now and whenever that changes.
    pub fn refresh_state(&self) -> watch::Receiver<RefreshState> {
        self.inner.waiting.subscribe()
    }

    /// Has a person log in, whatever is remembered. Without a person, where none is needed.
    ///
    /// Dropping the future ends the login, unless it has just succeeded.
    pub async fn login(&self, options: &LoginOptions) -> Result<Account, AuthError> {
        self.inner.log_in(options).await
    }

    /// Begins a login that [`Identity::finish_login`] ends, perhaps in another process.
    pub async fn begin_login(&self, options: &LoginOptions) -> Result<Begun, AuthError> {
        self.inner.begin(options).await
    }

    /// Ends a login with the address that a person was sent to.
    ///
    /// Dropping the future may lose the login.
    pub async fn finish_login(&self, pasted: &str) -> Result<Account, AuthError> {
        self.inner.finish(pasted).await
    }

    /// Ends the tokens at the authorization server, where it can, and forgets them.
    ///
    /// Forgets first: dropped after that, the tokens may go on existing, and nobody has them.
    pub async fn logout(&self) -> Result<LoggedOut, AuthError> {
        self.inner.log_out().await
    }

    /// The same for a login that is kept under another name than ours, as its entry was another one when it was made.
    /// What it takes to tell the authorization server is ours: how it is reached, and the secret of the client if the
    /// login was made with the one that is configured.
    pub async fn logout_of(&self, account: &Account) -> Result<LoggedOut, AuthError> {
        self.inner.log_out_of(account).await
    }

    /// Under what our login is kept if there is one: its [`Account::id`].
    pub fn login_id(&self) -> &str {
        &self.inner.shelf.key.id
    }

    /// What is known of the login, if there is one.
    pub async fn account(&self) -> Result<Option<Account>, AuthError> {
        self.inner.account().await
    }
}

impl Inner {
    /// Whether a login is of any use here.
    fn uses_logins(&self) -> bool {
        !self.fixed && self.ctx.auth.grant != Grant::Off
    }

    /// Whether one is begun when the server wants it. Where a program makes the headers, only if somebody asks for it.
    fn begins_logins(&self) -> bool {
        self.uses_logins() && self.headers.is_none()
    }

    fn set_missing(&self, missing: bool) {
        self.missing.store(missing, Ordering::Relaxed);
        if missing {
            self.missed.notify_one();
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.inner;
        f.debug_struct("Identity")
            .field("server", &inner.ctx.server)
            .field("generation", &inner.held.generation())
            .finish_non_exhaustive()
    }
}
