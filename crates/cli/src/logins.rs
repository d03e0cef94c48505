//! Opens the login store, and builds the authentication of a command.
//!
//! The store is opened only when a login is needed: a locked keyring or a damaged file does not
//! affect servers that need none.

mod lookup;

use std::fmt;
use std::path::PathBuf;

use bowline::auth::store::{self, OpenedStore};
use bowline::auth::{App, Auth};
use bowline::config::{AppSettings, Grant, Http, Problem, Server, StoreConfig, Transport};
use url::Url;

use crate::env;
use crate::failure::{Failure, Outcome};
use crate::settings::Settings;
use crate::settings::files::{Layer, Origin};
use crate::suggested_command;

pub(crate) use lookup::{LoginLookup, server_for_login};

/// What the trusted configuration files say about logins.
pub(crate) struct LoginSettings {
    store: Result<StoreConfig, UnknownStore>,
    state: Option<PathBuf>,
    app: App,
}

/// Why it is not known where logins are stored. There is no fallback: a logout elsewhere would end
/// nothing, and a login might be stored under a weaker key.
#[derive(Clone, Debug)]
struct UnknownStore {
    message: String,
    problems: Vec<Problem>,
}

impl Settings {
    /// Returns the login settings of this user.
    pub(crate) fn login_settings(&self) -> LoginSettings {
        let state = env::state_folder(&*self.env);
        let mut logins = LoginSettings { store: Ok(StoreConfig::default()), state, app: App::default() };
        let layers = match self.layers() {
            Ok(layers) => layers,
            Err(failure) => {
                logins.store = Err(UnknownStore::unreadable(failure));
                return logins;
            }
        };
        for layer in layers.iter() {
            let config = &layer.config;
            // Logins belong to the user, so a project cannot redirect them.
            if layer.origin != Origin::Project {
                if let Some(unsaid) = UnknownStore::in_layer(layer) {
                    logins.store = Err(unsaid);
                } else if let Some(keeping) = &config.store {
                    logins.store = Ok(keeping.clone());
                }
            }
            if config.auth != AppSettings::default() {
                let app = config.auth.clone();
                logins.app = App { metadata_url: app.client_metadata_url, ..App::default() };
                logins.app.name = app.client_name.unwrap_or(logins.app.name);
            }
        }
        logins
    }

    /// Returns the authentication for `server`, or `None` if it does not use stored logins.
    pub(crate) fn auth(&self, server: &Server) -> Option<Auth> {
        can_log_in(server).then(|| self.refreshes.watch(self.login_settings().lazy_auth(), &self.printer))
    }
}

impl LoginSettings {
    /// Opens the store now, for commands that need it.
    pub(crate) async fn open_store(&self) -> Outcome<OpenedStore> {
        let Some(state) = &self.state else {
            return Err(Failure::usage("there is no folder for logins: HOME is not set"));
        };
        let keeping = self.store.as_ref().map_err(UnknownStore::failure)?;
        store::open(keeping, state).await.map_err(|error| {
            let hint = "where logins are kept is said under [store] in your configuration file";
            Failure::usage_hint(format!("logins cannot be read: {error}"), hint)
        })
    }

    /// Returns an authentication that opens the store when it is first needed.
    pub(crate) fn lazy_auth(&self) -> Auth {
        let auth = match (&self.store, &self.state) {
            (Err(unsaid), _) => Auth::new(store::open_unusable(unsaid.to_string())),
            (Ok(keeping), Some(state)) => Auth::new(store::open_lazily(keeping.clone(), state.clone())),
            (Ok(_), None) => Auth::in_memory(),
        };
        auth.app(self.app.clone())
    }

    /// Returns an authentication that uses an open store.
    pub(crate) fn auth_with(&self, opened: &OpenedStore) -> Auth {
        Auth::new(opened.store.clone()).app(self.app.clone())
    }

    /// Returns the client identity that is presented to authorization servers.
    pub(crate) fn app(&self) -> &App {
        &self.app
    }
}

impl UnknownStore {
    /// A configuration file that might define the store cannot be read.
    fn unreadable(failure: Failure) -> Self {
        let message = match failure {
            Failure::Report(report) => report.message,
            Failure::Signal(_) | Failure::Output(_) => "a configuration file cannot be read".to_owned(),
        };
        Self { message, problems: Vec::new() }
    }

