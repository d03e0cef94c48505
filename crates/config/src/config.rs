//! Owns a whole configuration: its servers, how layers of it combine, and how two differ.

use std::collections::{BTreeMap, BTreeSet};
#[cfg(feature = "files")]
use std::path::Path;
use std::path::PathBuf;

use crate::auth::AppSettings;
use crate::check::{self, InvalidValue};
use crate::elicitation::ElicitationPolicy;
use crate::hook::Hook;
use crate::problem::Problem;
#[cfg(feature = "files")]
use crate::problem::ProblemKind;
use crate::sampling::Sampling;
use crate::serve::ServeSettings;
use crate::server::Server;
use crate::store::StoreConfig;
use crate::view::View;

/// Every configured server, validated and with all placeholders filled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The servers by name.
    pub servers: BTreeMap<String, Server>,
    /// Hooks for all servers, in this order and before a server's own. They are not in
    /// [`Server::hooks`] yet: [`Config::server`] puts them there, so that an untrusted
    /// configuration can be dropped together with all its hooks.
    pub hooks: Vec<Hook>,
    /// The model that answers sampling requests of servers; `None` answers none.
    pub sampling: Option<Sampling>,
    /// How elicitations are answered; `None` is the default policy.
    pub elicitation: Option<ElicitationPolicy>,
    /// Roots announced to servers, unless [`Server::roots`] overrides them; `None` announces none.
    pub roots: Option<Vec<PathBuf>>,
    /// Client name and metadata URL presented to servers that require a login.
    pub auth: AppSettings,
    /// Where logins are stored; `None` is the default store, unless a problem [hides
    /// it](crate::Problem::hides_store_config). Only the user's file sets it: a project cannot move
    /// logins.
    pub store: Option<StoreConfig>,
    /// The views of a gateway, by name. Only the user's file has them: a project's view could show
    /// more under the name of a view that the user made to show less.
    pub views: BTreeMap<String, View>,
    /// How a gateway serves hosts, unless a problem [hides it](crate::Problem::hides_serve_config).
    /// Only the user's file has it: a project could let others in.
    pub serve: ServeSettings,
    /// Servers that the files name and that are not in `servers`: those with a problem, when the
    /// file was read by [`parse_partial`](crate::parse_partial), and disabled ones whose
    /// placeholders could not be filled.
    pub left_out: BTreeSet<String>,
    /// The files it was read from, lowest precedence first.
    pub sources: Vec<PathBuf>,
    /// Notes about the files that are not errors: mostly keys without effect.
    pub notes: Vec<Problem>,
}

/// Iterates over the servers as they are used, so that a registry opens a configuration as it is.
impl IntoIterator for &Config {
    type Item = Server;
    type IntoIter = std::vec::IntoIter<Server>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Names of the servers in which two configurations differ, each list sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diff {
    /// Only in the new one.
    pub added: Vec<String>,
    /// Only in the old one.
    pub removed: Vec<String>,
    /// In both, and different in any resolved value or in a setting for all servers (hooks,
    /// sampling, elicitation, roots, auth, store).
    pub changed: Vec<String>,
}

impl Config {
    /// Adds a server made by a program, replacing one of the same name.
    pub fn with_server(mut self, server: Server) -> Result<Self, InvalidValue> {
        check::name(&server.name)?;
        self.servers.insert(server.name.clone(), server);
        Ok(self)
    }

    /// Appends a hook for all servers.
    #[must_use]
    pub fn with_hook(mut self, hook: Hook) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Returns the server as it is used: with the hooks for all servers before its own.
    pub fn server(&self, name: &str) -> Option<Server> {
        let server = self.servers.get(name)?.clone();
        Some(server.with_common_hooks(&self.hooks))
    }

