//! Decides which configuration files are read, in which order, and which one defines a server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bowline_config::{
    Config, Environment, Errors, Hook, Outline, Problem, ProblemKind, ServeSettings, Server, Source, View,
    outline, parse_partial,
};
use bowline_store::private::refuse_shared_folder;

use crate::environment::{MAX_FILE_MEBIBYTES, non_empty_var, read_text_file};
use crate::error::SettingsError;
use crate::folders::{home_folder, state_folder, user_config_path};
use crate::trust::{DistrustReason, ProjectFile, TrustRecords, TrustState};

/// Which configuration files are read.
#[derive(Debug, PartialEq, Eq)]
pub enum ConfigFiles {
    /// Only this file, which must exist.
    Single(PathBuf),
    /// The user's file, if there is one, and the project's files over it.
    Layered {
        /// `~/.config/bowline/config.toml`; it need not exist.
        user: Option<PathBuf>,
        /// The nearest file of each name in [`PROJECT_FILES`], weakest first; they existed a moment ago.
        projects: Vec<PathBuf>,
    },
}

/// How a project's file comes to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectTrust {
    /// For this run: the user says so.
    ThisRun,
    /// By a record of an earlier `bowline trust`.
    Recorded,
}

/// Names of a project's configuration files, weakest first. `.mcp.json` is what several hosts read.
pub const PROJECT_FILES: [&str; 2] = [".mcp.json", "bowline.toml"];

/// The variable that names the only configuration file to use.
pub const CONFIG_VARIABLE: &str = "BOWLINE_CONFIG";

/// Where a configuration file comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Named by `--config` or the environment.
    Named,
    /// The user's own file.
    User,
    /// A project's file. Anybody may have written it, so the user has to trust it.
    Project,
}

/// A configuration file that was read.
#[derive(Debug)]
pub struct Layer {
    /// Its path.
    pub path: PathBuf,
    /// Where the file comes from.
    pub origin: Origin,
    /// The valid part of the file.
    pub config: Config,
    /// The problems of the rest.
    pub problems: Vec<Problem>,
}

/// A project's file that is not trusted. It has no effect: nothing in it is expanded, and it hides
/// no server of the user's.
#[derive(Debug)]
pub struct UntrustedFile {
    /// Its path.
    pub path: PathBuf,
    /// Why the file is not trusted.
    pub reason: DistrustReason,
    /// Outline of the file, as written.
    pub outline: Outline,
}

/// Result of looking up a server by name.
#[derive(Debug)]
pub enum ServerLookup<'a> {
    /// The server, and the file that defines it.
    Server(&'a Server, &'a Layer),
    /// Its entry cannot be used, for these reasons.
    Broken(Vec<Problem>),
    /// A file that could define the server cannot be read.
    Unreadable(Vec<Problem>),
    /// Only an untrusted project file defines it.
    Untrusted(&'a UntrustedFile),
    /// No file defines it.
    Unknown,
}

/// The files that were read, weakest first, and those of the project that are not trusted.
#[derive(Debug, Default)]
pub struct Layers {
    active: Vec<Layer>,
    untrusted: Vec<UntrustedFile>,
}

impl ConfigFiles {
    /// Finds the files: the one that `named` or [`CONFIG_VARIABLE`] names, or else the user's and
    /// those of the project around the current folder.
    pub fn find(named: Option<PathBuf>, env: &dyn Environment) -> Result<Self, SettingsError> {
        Ok(match named.or_else(|| non_empty_var(env, CONFIG_VARIABLE).map(PathBuf::from)) {
            Some(path) => Self::Single(path),
            None => Self::Layered { user: user_config_path(env), projects: find_project_files()? },
        })
    }

    /// Returns the paths of the files, weakest first.
    pub fn paths(&self) -> Vec<(&Path, Origin)> {
        match self {
            Self::Single(path) => vec![(path, Origin::Named)],
            Self::Layered { user, projects } => {
                let user = user.iter().map(|path| (path.as_path(), Origin::User));
                let projects = projects.iter().map(|path| (path.as_path(), Origin::Project));
                user.chain(projects).collect()
            }
        }
    }

