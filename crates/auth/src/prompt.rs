//! Owns what a person is asked during a login, and the possible replies.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bowline_config::Secret;
use url::Url;

use crate::authorization_response::ExpectedResponse;
use crate::login::paste::{self, PastedInput};

/// The future of a prompt; it completes when the person has replied.
pub type PromptFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Shows a login to a person.
///
/// Whatever is shown must disappear when the future is dropped: the login is over or was canceled.
pub trait LoginPrompt: Send + Sync + 'static {
    /// Opens a login page in a browser. If the browser runs on this machine, its redirect arrives
    /// at the listener. If not, the person can paste the address they were redirected to, or the
    /// code in it. Without such an input the future stays pending.
    ///
    /// Called again, a few times at most, if the input was not usable; [`LoginPage::rejection`]
    /// says why.
    fn show_page(&self, page: LoginPage) -> PromptFuture<'_, PageReply>;

    /// Asks whether the login may continue at a page whose host is unrelated to the authorization
    /// server's: neither the same, nor a parent, nor a subdomain. The prompt must name both hosts.
    fn confirm_foreign_host(&self, question: ForeignLoginHost) -> PromptFuture<'_, ForeignHostChoice> {
        let _ = question;
        Box::pin(std::future::ready(ForeignHostChoice::NotAsked))
    }

    /// Shows a device code. Stays pending while it is shown; returning cancels the login.
    fn show_device_code(&self, code: DeviceCode) -> PromptFuture<'_, ()>;

    /// Whether a browser can be opened from here. If not, as over SSH or without a display, a
    /// device code is used where the authorization server supports it, else
    /// [`LoginPrompt::show_page`].
    fn has_browser(&self) -> bool {
        true
    }

    /// Whether a person can paste what the browser received. Then a login is possible without a
    /// listener, such as when another program uses the port.
    fn can_paste(&self) -> bool {
        false
    }
}

/// A page on which a person logs in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoginPage {
    /// The server's configured name.
    pub server: Arc<str>,
    /// The issuer of the authorization server.
    pub issuer: String,
    /// The page: `https`, or on this machine.
    pub url: Url,
    /// Where the browser is redirected at the end.
    pub redirect: Url,
    /// Whether a listener waits there.
    pub listening: bool,
    /// Why there is no listener, where one was intended.
    pub listen_error: Option<String>,
    /// Why the previous input was rejected. The page is already open then.
    pub rejection: Option<String>,
    /// The requested scopes.
    pub scopes: Vec<String>,
    /// What the response to this login must contain.
    pub(crate) expected_response: ExpectedResponse,
}

impl LoginPage {
    /// Creates a page without a listener, for the unit test of a prompt. Its public fields can be
    /// set. [`LoginPage::check`] accepts what belongs to the `state` parameter of `url`.
    pub fn new(server: impl Into<Arc<str>>, issuer: impl Into<String>, url: Url, redirect: Url) -> Self {
        let issuer = issuer.into();
        let state = url.query_pairs().find(|(name, _)| name == "state");
        let state = Secret::new(state.map(|(_, value)| value.into_owned()).unwrap_or_default());
        let expected_response = ExpectedResponse { issuer: issuer.clone(), state, iss_required: false };
        Self {
            server: server.into(),
            issuer,
            url,
            redirect,
            listening: false,
            listen_error: None,
            rejection: None,
            scopes: Vec::new(),
            expected_response,
        }
    }

    /// Checks whether an input can belong to this login. The error is a sentence without a full
    /// stop.
    pub fn check(&self, pasted: &str) -> Result<(), String> {
        match paste::parse(pasted, &self.expected_response, &self.redirect) {
            PastedInput::Rejected(why) => Err(why),
            PastedInput::Code { .. } | PastedInput::Failed(_) => Ok(()),
        }
    }
}

/// What a person replies to a login page.
#[derive(Clone)]
#[non_exhaustive]
pub enum PageReply {
    /// The address they were redirected to, or the code in it.
    Pasted(String),
    /// They give up; no input will follow.
    GaveUp,
}

/// A login page at a host that is unrelated to the authorization server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ForeignLoginHost {
    /// The server's configured name.
    pub server: Arc<str>,
    /// The issuer of the authorization server.
    pub issuer: String,
    /// The host of the issuer.
    pub issuer_host: String,
    /// The host of the page, with non-ASCII labels as `xn--`.
    pub page_host: String,
}

impl ForeignLoginHost {
    /// Creates a question, for the unit test of a prompt.
    pub fn new(
        server: impl Into<Arc<str>>,
        issuer: impl Into<String>,
        issuer_host: impl Into<String>,
        page_host: impl Into<String>,
    ) -> Self {
        Self {
            server: server.into(),
            issuer: issuer.into(),
            issuer_host: issuer_host.into(),
            page_host: page_host.into(),
        }
    }
}

/// A person's decision about a page at an unrelated host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForeignHostChoice {
    /// The login may continue there.
    Allowed,
    /// The login is canceled.
    Refused,
    /// Nobody could be asked. The login fails with a hint on how to allow it in the configuration.
    NotAsked,
}

/// A device code to be shown.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceCode {
    /// The server's configured name.
    pub server: Arc<str>,
    /// The issuer of the authorization server.
    pub issuer: String,
    /// The page where the code is typed in.
    pub url: Url,
    /// The verification page with the code filled in.
    pub complete_url: Option<Url>,
    /// The code to type in.
    pub code: String,
    /// How long the code is valid.
    pub expires_in: Duration,
    /// The requested scopes.
    pub scopes: Vec<String>,
}

impl DeviceCode {
    /// Creates a code that is valid for ten minutes, for the unit test of a prompt. Its fields can be
    /// set.
    pub fn new(
        server: impl Into<Arc<str>>,
        issuer: impl Into<String>,
        url: Url,
        code: impl Into<String>,
    ) -> Self {
        Self {
            server: server.into(),
            issuer: issuer.into(),
            url,
            complete_url: None,
            code: code.into(),
            expires_in: Duration::from_secs(600),
            scopes: Vec::new(),
        }
    }
}
