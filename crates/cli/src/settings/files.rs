//! Owns which configuration files are read, in which order, and where a server comes from.

use std::path::{Path, PathBuf};

use bowline::config::{
    Config, Environment, Outline, Problem, ProblemKind, Server, Source, outline, parse_partial,
};

use super::Trust;
use crate::env;
use crate::failure::{Failure, Outcome};
use crate::trust::{Distrust, ProjectFile, Records, Standing};

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
    /// The project's. Anybody may have written it, and the user vouches for it.
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

/// A project's file that nobody vouches for. None of it is acted on, nothing of it is filled in, and it hides no
/// server of the user's.
#[derive(Debug)]
pub(crate) struct UntrustedFile {
    /// Where it lies.
    pub(crate) path: PathBuf,
    /// Why it is not trusted.
    pub(crate) why: Distrust,
    /// What it says, as it is written.
    pub(crate) outline: Outline,
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
    /// Only a project's file names it, and nobody vouches for that.
    Untrusted(&'a UntrustedFile),
    /// No file names it.
    Unknown,
}

/// The files that were read, the weakest first, and a project's that is not trusted.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    used: Vec<Layer>,
    untrusted: Option<UntrustedFile>,
}

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
    pub(crate) fn read(
        &self,
        env: &dyn Environment,
        trust: Trust,
        records: Option<&Records>,
    ) -> Outcome<Layers> {
        let mut layers = Layers::default();
        for (path, origin) in self.paths() {
            if origin == Origin::User && !path.exists() {
                continue;
            }
            if origin == Origin::Project {
                layers.read_project(path, env, trust, records)?;
                continue;
            }
            let text = env::read_small(path).map_err(|why| Failure::file(path, &why))?;
            layers.used.push(Layer::parse(path, origin, text, env));
        }
        Ok(layers)
    }
}

impl Layers {
    /// Reads a project's file, and puts it where it belongs. What decides, and what is parsed, are the same bytes.
    fn read_project(
        &mut self,
        path: &Path,
        env: &dyn Environment,
        trust: Trust,
        records: Option<&Records>,
    ) -> Outcome<()> {
        let file = match ProjectFile::read(path) {
            Ok(file) => file,
            // Whoever vouches for it wants it to be read.
            Err(why) if trust == Trust::ThisRun => return Err(Failure::file(path, &why)),
            Err(why) => {
                let (path, why) = (path.to_owned(), Distrust::Unreadable(why));
                self.untrusted = Some(UntrustedFile { path, why, outline: Outline::default() });
                return Ok(());
            }
        };
        let standing = match trust {
            Trust::ThisRun => Standing::Trusted,
            Trust::Recorded => records.map_or(Standing::Unknown, |records| records.standing(&file)),
        };
        let why = match standing {
            Standing::Trusted => match file.check(env::home(env).as_deref()) {
                Ok(()) => {
                    self.used.push(Layer::parse(path, Origin::Project, file.text, env));
                    return Ok(());
                }
                Err(found) if trust == Trust::ThisRun => {
                    let message = format!("{} cannot be trusted: {}", path.display(), found.what);
                    return Err(Failure::usage_hint(message, found.next));
                }
                Err(found) => Distrust::Unsafe(found),
            },
            Standing::Damaged => match records.and_then(Records::exposure) {
                Some(why) => Distrust::Exposed(why),
                None => Distrust::Standing(Standing::Damaged),
            },
            standing => Distrust::Standing(standing),
        };
        let outline = outline(&Source::new(path, file.text));
        self.untrusted = Some(UntrustedFile { path: path.to_owned(), why, outline });
        Ok(())
    }

    /// The files that are used.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Layer> {
        self.used.iter()
    }

    /// The project's file, if it is used.
    pub(crate) fn project(&self) -> Option<&Layer> {
        self.used.iter().find(|layer| layer.origin == Origin::Project)
    }

    /// The project's file, if it is not used.
    pub(crate) fn untrusted(&self) -> Option<&UntrustedFile> {
        self.untrusted.as_ref()
    }

    /// The strongest entry of that name. A broken one hides those below: what was asked for is not the
    /// other server of that name.
    pub(crate) fn find(&self, name: &str) -> Found<'_> {
        for layer in self.used.iter().rev() {
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
        match &self.untrusted {
            Some(untrusted) if untrusted.outline.server(name).is_some() => Found::Untrusted(untrusted),
            _ => Found::Unknown,
        }
    }

    /// The names of all servers that could be used, sorted, each once.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .used
            .iter()
            .flat_map(|layer| layer.config.servers.keys().chain(&layer.config.left_out))
            .map(String::as_str)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl UntrustedFile {
    /// The names of its servers, as they are written.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.outline.servers.iter().map(|server| &*server.name)
    }

    /// That it is not used, why, and what to do.
    pub(crate) fn note(&self) -> String {
        let path = self.path.display();
        let broken = self.outline.problem.as_ref().map(|problem| format!(" ({problem})")).unwrap_or_default();
        format!("nothing of {path} is used: it {}{broken}; {}", self.why.why(), self.why.next(&self.path))
    }
}

impl Layer {
    fn parse(path: &Path, origin: Origin, text: String, env: &dyn Environment) -> Self {
        let (config, errors) = parse_partial(&Source::new(path, text), env);
        // Whoever trusts a project's file trusts one program by it, whatever folder they stand in.
        let config = match (origin, path.parent()) {
            (Origin::Project, Some(folder)) => config.anchored(folder),
            _ => config,
        };
        let problems = errors.into_iter().flatten().collect();
        Self { path: path.to_owned(), origin, config, problems }
    }

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
            Layer::parse(Path::new(path), origin, text.to_owned(), &Fixed::default())
        };
        let own = layer("config.toml", Origin::User, user);
        Layers { used: vec![own, layer("bowline.toml", Origin::Project, project)], untrusted: None }
    }

    /// The layers with a project that nobody vouches for.
    fn untrusted(user: &str, project: &str) -> Layers {
        let mut layers = layers(user, "");
        layers.used.pop();
        let path = PathBuf::from("bowline.toml");
        let outline = outline(&Source::new(&*path, project));
        let why = Distrust::Standing(Standing::Unknown);
        layers.untrusted = Some(UntrustedFile { path, why, outline });
        layers
    }

    #[test]
    fn a_project_that_is_not_trusted_hides_nothing() {
        let user = "[servers.a]\ncommand = 'user'\n[servers.b]\nurl = '${NOWHERE}'\n";
        for project in
            ["[servers.a]\ncommand = 'evil'\n[servers.c]\ncommand = 'evil'\n", "[[[", "servers = 1"]
        {
            let layers = untrusted(user, project);
            assert!(matches!(layers.find("a"), Found::Server(_, layer) if layer.origin == Origin::User));
            assert!(matches!(layers.find("b"), Found::Broken(problems) if problems.len() == 1));
            assert!(matches!(layers.find("d"), Found::Unknown));
            assert_eq!(layers.names(), ["a", "b"]);
        }
        let layers = untrusted(user, "[servers.c]\ncommand = '${SECRET}'\n");
        assert!(matches!(layers.find("c"), Found::Untrusted(project) if project.names().eq(["c"])));
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