    /// Reads the files. Problems inside them are kept for those who ask.
    pub fn read(
        &self,
        env: &dyn Environment,
        trust: ProjectTrust,
        records: Option<&TrustRecords>,
    ) -> Result<Layers, SettingsError> {
        let mut layers = Layers::default();
        for (path, origin) in self.paths() {
            if origin == Origin::User && !path.exists() {
                continue;
            }
            if origin == Origin::Project {
                layers.read_project(path, env, trust, records)?;
                continue;
            }
            let text = read_text_file(path, MAX_FILE_MEBIBYTES)
                .map_err(|error| SettingsError::unreadable_file(path, &error))?;
            layers.active.push(Layer::parse(path, origin, text, env));
        }
        Ok(layers)
    }
}

impl Layers {
    /// Finds and reads the files that are used without any option. A project's file is trusted by
    /// its record only; records that others could have written do not count.
    pub fn discover(env: &dyn Environment) -> Result<Self, SettingsError> {
        let state = state_folder(env).filter(|folder| refuse_shared_folder(folder).is_ok());
        let records = state.map(|state| TrustRecords::open(&state, home_folder(env)));
        ConfigFiles::find(None, env)?.read(env, ProjectTrust::Recorded, records.as_ref())
    }

    /// Combines the files into one configuration, with all their problems. A file that is not
    /// trusted is named in the notes.
    pub fn into_config(self) -> (Config, Option<Errors>) {
        let untrusted: Vec<Problem> = self.untrusted.iter().map(UntrustedFile::problem).collect();
        let mut problems = Vec::new();
        let mut config = Config::default();
        for layer in self.active {
            problems.extend(layer.problems);
            config = match layer.origin {
                Origin::Project => Config::layered(config, layer.config),
                Origin::Named | Origin::User => layer.config,
            };
        }
        config.notes.extend(untrusted);
        (config, Errors::from_problems(problems))
    }

    /// Reads a project's file as a layer or as untrusted. The decision and the parser use the same
    /// bytes.
    fn read_project(
        &mut self,
        path: &Path,
        env: &dyn Environment,
        trust: ProjectTrust,
        records: Option<&TrustRecords>,
    ) -> Result<(), SettingsError> {
        let file = match ProjectFile::read(path) {
            Ok(file) => file,
            // With `--trust-project`, the user expects the file to be read.
            Err(why) if trust == ProjectTrust::ThisRun => {
                return Err(SettingsError::unusable_file(path, &why));
            }
            Err(why) => {
                let (path, why) = (path.to_owned(), DistrustReason::Unreadable(why));
                self.untrusted.push(UntrustedFile { path, reason: why, outline: Outline::default() });
                return Ok(());
            }
        };
        let standing = match trust {
            ProjectTrust::ThisRun => TrustState::Trusted,
            ProjectTrust::Recorded => records.map_or(TrustState::Unknown, |records| records.state_of(&file)),
        };
        let why = match standing {
            TrustState::Trusted => match file.check(home_folder(env).as_deref()) {
                Ok(()) => {
                    self.active.push(Layer::parse(path, Origin::Project, file.text, env));
                    return Ok(());
                }
                Err(found) if trust == ProjectTrust::ThisRun => {
                    let message = format!("{} cannot be trusted: {}", path.display(), found.problem);
                    return Err(SettingsError { hint: Some(found.fix), ..SettingsError::new(message) });
                }
                Err(found) => DistrustReason::FileExposed(found),
            },
            TrustState::Damaged => match records.and_then(TrustRecords::exposure) {
                Some(why) => DistrustReason::RecordsExposed(why),
                None => DistrustReason::State(TrustState::Damaged),
            },
            standing => DistrustReason::State(standing),
        };
        let outline = outline(&Source::new(path, file.text));
        self.untrusted.push(UntrustedFile { path: path.to_owned(), reason: why, outline });
        Ok(())
    }

    /// Returns the files that are used.
    pub fn iter(&self) -> impl Iterator<Item = &Layer> {
        self.active.iter()
    }

    /// Returns the project's files that are used.
    pub fn projects(&self) -> impl Iterator<Item = &Layer> {
        self.active.iter().filter(|layer| layer.origin == Origin::Project)
    }

    /// Returns the project's files that are not used, weakest first.
    pub fn untrusted(&self) -> &[UntrustedFile] {
        &self.untrusted
    }

    /// Returns the untrusted file whose entry for this server would be used if all files were trusted.
    pub fn untrusted_server(&self, name: &str) -> Option<&UntrustedFile> {
        self.untrusted.iter().rfind(|file| file.outline.server(name).is_some())
    }

