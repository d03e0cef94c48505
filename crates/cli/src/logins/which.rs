//! Owns which of the kept logins are meant by what was typed.
//!
//! A login is found by what it is kept under, never by what is shown of it: an address is shown without its query,
//! and entries change after somebody has logged in.

use bowline::auth::{Account, Auth};
use bowline::config::{self, Server, Transport};

use super::{authority, shown};
use crate::args::TargetArgs;
use crate::failure::{Failure, Outcome};
use crate::settings::Settings;
use crate::settings::target::from_url;

/// What was typed: a server, and the logins for it.
pub(crate) struct Meant {
    /// The server as it is configured now, or why there is none.
    pub(crate) server: Outcome<Server>,
    /// Its own login, or else those that were made under that name when the entry was another one.
    pub(crate) logins: Vec<Account>,
}

impl Meant {
    /// What `typed` means among the logins that are kept.
    pub(crate) fn by(typed: &str, kept: &[Account], auth: &Auth, settings: &Settings) -> Self {
        let server = settings.server(Some(typed), TargetArgs::default());
        let identity = server.as_ref().ok().and_then(|server| auth.identity(server));
        let own = identity.and_then(|identity| kept.iter().find(|login| login.id == identity.login_id()));
        let logins = match own {
            Some(own) => vec![own.clone()],
            None => kept.iter().filter(|login| is_named(login, typed)).cloned().collect(),
        };
        Self { server, logins }
    }
}

/// Whether a login is listed under what was typed. One that was made by URL is listed without its query; a query that
/// was typed means another tenant.
fn is_named(login: &Account, typed: &str) -> bool {
    if !typed.contains("://") {
        return login.server == typed;
    }
    let Ok(Server { transport: Transport::Http(http), .. }) = from_url(typed) else { return false };
    http.url.query().is_none() && login.server == authority(&http) && login.url == shown(&http)
}

/// The server that a login was made for, to end it by: how it is reached, and what its client proves itself with. Its
/// entry, if that still is about the same address; else what is known of the login has to do.
pub(crate) fn server_of(login: &Account, settings: &Settings) -> Outcome<Server> {
    if let Ok(server) = settings.server(Some(&login.server), TargetArgs::default())
        && let Transport::Http(http) | Transport::Sse(http) = &server.transport
        && shown(http) == login.url
    {
        return Ok(server);
    }
    let auth = config::Auth { account: login.label.clone(), ..config::Auth::default() };
    let server = Server::http(&login.server, &login.url).and_then(|server| server.with_auth(auth));
    server.map_err(|why| Failure::usage(format!("the login of `{}` names no server: {why}", login.server)))
}
