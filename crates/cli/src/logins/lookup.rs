//! Finds the stored logins that an argument refers to.
//!
//! A login is matched by the id it is stored under, never by its displayed fields: URLs are shown
//! without their query, and entries change after a login.

use bowline::Server;
use bowline::auth::{Account, Auth};
use bowline::config::{self, Transport};

use crate::args::TargetArgs;
use crate::failure::{Failure, Outcome};
use crate::server_auth::{authority, url_without_query};
use crate::settings::Settings;
use crate::settings::target::server_from_url;

/// The server and the logins that an argument refers to.
pub(crate) struct LoginLookup {
    /// The server as it is configured now, or why there is none.
    pub(crate) server: Outcome<Server>,
    /// The server's own login, or else the logins made under that name when the entry was
    /// different.
    pub(crate) logins: Vec<Account>,
}

impl LoginLookup {
    /// Finds the logins for `typed` among those stored.
    pub(crate) fn find(typed: &str, accounts: &[Account], auth: &Auth, settings: &Settings) -> Self {
        let server = settings.resolve_server(Some(typed), TargetArgs::default());
        let identity = server.as_ref().ok().and_then(|server| auth.identity(server));
        let own = identity.and_then(|identity| accounts.iter().find(|login| login.id == identity.login_id()));
        let logins = match own {
            Some(own) => vec![own.clone()],
            None => accounts.iter().filter(|login| is_listed_under(login, typed)).cloned().collect(),
        };
        Self { server, logins }
    }
}

/// Returns whether a login is listed under `typed`. A login made by URL is listed without its
/// query, so a typed query means another tenant.
fn is_listed_under(login: &Account, typed: &str) -> bool {
    if !typed.contains("://") {
        return login.server == typed;
    }
    let Ok(Server { transport: Transport::Http(http), .. }) = server_from_url(typed) else { return false };
    http.url.query().is_none() && login.server == authority(&http) && login.url == url_without_query(&http)
}

/// Returns the server to end a login with: its entry, if that still has the same URL; otherwise a
/// server built from what the login itself says.
pub(crate) fn server_for_login(login: &Account, settings: &Settings) -> Outcome<Server> {
    if let Ok(server) = settings.resolve_server(Some(&login.server), TargetArgs::default())
        && let Transport::Http(http) | Transport::Sse(http) = &server.transport
        && url_without_query(http) == login.url
    {
        return Ok(server);
    }
    let mut auth = config::AuthSettings::default();
    auth.account.clone_from(&login.label);
    let server = Server::http(&login.server, &login.url).auth(auth).build();
    server.map_err(|why| {
        Failure::usage(format!("the stored login of `{}` has no URL that can be used: {why}", login.server))
    })
}
