//! Owns a whole configuration: its servers, how layers of it combine, and how two differ.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::check::{self, Invalid};
use crate::problem::Problem;
use crate::server::Server;

/// Every configured server, validated and with all placeholders filled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The servers by name.
    pub servers: BTreeMap<String, Server>,
    /// Servers that the files name and that are not in `servers`: those with a problem, when the
    /// file was read by [`parse_partial`](crate::parse_partial), and disabled ones whose
    /// placeholders could not be filled.
    pub left_out: BTreeSet<String>,
    /// The files it was read from, the weakest first.
    pub sources: Vec<PathBuf>,
    /// What was read and is worth knowing, but not wrong: keys without effect, mostly.
    pub notes: Vec<Problem>,
}

/// Names of the servers in which two configurations differ, each list sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// Only in the new one.
    pub added: Vec<String>,
    /// Only in the old one.
    pub removed: Vec<String>,
    /// In both, and different in any resolved value.
    pub changed: Vec<String>,
}

impl Config {
    /// Adds a server made by a program, replacing one of the same name.
    pub fn with_server(mut self, server: Server) -> Result<Self, Invalid> {
        check::name(&server.name)?;
        self.servers.insert(server.name.clone(), server);
        Ok(self)
    }

    /// A user's configuration with a project's laid over it. An entry of the project replaces the
    /// user's entry of that name as a whole: mixing them could send one's credentials to the
    /// other's server. An entry that the project left out hides the user's as well: what was asked
    /// for is not the other server of that name.
    #[must_use]
    pub fn layered(user: Self, project: Self) -> Self {
        let Self { servers, left_out, sources, notes } = project;
        let mut layered = user;
        layered.left_out.retain(|name| !servers.contains_key(name));
        layered.servers.retain(|name, _| !left_out.contains(name));
        layered.servers.extend(servers);
        layered.left_out.extend(left_out);
        layered.sources.extend(sources);
        layered.notes.extend(notes);
        layered
    }
}

/// What has to be touched to get from `old` to `new`.
pub fn diff(old: &Config, new: &Config) -> Diff {
    let mut diff = Diff::default();
    for (name, server) in &new.servers {
        match old.servers.get(name) {
            None => diff.added.push(name.clone()),
            Some(before) if before != server => diff.changed.push(name.clone()),
            Some(_) => {}
        }
    }
    diff.removed = old.servers.keys().filter(|name| !new.servers.contains_key(*name)).cloned().collect();
    diff
}

impl Diff {
    /// Whether nothing has to be touched.
    pub fn is_empty(&self) -> bool {
        let Self { added, removed, changed } = self;
        added.is_empty() && removed.is_empty() && changed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(servers: impl IntoIterator<Item = Server>) -> Config {
        servers.into_iter().try_fold(Config::default(), Config::with_server).unwrap()
    }

    fn server(name: &str, token: &str) -> Server {
        Server::stdio(name, "srv", [""; 0]).with_env("TOKEN", token).unwrap()
    }

    #[test]
    fn a_project_entry_replaces_the_whole_user_entry() {
        let user = config([server("a", "user"), server("b", "user")]);
        let project = config([Server::stdio("b", "other", [""; 0])]);
        let layered = Config::layered(user, project);
        assert_eq!(layered, config([server("a", "user"), Server::stdio("b", "other", [""; 0])]));
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
    fn a_program_cannot_add_a_name_a_file_could_not() {
        let added = Config::default().with_server(Server::stdio("a b", "srv", [""; 0]));
        assert_eq!(added, Err(Invalid::Name));
    }
}