    /// Returns all servers as they are used, in the order of their names; see [`Config::server`].
    pub fn iter(&self) -> std::vec::IntoIter<Server> {
        let servers = self.servers.values().map(|server| server.clone().with_common_hooks(&self.hooks));
        servers.collect::<Vec<_>>().into_iter()
    }
}

#[cfg(feature = "files")]
impl Config {
    /// Layers a project's configuration over a user's. A project entry replaces the user's entry of
    /// the same name as a whole: mixing them could send the credentials of one server to the other.
    /// An entry that the project left out hides the user's as well, because the user's server of
    /// that name is not the one that was asked for. Hooks for all servers add up, the user's first,
    /// and apply to the servers of both. Sampling, elicitation, roots and auth settings of the
    /// project replace the user's as a whole, for the same reason. The store, the views and who is
    /// served are the user's alone: what the project says about them becomes a note.
    ///
    /// The project's programs run in the folder of its file ([`Config::anchored`]).
    ///
    /// Afterwards everything of the project is trusted like the user's own, and its commands will
    /// be run. Call this only after the user has trusted the project.
    #[must_use]
    pub fn layered(user: Self, project: Self) -> Self {
        let unused = project.unused_in_project();
        let folder = project.sources.last().and_then(|file| file.parent()).map(Path::to_owned);
        let project = match folder.filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) => project.anchored(&folder),
            None => project,
        };
        let Self {
            servers,
            hooks,
            sampling,
            elicitation,
            roots,
            auth,
            store: _,
            views: _,
            serve: _,
            left_out,
            sources,
            notes,
        } = project;
        let mut layered = user;
        layered.left_out.retain(|name| !servers.contains_key(name));
        layered.servers.retain(|name, _| !left_out.contains(name));
        layered.servers.extend(servers);
        layered.hooks.extend(hooks);
        layered.sampling = sampling.or(layered.sampling);
        layered.elicitation = elicitation.or(layered.elicitation);
        layered.roots = roots.or(layered.roots);
        if auth != AppSettings::default() {
            layered.auth = auth;
        }
        layered.notes.extend(unused);
        layered.left_out.extend(left_out);
        layered.sources.extend(sources);
        layered.notes.extend(notes);
        layered
    }

    /// Returns notes about settings that have no effect in a project's file. [`Config::layered`]
    /// adds them by itself.
    pub fn unused_in_project(&self) -> Vec<Problem> {
        let Some(project) = self.sources.last() else { return Vec::new() };
        let store = self.store.is_some().then_some(("store", STORE_NOTE));
        let views = (!self.views.is_empty()).then_some(("views", VIEWS_NOTE));
        let serve = (self.serve != ServeSettings::default()).then_some(("serve", SERVE_NOTE));
        let unused = store.into_iter().chain(views).chain(serve);
        unused.map(|(key, message)| ignored_table_note(project, key, message)).collect()
    }
}

/// Lists the servers to add, remove or reconnect to get from `old` to `new`.
pub fn diff(old: &Config, new: &Config) -> Diff {
    let mut diff = Diff::default();
    // A server learns these when it is connected to.
    let server_settings =
        |it: &Config| (it.hooks.clone(), it.sampling.clone(), it.elicitation, it.roots.clone());
    // These are used when it requires a login.
    let client_settings = |it: &Config| (it.auth.clone(), it.store.clone());
    let all_changed =
        server_settings(old) != server_settings(new) || client_settings(old) != client_settings(new);
    for (name, server) in &new.servers {
        match old.servers.get(name) {
            None => diff.added.push(name.clone()),
            Some(before) if before != server || all_changed => diff.changed.push(name.clone()),
            Some(_) => {}
        }
    }
    diff.removed = old.servers.keys().filter(|name| !new.servers.contains_key(*name)).cloned().collect();
    diff
}

/// Tokens are the user's: a project could direct them to a place that its author reads.
#[cfg(feature = "files")]
const STORE_NOTE: &str = "not used: a project cannot set where logins are stored";
/// A view limits what a host can reach. A project could widen it.
#[cfg(feature = "files")]
const VIEWS_NOTE: &str = "not used: a project cannot define views";

/// A project could let others in, or lift a limit.
#[cfg(feature = "files")]
const SERVE_NOTE: &str = "not used: a project cannot configure `bowline serve`";

/// Builds the note that a table of a project is ignored.
#[cfg(feature = "files")]
fn ignored_table_note(project: &Path, key: &str, message: &str) -> Problem {
    Problem {
        file: project.to_owned(),
        // The line of the table is no longer known here.
        line: 1,
        column: 1,
        key: key.to_owned(),
        server: None,
        kind: ProblemKind::Ignored,
        message: message.to_owned(),
        hint: Some("write it in your own configuration file".to_owned()),
    }
}

