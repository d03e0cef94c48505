//! Owns which servers are meant by a verb that is about many, and what of each is acted on.

use bowline::config::{Hook, Server};
use bowline::{Registry, RegistryBuilder};

use super::Settings;
use super::files::{Found, Layers};
use crate::failure::{Failure, Outcome};
use crate::logins;
use crate::session;
use crate::settings::target::from_url;

/// The servers that are meant.
#[derive(Debug, Default)]
pub(crate) struct Many {
    /// Those that can be used, with the hooks for all; disabled ones among them.
    pub(crate) servers: Vec<Server>,
    /// Those that cannot.
    pub(crate) others: Vec<Other>,
}

/// A server that is not acted on.
#[derive(Debug)]
pub(crate) struct Other {
    pub(crate) name: String,
    pub(crate) why: Why,
    /// What is wrong with it, if something is.
    pub(crate) detail: Option<String>,
}

/// Why a server is not acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Anybody may have written the file that names it, and nobody vouches for that.
    NotTrusted,
    /// It is disabled, and its placeholders cannot be filled.
    Disabled,
    /// Its entry is wrong.
    Unusable,
}

impl Settings {
    /// The servers of these names and URLs, or all that are configured.
    pub(crate) fn many(&self, names: &[String]) -> Outcome<Many> {
        let layers = self.layers()?;
        let hooks = common_hooks(layers);
        if names.is_empty() {
            return self.all(layers, &hooks);
        }
        let mut many = Many::default();
        for name in names {
            let server = if name.contains("://") {
                from_url(name)?.with_common_hooks(&hooks)
            } else {
                self.configured(name)?
            };
            if !many.servers.iter().any(|other| other.name == server.name) {
                many.servers.push(server);
            }
        }
        Ok(many)
    }

    fn all(&self, layers: &Layers, hooks: &[Hook]) -> Outcome<Many> {
        let mut many = Many::default();
        let mut other = |name: &str, why, detail| {
            many.others.push(Other { name: name.to_owned(), why, detail });
        };
        for name in layers.names() {
            match layers.find(name) {
                Found::Server(server, layer) => {
                    layer.log_doubts(name);
                    many.servers.push(server.clone().with_common_hooks(hooks));
                }
                Found::Broken(problems) => {
                    let wrong = layers.iter().flat_map(|layer| &layer.problems);
                    let wrong = wrong.filter(|problem| problem.server.as_deref() == Some(name)).count() > 0;
                    let why = if wrong { Why::Unusable } else { Why::Disabled };
                    other(name, why, problems.first().map(|problem| problem.message.clone()));
                }
                Found::Unreadable(problems) => {
                    let file = problems.first().map(|problem| problem.file.display().to_string());
                    let message = format!("cannot read {}", file.unwrap_or_default());
                    return Err(Failure::config(message, problems));
                }
                Found::Untrusted(_) | Found::Unknown => {}
            }
        }
        let own = layers.names();
        if let Some(project) = layers.untrusted() {
            for name in project.names().filter(|name| !own.contains(name)) {
                other(name, Why::NotTrusted, None);
            }
            self.printer.note(&project.note());
        }
        many.others.sort_by(|a, b| a.name.cmp(&b.name));
        if many.servers.is_empty() && many.others.is_empty() {
            let files = self.files.paths();
            let file = files.first().map(|(path, _)| path.display().to_string()).unwrap_or_default();
            let hint = format!("add [servers.NAME] to {file}, or name a URL");
            return Err(Failure::usage_hint("no servers are configured", hint));
        }
        Ok(many)
    }

    /// How the command connects to many servers.
    pub(crate) fn registry(&self) -> RegistryBuilder {
        let folders = self.folders();
        session::sweep(folders.records.clone());
        // Nobody is asked here: a server that wants a login is shown to want one.
        let auth = self.refreshes.watch(self.logins().auth(), &self.printer);
        Registry::builder().each(move |server| {
            let auth = logins::can_log_in(&server).then(|| auth.clone());
            session::builder(server, &folders, auth)
        })
    }
}

/// The hooks for all servers.
pub(super) fn common_hooks(layers: &Layers) -> Vec<Hook> {
    layers.iter().flat_map(|layer| layer.config.hooks.iter().cloned()).collect()
}

impl Many {
    /// The same servers for a look that changes nothing: no hook is run for it.
    pub(crate) fn without_hooks(mut self) -> Self {
        for server in &mut self.servers {
            server.hooks.clear();
        }
        self
    }
}

impl Why {
    /// In a word or two.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::NotTrusted => "not trusted",
            Self::Disabled => "disabled",
            Self::Unusable => "unusable",
        }
    }
}