    /// Finds the strongest entry of that name. A broken entry hides those below it, which would be
    /// a different server.
    pub fn find_server(&self, name: &str) -> ServerLookup<'_> {
        for layer in self.active.iter().rev() {
            let of_file: Vec<Problem> =
                layer.problems.iter().filter(|problem| problem.server.is_none()).cloned().collect();
            if let Some(server) = layer.config.servers.get(name) {
                return ServerLookup::Server(server, layer);
            }
            if layer.config.left_out.contains(name) {
                let of_server = |problem: &&Problem| problem.server.as_deref() == Some(name);
                let told = layer.problems.iter().chain(&layer.config.notes);
                return ServerLookup::Broken(told.filter(of_server).cloned().collect());
            }
            if !of_file.is_empty() {
                return ServerLookup::Unreadable(of_file);
            }
        }
        self.untrusted_server(name).map_or(ServerLookup::Unknown, ServerLookup::Untrusted)
    }

    /// Returns the hooks that apply to all servers.
    pub fn common_hooks(&self) -> Vec<Hook> {
        self.active.iter().flat_map(|layer| layer.config.hooks.iter().cloned()).collect()
    }

    /// Returns the views of the servers, by name. A project's file has none: it could widen a view that
    /// the user made to limit hosts.
    pub fn views(&self) -> BTreeMap<String, View> {
        self.own_layers().flat_map(|layer| layer.config.views.clone()).collect()
    }

    /// Returns the problems of views.
    pub fn view_problems(&self) -> impl Iterator<Item = &Problem> {
        let problems = self.own_layers().flat_map(|layer| &layer.problems);
        problems.filter(|problem| problem.server.is_none() && problem.key.starts_with("views."))
    }

    /// Returns how hosts are served. A project's file does not say: it could let others in.
    pub fn serve(&self) -> ServeSettings {
        self.own_layers().last().map(|layer| layer.config.serve.clone()).unwrap_or_default()
    }

    /// Returns the problems because of which it is not known how hosts are to be served.
    pub fn serve_problems(&self) -> impl Iterator<Item = &Problem> {
        self.own_layers().flat_map(|layer| &layer.problems).filter(|problem| problem.hides_serve_config())
    }

    /// The files that are the user's own.
    fn own_layers(&self) -> impl Iterator<Item = &Layer> {
        self.active.iter().filter(|layer| layer.origin != Origin::Project)
    }

    /// Returns the names of all servers that could be used, sorted and without duplicates.
    pub fn server_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .active
            .iter()
            .flat_map(|layer| layer.config.servers.keys().chain(&layer.config.left_out))
            .map(String::as_str)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Finds the nearest project file of each name, in the current folder or in one above, weakest first.
pub fn find_project_files() -> Result<Vec<PathBuf>, SettingsError> {
    let here = std::env::current_dir()
        .map_err(|error| SettingsError::new(format!("cannot determine the current folder: {error}")))?;
    let nearest = |name| here.ancestors().map(|folder: &Path| folder.join(name)).find(|path| path.is_file());
    Ok(PROJECT_FILES.into_iter().filter_map(nearest).collect())
}

impl UntrustedFile {
    /// Returns the names of its servers, as written.
    pub fn server_names(&self) -> impl Iterator<Item = &str> {
        self.outline.servers.iter().map(|server| &*server.name)
    }

    /// Returns the note for [`Config::notes`].
    fn problem(&self) -> Problem {
        Problem::of_file(
            self.path.clone(),
            ProblemKind::Ignored,
            format!("the file is not used: it {}", self.reason.describe()),
            self.reason.suggest_fix(&self.path),
        )
    }

    /// Returns a note that says that the file is not used, why, and what to do.
    pub fn note(&self) -> String {
        let path = self.path.display();
        let broken = self.outline.problem.as_ref().map(|problem| format!(" ({problem})")).unwrap_or_default();
        format!(
            "{path} is not used: it {}{broken}; {}",
            self.reason.describe(),
            self.reason.suggest_fix(&self.path)
        )
    }
}

