//! Owns where logins are kept, and how a command proves who it is.
//!
//! A server that wants no login never needs what is kept: a locked keyring or a damaged file is an error only for
//! those that do.

use std::path::PathBuf;

use bowline::auth::store::{self, Opened};
use bowline::auth::{App, Auth};
use bowline::config::{AppSettings, Grant, Http, Keeping, Server, Transport};

use crate::env;
use crate::failure::{Failure, Outcome};
use crate::settings::files::Origin;
use crate::settings::{Settings, Trust};

/// What the files say of it, as far as they are trusted.
pub(crate) struct Logins {
    keeping: Keeping,
    state: Option<PathBuf>,
    app: App,
}

impl Settings {
    /// Where this user's logins are kept. A file that cannot be read says nothing of it.
    pub(crate) fn logins(&self) -> Logins {
        let mut logins =
            Logins { keeping: Keeping::default(), state: env::state(&*self.env), app: App::default() };
        let Ok(layers) = self.files.read(&*self.env) else { return logins };
        for layer in layers.iter() {
            let config = &layer.config;
            // Logins are the user's own: a project does not say where they go.
            if layer.origin != Origin::Project
                && let Some(keeping) = &config.keeping
            {
                logins.keeping.clone_from(keeping);
            }
            let trusted = layer.origin != Origin::Project || self.trust == Trust::Project;
            if trusted && config.auth != AppSettings::default() {
                let app = config.auth.clone();
                logins.app = App { document: app.client_metadata_url, ..App::default() };
                logins.app.name = app.client_name.unwrap_or(logins.app.name);
            }
        }
        logins
    }

    /// How a command proves who it is to `server`. `None`: by nothing that is kept.
    pub(crate) fn auth(&self, server: &Server) -> Option<Auth> {
        can_log_in(server).then(|| self.logins().auth())
    }
}

impl Logins {
    /// Opens what is kept, for whoever cannot do without.
    pub(crate) async fn open(&self) -> Outcome<Opened> {
        let Some(state) = &self.state else {
            return Err(Failure::usage("there is no folder for logins: HOME is not set"));
        };
        store::open(&self.keeping, state).await.map_err(|error| {
            let hint = "where logins are kept is said under [store] in your configuration file";
            Failure::usage_hint(format!("logins cannot be read: {error}"), hint)
        })
    }

    /// The same for whoever may do without: it is opened when it is needed, and cannot fail before.
    pub(crate) fn auth(&self) -> Auth {
        let auth = match &self.state {
            Some(state) => Auth::new(store::open_later(self.keeping.clone(), state.clone())),
            None => Auth::in_memory(),
        };
        auth.app(self.app.clone())
    }

    /// How a command proves who it is with what was opened.
    pub(crate) fn with(&self, opened: &Opened) -> Auth {
        Auth::new(opened.safe.clone()).app(self.app.clone())
    }

    /// Who we say we are.
    pub(crate) fn app(&self) -> &App {
        &self.app
    }
}

/// What of the configuration says who we are, in place of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// Headers that stand in it.
    Fixed,
    /// Headers that a program prints.
    Command,
}

/// Whether headers say who we are: then no login is begun.
pub(crate) fn own_headers(http: &Http) -> Option<Own> {
    let fixed = http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    if http.headers_command.is_some() { Some(Own::Command) } else { fixed.then_some(Own::Fixed) }
}

/// Whether a login is a way to be known to this server.
pub(crate) fn can_log_in(server: &Server) -> bool {
    match &server.transport {
        Transport::Http(http) | Transport::Sse(http) => {
            own_headers(http).is_none() && http.auth.grant != Grant::Off
        }
        Transport::Stdio(_) => false,
    }
}

/// How to be logged in, in the words of a shell. `None`: a login is no way to be known to this server.
pub(crate) fn command(server: &Server) -> Option<String> {
    let (Transport::Http(http) | Transport::Sse(http)) = &server.transport else { return None };
    can_log_in(server).then(|| format!("bowline login {}", target(server, http)))
}

/// What is typed for a server: its name, or its URL if it has none of its own.
fn target(server: &Server, http: &Http) -> String {
    if server.name == authority(http) { shown(http) } else { server.name.clone() }
}

/// The host and the port of a server: what one without a name is called.
pub(crate) fn authority(http: &Http) -> String {
    let host = http.url.host_str().unwrap_or_default();
    http.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The endpoint as it may be shown: people put keys into queries.
pub(crate) fn shown(http: &Http) -> String {
    let mut url = http.url.clone();
    url.set_query(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use bowline::config::Auth;

    use super::*;

    #[test]
    fn what_to_run_names_the_server_as_it_was_typed() {
        let named = Server::http("docs", "https://h/mcp").unwrap();
        assert_eq!(command(&named).unwrap(), "bowline login docs");
        let bare = Server::http("h:8443", "https://h:8443/mcp?key=k3y").unwrap();
        assert_eq!(command(&bare).unwrap(), "bowline login https://h:8443/mcp");
    }

    #[test]
    fn where_a_login_is_no_way_it_is_not_suggested() {
        let docs = || Server::http("docs", "https://h/mcp").unwrap();
        assert_eq!(command(&docs().with_header("authorization", "Bearer x").unwrap()), None);
        let off = Auth { grant: Grant::Off, ..Auth::default() };
        assert_eq!(command(&docs().with_auth(off).unwrap()), None);
        assert_eq!(command(&Server::stdio("s", "x", [""; 0])), None);
    }
}
