//! Owns what a person is asked, and how they may answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use crate::login::paste::{self, Pasted};
use crate::metadata::is_loopback;
use crate::response::Pending;

/// Somebody is asked, and takes their time.
pub type Asked<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Brings a person to a login.
///
/// Whatever is shown must go when the future is dropped: the login is over, or nobody wants it any more.
pub trait LoginPrompt: Send + Sync + 'static {
    /// Brings a person to a page, in a browser. What the browser is sent back with comes by itself if it runs on this
    /// machine. If it does not, the person can bring it here: the address they were sent to, or just its code. Where
    /// there is nothing to bring, the future stays pending.
    ///
    /// It is called again when what was brought was of no use, a few times at most; [`LoginPage::wrong`] says why.
    fn page(&self, page: LoginPage) -> Asked<'_, PageReply>;

    /// Asks whether a login may go on at a page whose host is neither that of the authorization server nor above or
    /// below it. What is shown has to name both hosts.
    fn other_host(&self, question: OtherHost) -> Asked<'_, HostReply> {
        let _ = question;
        Box::pin(std::future::ready(HostReply::NotAsked))
    }

    /// Shows a code that a person types in on another device. Stays pending while it is shown; to return is to give
    /// up.
    fn device(&self, code: DeviceCode) -> Asked<'_, ()>;

    /// Whether a browser of the person's can be brought to a page from here. Where it cannot, over SSH or without a
    /// display, a login is had by a code on another device if the authorization server offers that, else by
    /// [`LoginPrompt::page`] all the same.
    fn has_browser(&self) -> bool {
        true
    }

    /// Whether a person can bring back what the browser got. If so, a login can be had although nobody can listen
    /// where the browser is sent to, as when another program has the port.
    fn can_paste(&self) -> bool {
        false
    }
}

/// A page on which a person logs in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoginPage {
    /// The server, by its configured name.
    pub server: Arc<str>,
    /// The authorization server.
    pub issuer: String,
    /// The page: `https`, or on this machine.
    pub url: Url,
    /// Where the browser is sent back to.
    pub redirect: Url,
    /// Whether somebody listens there.
    pub listening: bool,
    /// Why nobody does, where somebody should.
    pub unheard: Option<String>,
    /// Why what was brought back before was of no use: the person knows the page already.
    pub wrong: Option<String>,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// What an answer to this login looks like.
    pub(crate) expected: Pending,
}

impl LoginPage {
    /// Whether what a person wants to bring back can be of this login, or why not, in a sentence without a full stop.
    pub fn check(&self, pasted: &str) -> Result<(), String> {
        match paste::read(pasted, &self.expected, &self.redirect) {
            Pasted::Wrong(why) => Err(why),
            Pasted::Code { .. } | Pasted::Over(_) => Ok(()),
        }
    }
}

/// What a person brought back from a page.
#[derive(Clone)]
pub enum PageReply {
    /// The address they were sent to, or the code in it.
    Pasted(String),
    /// Nothing, and nothing will come.
    GaveUp,
}

/// A page that is at another host than the authorization server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OtherHost {
    /// The server, by its configured name.
    pub server: Arc<str>,
    /// The authorization server.
    pub issuer: String,
    /// Its host.
    pub issuer_host: String,
    /// The host of the page, with letters beyond ASCII as `xn--`.
    pub page_host: String,
}

/// What a person says to a page at another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostReply {
    /// It is right.
    Allowed,
    /// It is not.
    Refused,
    /// Nobody could be asked. The login fails, and says how to allow it in the configuration.
    NotAsked,
}

/// A code for another device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceCode {
    /// The server, by its configured name.
    pub server: Arc<str>,
    /// The authorization server.
    pub issuer: String,
    /// Where it is typed in.
    pub url: Url,
    /// The same with the code in it.
    pub complete: Option<Url>,
    /// What is typed in.
    pub code: String,
    /// For how long it is good.
    pub expires_in: Duration,
    /// What is asked for.
    pub scopes: Vec<String>,
}

/// Whether a person may be sent to a page: `https`, or on this machine (SE-03).
pub(crate) fn is_page(url: &Url) -> bool {
    match url.scheme() {
        "https" => url.has_host(),
        "http" => is_loopback(url),
        _ => false,
    }
}