impl Layer {
    fn parse(path: &Path, origin: Origin, text: String, env: &dyn Environment) -> Self {
        let (config, errors) = parse_partial(&Source::new(path, text), env);
        // Trust in a project's file is trust in the same program, whatever the current folder is.
        let config = match (origin, path.parent()) {
            (Origin::Project, Some(folder)) => config.anchored(folder),
            _ => config,
        };
        let problems = errors.into_iter().flatten().collect();
        Self { path: path.to_owned(), origin, config, problems }
    }

    /// Describes the doubtful parts of this server's entry, each with its place.
    pub fn describe_doubts(&self, server: &str) -> impl Iterator<Item = String> {
        let notes = self.config.notes.iter().filter(|note| note.kind == ProblemKind::Doubtful);
        notes
            .filter(move |note| note.server.as_deref() == Some(server))
            .map(|note| format!("{}:{}: {}: {}", note.file.display(), note.line, note.key, note.message))
    }

    /// Logs the doubtful parts of this server's entry, now that it is used.
    pub fn log_doubts(&self, server: &str) {
        for doubt in self.describe_doubts(server) {
            tracing::warn!("{doubt}");
        }
    }
}

impl Origin {
    /// Returns the name for output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

#[cfg(test)]
mod tests {
    use bowline_config::FixedEnvironment;

    use super::*;

    fn layers(user: &str, project: &str) -> Layers {
        let layer = |path: &str, origin, text: &str| {
            Layer::parse(Path::new(path), origin, text.to_owned(), &FixedEnvironment::default())
        };
        let own = layer("config.toml", Origin::User, user);
        Layers { active: vec![own, layer("bowline.toml", Origin::Project, project)], untrusted: Vec::new() }
    }

    /// Builds layers with a project file that is not trusted.
    fn untrusted(user: &str, project: &str) -> Layers {
        let mut layers = layers(user, "");
        layers.active.pop();
        let path = PathBuf::from("bowline.toml");
        let outline = outline(&Source::new(&*path, project));
        let why = DistrustReason::State(TrustState::Unknown);
        layers.untrusted.push(UntrustedFile { path, reason: why, outline });
        layers
    }

    #[test]
    fn a_project_that_is_not_trusted_hides_nothing() {
        let user = "[servers.a]\ncommand = 'user'\n[servers.b]\nurl = '${NOWHERE}'\n";
        for project in
            ["[servers.a]\ncommand = 'evil'\n[servers.c]\ncommand = 'evil'\n", "[[[", "servers = 1"]
        {
            let layers = untrusted(user, project);
            assert!(
                matches!(layers.find_server("a"), ServerLookup::Server(_, layer) if layer.origin == Origin::User)
            );
            assert!(matches!(layers.find_server("b"), ServerLookup::Broken(problems) if problems.len() == 1));
            assert!(matches!(layers.find_server("d"), ServerLookup::Unknown));
            assert_eq!(layers.server_names(), ["a", "b"]);
        }
        let layers = untrusted(user, "[servers.c]\ncommand = '${SECRET}'\n");
        assert!(
            matches!(layers.find_server("c"), ServerLookup::Untrusted(project) if project.server_names().eq(["c"]))
        );
    }

    #[test]
    fn the_project_is_stronger_and_keeps_its_origin() {
        let layers = layers(
            "[servers.a]\ncommand = 'user'\n[servers.b]\ncommand = 'user'",
            "[servers.b]\ncommand = 'project'",
        );
        assert!(
            matches!(layers.find_server("a"), ServerLookup::Server(_, layer) if layer.origin == Origin::User)
        );
        assert!(
            matches!(layers.find_server("b"), ServerLookup::Server(_, layer) if layer.origin == Origin::Project)
        );
        assert!(matches!(layers.find_server("c"), ServerLookup::Unknown));
        assert_eq!(layers.server_names(), ["a", "b"]);
    }

    /// A trusted project can replace a server, but not widen a view.
    #[test]
    fn views_are_those_of_the_users_own_file() {
        let user = "[servers.a]\ncommand = 'user'\n[views.v]\nservers = ['a']\n[views.w]\nservers = ['b']\n";
        let project = "[servers.b]\ncommand = 'project'\n[views.v]\n[views.x]\n[views.y]\nservers = ['c']\n";
        let layers = layers(user, project);
        let views = layers.views();
        assert_eq!(views.keys().collect::<Vec<_>>(), ["v"]);
        assert!(!views["v"].shows_server("b"));
        let problems: Vec<_> = layers.view_problems().map(|problem| problem.key.as_str()).collect();
        assert_eq!(problems, ["views.w.servers[0]"], "a server of the project cannot be named");
    }