    /// Returns the problems of a file that hide where the store is, if there are any.
    fn in_layer(layer: &Layer) -> Option<Self> {
        let problems: Vec<Problem> =
            layer.problems.iter().filter(|it| it.hides_store_config()).cloned().collect();
        let message = format!("{} does not say where logins are kept", layer.path.display());
        (!problems.is_empty()).then_some(Self { message, problems })
    }

    fn failure(&self) -> Failure {
        let Self { message, problems } = self.clone();
        if problems.is_empty() { Failure::usage(message) } else { Failure::config(message, problems) }
    }
}

/// Formats the error on one line, since it is shown as the reason of another one.
impl fmt::Display for UnknownStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.problems.first() {
            Some(Problem { line, column, key, message, .. }) if key.is_empty() => {
                write!(f, " ({line}:{column}: {message})")
            }
            Some(Problem { line, column, key, message, .. }) => {
                write!(f, " ({line}:{column}: {key}: {message})")
            }
            None => Ok(()),
        }
    }
}

/// Which headers in the configuration authenticate us, in place of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderAuth {
    /// An `Authorization` header in the configuration.
    Fixed,
    /// A `headers_command`.
    Command,
}

/// Returns how headers authenticate us, if they do; then no login is begun.
pub(crate) fn header_auth(http: &Http) -> Option<HeaderAuth> {
    let fixed = http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    if http.headers_command.is_some() {
        Some(HeaderAuth::Command)
    } else {
        fixed.then_some(HeaderAuth::Fixed)
    }
}

/// Returns whether a login can authenticate us to this server.
pub(crate) fn can_log_in(server: &Server) -> bool {
    match &server.transport {
        Transport::Http(http) | Transport::Sse(http) => {
            header_auth(http).is_none() && http.auth.grant != Grant::Off
        }
        Transport::Stdio(_) => false,
    }
}

/// Returns the command that logs in, or `None` if a login cannot help with this server.
pub(crate) fn login_command(server: &Server) -> Option<String> {
    let (Transport::Http(http) | Transport::Sse(http)) = &server.transport else { return None };
    can_log_in(server).then(|| {
        suggested_command::format_command([
            "login",
            &login_target(server, http, suggested_command::was_typed),
        ])
    })
}

/// Returns the argument for `bowline login`: the server's name, or the whole URL if that was typed.
/// The query may hold a key, but it also distinguishes tenants, and so logins.
fn login_target(server: &Server, http: &Http, was_typed: impl Fn(&Url) -> bool) -> String {
    let unnamed = server.name == authority(http) && was_typed(&http.url);
    if unnamed { http.url.to_string() } else { server.name.clone() }
}

/// Returns host and port of a server, which name it if nothing else does.
pub(crate) fn authority(http: &Http) -> String {
    let host = http.url.host_str().unwrap_or_default();
    http.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Returns the URL without its query, which may hold a key.
pub(crate) fn url_without_query(http: &Http) -> String {
    let mut url = http.url.clone();
    url.set_query(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use bowline::config::AuthSettings;

    use super::*;

    #[test]
    fn what_to_run_names_the_server_as_it_was_typed() {
        let typed = |server: &Server, url: &str| {
            let Transport::Http(http) = &server.transport else { unreachable!() };
            login_target(server, http, |other| other.as_str() == url)
        };
        let (name, url) = ("h:8443", "https://h:8443/mcp?tenant=x");
        let named = Server::http("docs", url).unwrap();
        assert_eq!(typed(&named, url), "docs");
        let bare = Server::http(name, url).unwrap();
        assert_eq!(typed(&bare, url), url);
        // An entry may be named like its host, and its URL must not be shown.
        assert_eq!(typed(&bare, ""), name);
        assert_eq!(login_command(&named).unwrap(), "bowline login docs");
    }

    #[test]
    fn login_is_suggested_only_where_it_can_help() {
        let docs = || Server::http("docs", "https://h/mcp").unwrap();
        assert_eq!(login_command(&docs().with_header("authorization", "Bearer x").unwrap()), None);
        let off = AuthSettings { grant: Grant::Off, ..AuthSettings::default() };
        assert_eq!(login_command(&docs().with_auth(off).unwrap()), None);
        assert_eq!(login_command(&Server::stdio("s", "x", [""; 0])), None);
    }
}
