//! Decides which servers a verb for several servers acts on, and which it skips.

use std::collections::BTreeSet;

use bowline::Server;
use bowline::config::Hook;

use super::Settings;
use super::url_server::apply_url_args;
use crate::args::UrlArgs;
use crate::failure::{Failure, Outcome};
use crate::settings::target::server_from_url;
use bowline_settings::{Layers, ServerLookup, UntrustedFile};

/// The servers that were selected.
#[derive(Debug, Default)]
pub(crate) struct ServerSelection {
    /// Servers that can be used, with the common hooks; this includes disabled ones.
    pub(crate) servers: Vec<Server>,
    /// Servers that cannot be used.
    pub(crate) skipped: Vec<SkippedServer>,
}

#[derive(Debug)]
pub(crate) struct SkippedServer {
    pub(crate) name: String,
    pub(crate) reason: SkipReason,
    /// The problem of its entry, if there is one.
    pub(crate) detail: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SkipReason {
    /// The project's file that defines it is not trusted.
    NotTrusted,
    /// It is disabled, and its placeholders cannot be expanded.
    Disabled,
    /// Its entry has problems.
    Unusable,
}

impl Settings {
    /// Selects the servers with these names and URLs, or all configured ones.
    pub(crate) fn select_servers(&self, names: &[String]) -> Outcome<ServerSelection> {
        let layers = self.layers()?;
        let hooks = layers.common_hooks();
        if names.is_empty() {
            return self.select_all_servers(layers, &hooks);
        }
        let mut many = ServerSelection::default();
        for name in names {
            let server = if name.contains("://") {
                server_from_url(name)?.with_common_hooks(&hooks)
            } else {
                self.configured_server(name)?
            };
            if !many.servers.iter().any(|other| other.name == server.name) {
                many.servers.push(server);
            }
        }
        Ok(many)
    }

    /// Says what in the entries of these servers is not used as it is written. For verbs that show the
    /// state of servers; others log it.
    pub(crate) fn note_doubts(&self, servers: &[Server]) -> Outcome<()> {
        let layers = self.layers()?;
        for server in servers.iter().filter(|server| server.enabled) {
            if let ServerLookup::Server(_, layer) = layers.find_server(&server.name) {
                layer.describe_doubts(&server.name).for_each(|doubt| self.printer.note(&doubt));
            }
        }
        Ok(())
    }

    fn select_all_servers(&self, layers: &Layers, hooks: &[Hook]) -> Outcome<ServerSelection> {
        let mut many = ServerSelection::default();
        let mut other = |name: &str, why, detail| {
            many.skipped.push(SkippedServer { name: name.to_owned(), reason: why, detail });
        };
        for name in layers.server_names() {
            match layers.find_server(name) {
                ServerLookup::Server(server, layer) => {
                    layer.log_doubts(name);
                    many.servers.push(server.clone().with_common_hooks(hooks));
                }
                ServerLookup::Broken(problems) => {
                    let wrong = layers.iter().flat_map(|layer| &layer.problems);
                    let wrong = wrong.filter(|problem| problem.server.as_deref() == Some(name)).count() > 0;
                    let why = if wrong { SkipReason::Unusable } else { SkipReason::Disabled };
                    other(name, why, problems.first().map(|problem| problem.message.clone()));
                }
                ServerLookup::Unreadable(problems) => {
                    let file = problems.first().map(|problem| problem.file.display().to_string());
                    let message = format!("cannot read {}", file.unwrap_or_default());
                    return Err(Failure::config(message, problems));
                }
                ServerLookup::Untrusted(_) | ServerLookup::Unknown => {}
            }
        }
        let own = layers.server_names();
        let theirs: BTreeSet<&str> =
            layers.untrusted().iter().flat_map(UntrustedFile::server_names).collect();
        for name in theirs.into_iter().filter(|name| !own.contains(name)) {
            other(name, SkipReason::NotTrusted, None);
        }
        layers.untrusted().iter().for_each(|file| self.printer.note(&file.note()));
        many.skipped.sort_by(|a, b| a.name.cmp(&b.name));
        if many.servers.is_empty() && many.skipped.is_empty() {
            let problems: Vec<_> = layers.iter().flat_map(|layer| layer.problems.iter().cloned()).collect();
            if let Some(first) = problems.first() {
                return Err(Failure::config(format!("cannot use {}", first.file.display()), problems));
            }
            let hint = "`bowline import` takes over those of your hosts, `bowline add NAME URL` adds one";
            return Err(Failure::usage_hint("no servers are configured", hint));
        }
        Ok(many)
    }
}

impl ServerSelection {
    /// Applies the options about servers with a URL to those that have one.
    pub(crate) fn apply(mut self, args: &UrlArgs) -> Outcome<Self> {
        let servers = std::mem::take(&mut self.servers).into_iter().map(|server| {
            if server.transport.http().is_some() { apply_url_args(server, args) } else { Ok(server) }
        });
        self.servers = servers.collect::<Outcome<_>>()?;
        Ok(self)
    }

    /// Removes all hooks, for commands that only look.
    pub(crate) fn without_hooks(mut self) -> Self {
        for server in &mut self.servers {
            server.hooks.clear();
        }
        self
    }
}

impl SkipReason {
    /// Returns the name for output.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::NotTrusted => "not trusted",
            Self::Disabled => "disabled",
            Self::Unusable => "unusable",
        }
    }
}
