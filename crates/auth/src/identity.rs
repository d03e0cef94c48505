//! Owns who one connection is, at any moment.

use std::fmt;
use std::sync::Arc;

use bowline_config::Http;
use bowline_store::Safe;
use bowline_transport::http::{Credentials, Proxies};
use tokio::sync::watch;
use url::Url;

use crate::account::Account;
use crate::ctx::App;
use crate::error::AuthError;
use crate::prompt::LoginPrompt;

/// Who one connection is: its token and its headers, kept good. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Identity {
    _todo: Arc<()>,
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

impl Identity {
    /// Nothing is read and nobody is asked yet.
    pub fn new(setup: IdentitySetup) -> Self {
        let _ = setup;
        Self { _todo: Arc::new(()) }
    }

    /// What signs the requests of the connection.
    pub fn credentials(&self) -> Arc<dyn Credentials> {
        unimplemented!()
    }

    /// Whether requests carry something that proves who we are.
    pub fn has_credentials(&self) -> bool {
        false
    }

    /// Reads what is remembered, and runs the command for headers if there is one. To be done before the first
    /// request; what fails then is tried again when it is needed.
    pub async fn load(&self) -> Result<(), AuthError> {
        Ok(())
    }

    /// Changes whenever requests are signed differently. To be read before a request is sent.
    pub fn generation(&self) -> u64 {
        0
    }

    /// The same, for whoever waits for it.
    pub fn changes(&self) -> watch::Receiver<u64> {
        unimplemented!()
    }

    /// Whether the token ends soon. Costs next to nothing.
    pub fn is_due(&self) -> bool {
        false
    }

    /// Renews the token if it ends soon. An error only if it has ended: until then the old one is good.
    ///
    /// Dropping the future does not end a renewal that is under way.
    pub async fn fresh(&self) -> Result<(), AuthError> {
        Ok(())
    }

    /// Does what it takes for a refused request to go again: nothing if we are somebody else by now, a renewal, the
    /// command for headers, more scopes, or a login. `Ok`: it is worth another try, on the same connection.
    ///
    /// All who are refused at once wait for the same. Dropping the future does not end a renewal that is under way.
    pub async fn answer(&self, refusal: &Refusal) -> Result<(), AuthError> {
        let _ = refusal;
        Ok(())
    }

    /// Renews the token in time, for as long as it is polled.
    pub async fn keep(&self) {
        std::future::pending().await
    }

    /// Has a person log in, whatever is remembered.
    pub async fn login(&self, options: &LoginOptions) -> Result<Account, AuthError> {
        let _ = options;
        unimplemented!()
    }

    /// Begins a login that [`Identity::finish_login`] ends, perhaps in another process.
    pub async fn begin_login(&self, options: &LoginOptions) -> Result<Begun, AuthError> {
        let _ = options;
        unimplemented!()
    }

    /// Ends a login with the address that a person was sent to.
    pub async fn finish_login(&self, pasted: &str) -> Result<Account, AuthError> {
        let _ = pasted;
        unimplemented!()
    }

    /// Ends the tokens at the authorization server, where it can, and forgets them.
    pub async fn logout(&self) -> Result<LoggedOut, AuthError> {
        unimplemented!()
    }

    /// What is known of the login, if there is one.
    pub async fn account(&self) -> Result<Option<Account>, AuthError> {
        unimplemented!()
    }
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

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}
