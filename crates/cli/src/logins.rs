//! Opens the login store, and builds the authentication of a command.
//!
//! The store is opened only when a login is needed: a locked keyring or a damaged file does not
//! affect servers that need none.

mod lookup;

use std::fmt;
use std::path::PathBuf;

use bowline::Server;
use bowline::auth::store::{self, OpenedStore};
use bowline::auth::{App, Auth};
use bowline::config::{AppSettings, Problem, StoreConfig};

use crate::env;
use crate::failure::{Failure, Outcome};
use crate::server_auth::can_log_in;
use crate::settings::Settings;
use bowline_settings::{Layer, Origin};

pub(crate) use lookup::{LoginLookup, server_for_login};

/// What the trusted configuration files say about logins.
pub(crate) struct LoginSettings {
    store: Result<StoreConfig, UnknownStore>,
    state: Option<PathBuf>,
    /// The client identity that is presented to authorization servers.
    pub(crate) app: App,
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
                logins.app = app.client_name.map_or_else(App::default, App::new);
                logins.app.metadata_url = app.client_metadata_url;
            }
        }
        logins
    }

    /// Returns the authentication for `server`, or `None` if it does not use stored logins.
    pub(crate) fn auth(&self, server: &Server) -> Option<Auth> {
        can_log_in(server).then(|| self.track_refreshes(self.login_settings().lazy_auth()))
    }
}

impl LoginSettings {
    /// Hashes everything that decides which logins are used.
    #[cfg(unix)]
    pub(crate) fn hash_into(&self, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash as _;

        let Self { store, state, app: App { name, uri, metadata_url, .. } } = self;
        store.as_ref().map_err(|unknown| &unknown.message).hash(hasher);
        (state, name, uri, metadata_url).hash(hasher);
    }

    /// Opens the store if there is one. `None` means that nothing was stored yet; nothing is created
    /// then.
    pub(crate) async fn open_existing_store(&self) -> Outcome<Option<OpenedStore>> {
        let is_absent =
            |config: &StoreConfig, state: &PathBuf| !bowline_store::exists(&config.backend, state);
        match (&self.store, &self.state) {
            (Ok(config), Some(state)) if is_absent(config, state) => Ok(None),
            _ => self.open_store().await.map(Some),
        }
    }

    /// Opens the store now, for commands that need it.
    pub(crate) async fn open_store(&self) -> Outcome<OpenedStore> {
        let Some(state) = &self.state else {
            return Err(Failure::usage("there is no folder for logins: HOME is not set"));
        };
        let keeping = self.store.as_ref().map_err(UnknownStore::failure)?;
        store::open(keeping, state).await.map_err(|error| {
            let hint = "[store] in your configuration file sets where logins are stored";
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
        let message = format!("{} does not set where logins are stored", layer.path.display());
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
