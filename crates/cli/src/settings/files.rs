//! Owns which configuration files are read, in which order, and where a server comes from.

use std::path::{Path, PathBuf};

use bowline::config::{Config, Environment, Problem, ProblemKind, Server, Source, parse_partial};

use crate::env;
use crate::failure::{Failure, Outcome};

/// Which files to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// This one and no other. It must exist.
    One(PathBuf),
    /// The user's, where there is one, and the project's over it.
    Layers {
        /// `~/.config/bowline/config.toml`; it need not exist.
        user: Option<PathBuf>,
        /// The nearest `bowline.toml`; it was there a moment ago.
        project: Option<PathBuf>,
    },
}

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Named by `--config` or the environment.
    Named,
    /// The user's own.
    User,
    /// The project's: anybody may have written it.
    Project,
}

/// One file that was read.
#[derive(Debug)]
pub(crate) struct Layer {
    /// Where it lies.
    pub(crate) path: PathBuf,
    /// Whose it is.
    pub(crate) origin: Origin,
    /// What of it can be used.
    pub(crate) config: Config,
    /// What of it cannot.
    pub(crate) problems: Vec<Problem>,
}

/// A server that was looked up.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// It is there.
    Server(&'a Server, &'a Layer),
    /// It is there, and something is wrong with it.
    Broken(Vec<Problem>),
    /// A file cannot be read at all, so nobody knows.
    Unreadable(Vec<Problem>),
    /// No file names it.
    Unknown,
}

/// The files that were read, the weakest first.
#[derive(Debug, Default)]
pub(crate) struct Layers(Vec<Layer>);

impl Choice {
    /// The files that count and whether they are there, the weakest first.
    pub(crate) fn paths(&self) -> Vec<(&Path, Origin)> {
        match self {
            Self::One(path) => vec![(path, Origin::Named)],
            Self::Layers { user, project } => {
                let user = user.iter().map(|path| (path.as_path(), Origin::User));
                let project = project.iter().map(|path| (path.as_path(), Origin::Project));
                user.chain(project).collect()
            }
        }
    }

    /// Reads them. What is wrong inside is kept for those who ask for it.
    pub(crate) fn read(&self, env: &dyn Environment) -> Outcome<Layers> {
        let mut layers = Vec::new();
        for (path, origin) in self.paths() {
            if origin == Origin::User && !path.exists() {
                continue;
            }
            let text = env::read_small(path).map_err(|why| Failure::file(path, &why))?;
            let (config, errors) = parse_partial(&Source::new(path, text), env);
            let problems = errors.into_iter().flatten().collect();
            layers.push(Layer { path: path.to_owned(), origin, config, problems });
        }
        Ok(Layers(layers))
    }
}

impl Layers {
    /// The files.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Layer> {
        self.0.iter()
    }

    /// The strongest entry of that name. A broken one hides those below: what was asked for is not the
    /// other server of that name.
    pub(crate) fn find(&self, name: &str) -> Found<'_> {
        for layer in self.0.iter().rev() {
            let of_file: Vec<Problem> =
                layer.problems.iter().filter(|problem| problem.server.is_none()).cloned().collect();
            if let Some(server) = layer.config.servers.get(name) {
                return Found::Server(server, layer);
            }
            if layer.config.left_out.contains(name) {
                let of_server = |problem: &&Problem| problem.server.as_deref() == Some(name);
                let told = layer.problems.iter().chain(&layer.config.notes);
                return Found::Broken(told.filter(of_server).cloned().collect());
            }
            if !of_file.is_empty() {
                return Found::Unreadable(of_file);
            }
        }
        Found::Unknown
    }

    /// All names, sorted, each once.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .0
            .iter()
            .flat_map(|layer| layer.config.servers.keys().chain(&layer.config.left_out))
            .map(String::as_str)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Layer {
    /// Logs what of this server's entry is used otherwise than it was written, now that it is used.
    pub(crate) fn log_doubts(&self, server: &str) {
        let notes = self.config.notes.iter().filter(|note| note.kind == ProblemKind::Doubtful);
        for note in notes.filter(|note| note.server.as_deref() == Some(server)) {
            tracing::warn!("{}:{}: {}: {}", note.file.display(), note.line, note.key, note.message);
        }
    }
}

impl Origin {
    /// In a word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

#[cfg(test)]
mod tests {
    use bowline::config::Fixed;

    use super::*;

    fn layers(user: &str, project: &str) -> Layers {
        let layer = |path: &str, origin, text: &str| {
            let (config, errors) = parse_partial(&Source::new(path, text), &Fixed::default());
            Layer { path: path.into(), origin, config, problems: errors.into_iter().flatten().collect() }
        };
        Layers(vec![
            layer("config.toml", Origin::User, user),
            layer("bowline.toml", Origin::Project, project),
        ])
    }

    #[test]
    fn the_project_is_stronger_and_keeps_its_origin() {
        let layers = layers(
            "[servers.a]\ncommand = 'user'\n[servers.b]\ncommand = 'user'",
            "[servers.b]\ncommand = 'project'",
        );
        assert!(matches!(layers.find("a"), Found::Server(_, layer) if layer.origin == Origin::User));
        assert!(matches!(layers.find("b"), Found::Server(_, layer) if layer.origin == Origin::Project));
        assert!(matches!(layers.find("c"), Found::Unknown));
        assert_eq!(layers.names(), ["a", "b"]);
    }

    #[test]
    fn a_broken_entry_hides_the_one_below_and_no_other() {
        let layers = layers(
            "[servers.a]\ncommand = 'user'\n[servers.b]\ncommand = 'user'",
            "[servers.b]\nurl = '${NOWHERE}'",
        );
        assert!(matches!(layers.find("a"), Found::Server(..)));
        assert!(matches!(layers.find("b"), Found::Broken(problems) if problems.len() == 1));
    }

    #[test]
    fn an_unreadable_file_may_hold_anything() {
        let layers = layers("[servers.a]\ncommand = 'user'", "[[[");
        assert!(matches!(layers.find("a"), Found::Unreadable(_)));
    }
}
