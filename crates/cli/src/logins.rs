//! Owns where logins are kept, and how a command proves who it is.
//!
//! A server that wants no login never needs what is kept: a locked keyring or a damaged file is an error only for
//! those that do.

mod which;

use std::fmt;
use std::path::PathBuf;

use bowline::auth::store::{self, Opened};
use bowline::auth::{App, Auth};
use bowline::config::{AppSettings, Grant, Http, Keeping, Problem, Server, Transport};
use url::Url;

use crate::again;
use crate::env;
use crate::failure::{Failure, Outcome};
use crate::settings::Settings;
use crate::settings::files::{Layer, Origin};

pub(crate) use which::{Meant, server_of};

/// What the files say of it, as far as they are trusted.
pub(crate) struct Logins {
    keeping: Result<Keeping, Unsaid>,
    state: Option<PathBuf>,
    app: App,
}

/// Why nobody knows where logins are kept. Another place is never taken for it: a logout would end nothing there, and
/// a login might get a weaker key.
#[derive(Clone, Debug)]
struct Unsaid {
    message: String,
    problems: Vec<Problem>,
}

impl Settings {
    /// Where this user's logins are kept.
    pub(crate) fn logins(&self) -> Logins {
        let state = env::state(&*self.env);
        let mut logins = Logins { keeping: Ok(Keeping::default()), state, app: App::default() };
        let layers = match self.layers() {
            Ok(layers) => layers,
            Err(failure) => {
                logins.keeping = Err(Unsaid::unreadable(failure));
                return logins;
            }
        };
        for layer in layers.iter() {
            let config = &layer.config;
            // Logins are the user's own: a project does not say where they go.
            if layer.origin != Origin::Project {
                if let Some(unsaid) = Unsaid::in_layer(layer) {
                    logins.keeping = Err(unsaid);
                } else if let Some(keeping) = &config.keeping {
                    logins.keeping = Ok(keeping.clone());
                }
            }
            if config.auth != AppSettings::default() {
                let app = config.auth.clone();
                logins.app = App { document: app.client_metadata_url, ..App::default() };
                logins.app.name = app.client_name.unwrap_or(logins.app.name);
            }
        }
        logins
    }

    /// How a command proves who it is to `server`. `None`: by nothing that is kept.
    pub(crate) fn auth(&self, server: &Server) -> Option<Auth> {
        can_log_in(server).then(|| self.refreshes.watch(self.logins().auth(), &self.printer))
    }
}

impl Logins {
    /// Opens what is kept, for whoever cannot do without.
    pub(crate) async fn open(&self) -> Outcome<Opened> {
        let Some(state) = &self.state else {
            return Err(Failure::usage("there is no folder for logins: HOME is not set"));
        };
        let keeping = self.keeping.as_ref().map_err(Unsaid::failure)?;
        store::open(keeping, state).await.map_err(|error| {
            let hint = "where logins are kept is said under [store] in your configuration file";
            Failure::usage_hint(format!("logins cannot be read: {error}"), hint)
        })
    }

    /// The same for whoever may do without: it is opened when it is needed, and cannot fail before.
    pub(crate) fn auth(&self) -> Auth {
        let auth = match (&self.keeping, &self.state) {
            (Err(unsaid), _) => Auth::new(store::open_never(unsaid.to_string())),
            (Ok(keeping), Some(state)) => Auth::new(store::open_later(keeping.clone(), state.clone())),
            (Ok(_), None) => Auth::in_memory(),
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

impl Unsaid {
    /// A file that might say it cannot be read.
    fn unreadable(failure: Failure) -> Self {
        let message = match failure {
            Failure::Told(report) => report.message,
            Failure::Signal(_) | Failure::Output(_) => "a configuration file cannot be read".to_owned(),
        };
        Self { message, problems: Vec::new() }
    }

    /// What in a file leaves it open, if something does.
    fn in_layer(layer: &Layer) -> Option<Self> {
        let problems: Vec<Problem> = layer.problems.iter().filter(|it| it.hides_keeping()).cloned().collect();
        let message = format!("{} does not say where logins are kept", layer.path.display());
        (!problems.is_empty()).then_some(Self { message, problems })
    }

    fn failure(&self) -> Failure {
        let Self { message, problems } = self.clone();
        if problems.is_empty() { Failure::usage(message) } else { Failure::config(message, problems) }
    }
}

/// In a line: it is told as the reason of something else.
impl fmt::Display for Unsaid {
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
    can_log_in(server).then(|| again::command(["login", &target(server, http, again::was_typed)]))
}

/// What is typed for a server: its name, or the whole of the URL that was typed. A query may hold a key, but it tells
/// tenants apart as well, and so it tells logins apart.
fn target(server: &Server, http: &Http, was_typed: impl Fn(&Url) -> bool) -> String {
    let unnamed = server.name == authority(http) && was_typed(&http.url);
    if unnamed { http.url.to_string() } else { server.name.clone() }
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
        let typed = |server: &Server, url: &str| {
            let Transport::Http(http) = &server.transport else { unreachable!() };
            target(server, http, |other| other.as_str() == url)
        };
        let (name, url) = ("h:8443", "https://h:8443/mcp?tenant=x");
        let named = Server::http("docs", url).unwrap();
        assert_eq!(typed(&named, url), "docs");
        let bare = Server::http(name, url).unwrap();
        assert_eq!(typed(&bare, url), url);
        // An entry can be called like its host, and what is in its URL is not for others to see.
        assert_eq!(typed(&bare, ""), name);
        assert_eq!(command(&named).unwrap(), "bowline login docs");
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