impl Diff {
    /// Whether the two configurations agree.
    pub fn is_empty(&self) -> bool {
        let Self { added, removed, changed } = self;
        added.is_empty() && removed.is_empty() && changed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TransportSettings as _;
    use crate::exposure::Exposure;
    use crate::server::Share;

    fn config(servers: impl IntoIterator<Item = Server>) -> Config {
        servers.into_iter().try_fold(Config::default(), Config::with_server).unwrap()
    }

    fn server(name: &str, token: &str) -> Server {
        Server::stdio(name, "srv").build().unwrap().with_env("TOKEN", token).unwrap()
    }

    #[test]
    fn a_project_entry_replaces_the_whole_user_entry() {
        let user = config([server("a", "user"), server("b", "user")]);
        let project = config([Server::stdio("b", "other").build().unwrap()]);
        let layered = Config::layered(user, project);
        assert_eq!(layered, config([server("a", "user"), Server::stdio("b", "other").build().unwrap()]));
    }

    #[test]
    fn a_left_out_project_entry_hides_the_user_entry() {
        let left_out =
            |name: &str| Config { left_out: BTreeSet::from([name.to_owned()]), ..Config::default() };
        let user = config([server("a", "user"), server("b", "user")]);
        let layered = Config::layered(user, left_out("b"));
        assert_eq!(layered.servers, config([server("a", "user")]).servers);
        assert_eq!(layered.left_out, left_out("b").left_out);

        let layered = Config::layered(left_out("b"), config([server("b", "project")]));
        assert_eq!(layered, config([server("b", "project")]));
    }

    #[test]
    fn diff_sees_secrets_and_nothing_else_of_the_file() {
        let old = config([server("a", "1"), server("b", "1"), server("c", "1")]);
        let mut new = config([server("b", "2"), server("c", "1"), server("d", "1")]);
        new.sources.push("elsewhere.toml".into());
        assert_eq!(
            diff(&old, &new),
            Diff {
                added: vec!["d".to_owned()],
                removed: vec!["a".to_owned()],
                changed: vec!["b".to_owned()],
            }
        );
        assert!(diff(&new, &new).is_empty());
        assert!(!diff(&old, &new).is_empty());
    }

    #[test]
    fn diff_sees_every_setting() {
        let base = || Server::http("a", "http://h/").build().unwrap();
        let hook = || Hook::command("x", [""; 0]);
        let second = std::time::Duration::from_secs(1);
        let url = |hook: &str| Hook::webhook(hook).unwrap();
        for changed in [
            base().with_keepalive(None),
            base().with_keepalive(Some(second * 20)),
            base().with_reconnect_wait(second),
            base().with_message_limit(1),
            base().with_share(Share::All),
            base().with_idle_stop(Some(second)),
            base().with_exposure(Exposure { prompts: false, ..Exposure::default() }),
            base().without_fallback().unwrap(),
            Server::sse("a", "http://h/").build().unwrap(),
            base().with_roots(["/"]),
            base().with_hook(hook()),
        ] {
            let diff = diff(&config([base()]), &config([changed.clone()]));
            assert_eq!(diff.changed, ["a"], "{changed:?}");
        }
        for changed in [
            hook().on([crate::HookEvent::Failed]),
            hook().with_timeout(second),
            hook().with_env("A", "b").unwrap(),
            hook().with_cwd("/").unwrap(),
            Hook::command("x", ["a"]),
            url("http://h/"),
        ] {
            let of = |hook: Hook| config([base().with_hook(hook)]);
            assert_eq!(diff(&of(hook()), &of(changed.clone())).changed, ["a"], "{changed:?}");
            let of = |hook: Hook| config([base()]).with_hook(hook);
            assert_eq!(diff(&of(hook()), &of(changed.clone())).changed, ["a"], "for all: {changed:?}");
        }
        let keyed = |key: &str| config([base()]).with_hook(url("http://h/").with_header("K", key).unwrap());
        assert_eq!(diff(&keyed("1"), &keyed("2")).changed, ["a"]);
        assert!(diff(&keyed("1"), &keyed("1")).is_empty());
    }

    #[test]
    fn hooks_of_two_layers_add_up() {
        let hook = |name: &str| Hook::command(name, [""; 0]);
        let user = || config([server("a", "user").with_hook(hook("own"))]).with_hook(hook("user"));
        let project = config([server("b", "project")]).with_hook(hook("project"));
        let layered = Config::layered(user(), project);
        assert_eq!(layered.server("a").unwrap().hooks, ["user", "project", "own"].map(hook));
        assert_eq!(layered.server("b").unwrap().hooks, ["user", "project"].map(hook));
        assert_eq!(layered.server("c"), None);
        // An untrusted project is not layered.
        assert_eq!(user().server("a").unwrap().hooks, ["user", "own"].map(hook));
    }

    #[test]
    fn with_server_checks_the_name() {
        let added = Config::default().with_server(Server::stdio("a b", "srv").build().unwrap());
        assert_eq!(added, Err(InvalidValue::Name));
    }
}