    /// A trusted project cannot let others in.
    #[test]
    fn who_is_served_is_said_by_the_users_own_file() {
        let oauth = |host: &str| {
            format!("[serve.oauth]\nresource = 'https://{host}/mcp'\nissuers = ['https://{host}']\n")
        };
        let both = layers(&oauth("user"), &oauth("project"));
        assert_eq!(both.serve().oauth.unwrap().resource, "https://user/mcp");
        assert_eq!(layers("", &oauth("project")).serve(), ServeSettings::default());
        assert_eq!(both.serve_problems().count(), 0);
        let broken = layers("[serve.oauth]\nresource = 'x'\n", "[serve.oauth]\nresource = 'x'\n");
        let problems: Vec<_> = broken.serve_problems().map(|problem| problem.key.as_str()).collect();
        assert_eq!(problems, ["serve.oauth", "serve.oauth.resource"], "those of the user's own file");
        let misspelled = layers("[serv.oauth]\nresource = 'x'\n", "");
        assert_eq!(misspelled.serve_problems().count(), 1);
        let elsewhere = layers("[servers.a]\nurl = 'x'\n[views.'a.b']\n", "");
        assert_eq!(elsewhere.serve_problems().count(), 0);
    }

    #[test]
    fn how_hosts_are_served_is_in_the_users_own_file() {
        let limits =
            |sessions: &str| format!("[servers.a]\ncommand = 'a'\n[serve.limits]\nsessions = {sessions}\n");
        assert_eq!(layers(&limits("5"), &limits("7")).serve().limits.sessions, Some(5));
        assert_eq!(layers("", &limits("7")).serve(), ServeSettings::default());
        let broken = layers(&limits("0"), &limits("0"));
        let problems: Vec<_> = broken.serve_problems().map(|problem| problem.key.as_str()).collect();
        assert_eq!(problems, ["serve.limits.sessions"]);
    }

    #[test]
    fn a_broken_entry_hides_the_one_below_and_no_other() {
        let layers = layers(
            "[servers.a]\ncommand = 'user'\n[servers.b]\ncommand = 'user'",
            "[servers.b]\nurl = '${NOWHERE}'",
        );
        assert!(matches!(layers.find_server("a"), ServerLookup::Server(..)));
        assert!(matches!(layers.find_server("b"), ServerLookup::Broken(problems) if problems.len() == 1));
    }

    #[test]
    fn an_unreadable_file_may_hold_anything() {
        let layers = layers("[servers.a]\ncommand = 'user'", "[[[");
        assert!(matches!(layers.find_server("a"), ServerLookup::Unreadable(_)));
    }

    /// A project's file counts once its content is trusted, and until it changes.
    #[test]
    fn only_a_trusted_project_is_part_of_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let [user, project] = ["user.toml", "bowline.toml"].map(|name| folder.path().join(name));
        std::fs::write(&user, "[servers.a]\ncommand = 'user'\n").unwrap();
        std::fs::write(&project, "[servers.b]\ncommand = 'project'\n").unwrap();
        let state = folder.path().join("state");
        let records = TrustRecords::open(&state, None);
        let files = ConfigFiles::Layered { user: Some(user), projects: vec![project.clone()] };
        let read = || {
            let env = FixedEnvironment::default();
            let layers = files.read(&env, ProjectTrust::Recorded, Some(&records)).unwrap();
            let (config, errors) = layers.into_config();
            assert_eq!(errors, None);
            let names: Vec<String> = config.servers.keys().cloned().collect();
            let notes: Vec<String> = config.notes.iter().map(|note| note.message.clone()).collect();
            (names.join(" "), notes)
        };
        assert_eq!(read(), ("a".to_owned(), vec!["the file is not used: it is not trusted".to_owned()]));
        records.save(&ProjectFile::read(&project).unwrap()).unwrap();
        assert_eq!(read(), ("a b".to_owned(), vec![]));
        std::fs::write(&project, "[servers.b]\ncommand = 'other'\n").unwrap();
        let changed = "the file is not used: it has changed since you trusted it".to_owned();
        assert_eq!(read(), ("a".to_owned(), vec![changed]));
    }
}
