//! Decides what becomes of the servers that hosts' files name: which are added to our configuration,
//! under which name, and which are there already. Pure: nothing is opened, started or reached.

mod guess;
mod lenient_environment;
mod names;

use std::collections::BTreeMap;
use std::path::PathBuf;

use bowline_config::{
    Environment, Problem, ProblemKind, Redirect, Server, Source, Transport, parse_partial, valid_server_name,
};
use bowline_settings::ConfigEditor;

use self::lenient_environment::LenientEnvironment;
use crate::host::Host;
use crate::locations::Scope;
use crate::read::{HostServer, HostServerContent, ServerEntry, Target};

pub use guess::guess_host;

/// A server that was found in a file.
#[derive(Debug)]
pub struct FoundServer {
    /// The host whose file it is.
    pub host: Host,
    /// For whom the file is.
    pub scope: Scope,
    /// The file.
    pub path: PathBuf,
    /// The server.
    pub server: HostServer,
}

/// What becomes of a server that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportAction {
    /// It is added under a name that is free.
    Add,
    /// It takes the place of an entry that differs.
    Replace,
    /// It is there already, or another file names the same.
    Same,
    /// The entry of our configuration differs, and stays.
    Keep,
    /// It cannot be used.
    LeaveOut,
}

/// A server that was found, and what becomes of it.
#[derive(Debug)]
pub struct PlannedServer {
    /// Where it was found.
    pub host: Host,
    /// For whom the file is.
    pub scope: Scope,
    /// The file.
    pub path: PathBuf,
    /// The project that the entry is for, if the file has entries of several projects.
    pub project: Option<PathBuf>,
    /// Its name in the file.
    pub name: String,
    /// Its name in our configuration.
    pub target: String,
    /// What becomes of it.
    pub action: ImportAction,
    /// The entry, if it can be used.
    pub entry: Option<ServerEntry>,
    /// Why this becomes of it, as a sentence; empty for most that are added.
    pub reason: String,
    /// What a person has to do before it can be used. It is added, but not enabled.
    pub attention: Vec<String>,
    /// What is worth knowing, as sentences.
    pub notes: Vec<String>,
}

impl ImportAction {
    /// The action as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Same => "same",
            Self::Keep => "keep",
            Self::LeaveOut => "leave out",
        }
    }
}

impl PlannedServer {
    /// Returns whether the configuration is changed for it.
    pub fn is_written(&self) -> bool {
        matches!(self.action, ImportAction::Add | ImportAction::Replace)
    }
}

/// Plans what becomes of servers, in their order. `config` is our configuration as it is now; with
/// `replace`, entries that differ take the place of those in it.
pub fn plan_import(
    found: Vec<FoundServer>,
    config: &Source,
    env: &dyn Environment,
    replace: bool,
) -> Vec<PlannedServer> {
    let mut existing: BTreeMap<String, Vec<Server>> = BTreeMap::new();
    for lenient in LenientEnvironment::all(env) {
        let (parsed, _) = parse_partial(config, &lenient);
        for name in parsed.left_out {
            existing.entry(name).or_default();
        }
        for (name, server) in parsed.servers {
            existing.entry(name).or_default().push(normalize(server));
        }
    }
    let mut planner = Planner { config, env, replace, existing, planned: Vec::new() };
    for found in found {
        planner.plan(found);
    }
    planner.planned.into_iter().map(|(planned, _)| planned).collect()
}

struct Planner<'a> {
    config: &'a Source,
    env: &'a dyn Environment,
    replace: bool,
    /// The servers of our configuration in all forms in which they can be compared; none if an entry
    /// cannot be used.
    existing: BTreeMap<String, Vec<Server>>,
    /// What was planned so far, with the server that is written, if it can be compared.
    planned: Vec<(PlannedServer, Option<Server>)>,
}

impl Planner<'_> {
    fn plan(&mut self, found: FoundServer) {
        let FoundServer { host, scope, path, server } = found;
        let HostServer { name, project, content, notes } = server;
        let target = valid_server_name(&name).unwrap_or_else(|| "server".to_owned());
        let mut planned = PlannedServer {
            host,
            scope,
            path,
            project,
            name,
            target,
            action: ImportAction::LeaveOut,
            entry: None,
            reason: String::new(),
            attention: Vec::new(),
            notes,
        };
        match content {
            HostServerContent::LeftOut(reason) => {
                planned.reason = reason;
                self.planned.push((planned, None));
            }
            HostServerContent::Server { entry, attention } => {
                planned.attention = attention;
                let server = self.decide(&mut planned, *entry);
                self.planned.push((planned, server));
            }
        }
    }

    /// Decides what becomes of an entry. Returns the server that is written, if it can be compared.
    fn decide(&mut self, planned: &mut PlannedServer, mut entry: ServerEntry) -> Option<Server> {
        let was_enabled = entry.is_enabled();
        // Anybody may have written the file of a project. What it refers to is not opened before a yes.
        let opens_files = planned.scope != Scope::Project || !entry.reads_files();
        if !opens_files {
            planned.attention.push("it reads a file, and a file of a project says so".to_owned());
        }
        if !planned.attention.is_empty() {
            entry.set_enabled(false);
        }
        if let Err(problems) = self.check(&planned.target, &entry, opens_files) {
            let messages = problems.iter().map(|problem| describe_problem(problem, &planned.target));
            if problems.iter().any(|problem| problem.kind != ProblemKind::Unresolved) {
                planned.reason = messages.collect::<Vec<_>>().join("; ");
                planned.entry = Some(entry);
                return None;
            }
            planned.attention.extend(messages);
            if planned.host == Host::Hermes {
                planned.notes.push("Hermes takes variables from ~/.hermes/.env, too".to_owned());
            }
            entry.set_enabled(false);
        }
        let server = self.comparable(&planned.target, &entry, opens_files);
        let is_same =
            |other: &Server| server.as_ref().is_some_and(|server| is_same_server(server, &entry, other));
        let base = planned.target.clone();
        let own_names = || names::candidates(&base, planned.host);
        let existing =
            own_names().find(|name| self.existing.get(name).is_some_and(|forms| forms.iter().any(is_same)));
        let twin = self.planned.iter_mut().find(|(other, written)| {
            let is_base = valid_server_name(&other.name).as_ref() == Some(&base);
            is_base && other.is_written() && written.as_ref().is_some_and(is_same)
        });
        let is_taken = |name: &String, planned: &[(PlannedServer, Option<Server>)]| {
            planned.iter().any(|(other, _)| other.is_written() && other.target == *name)
        };
        if let Some(name) = existing {
            planned.reason = format!("it is in your configuration as `{name}`");
            (planned.action, planned.target) = (ImportAction::Same, name);
            planned.attention.clear();
        } else if let Some((twin, _)) = twin {
            planned.reason = format!("the same as `{}` of {}", twin.name, twin.host.name());
            (planned.action, planned.target) = (ImportAction::Same, twin.target.clone());
            planned.attention.clear();
            if was_enabled && twin.attention.is_empty() {
                twin.entry.iter_mut().for_each(|entry| entry.set_enabled(true));
            }
        } else if is_taken(&base, &self.planned) {
            let other = self.planned.iter().find(|(other, _)| other.is_written() && other.target == base);
            let is_same_program = match (&server, other) {
                (Some(server), Some((_, Some(other)))) => is_same_program(server, &entry, other),
                _ => false,
            };
            let other = other.map_or("", |(other, _)| other.host.name());
            let free = own_names()
                .skip(1)
                .find(|name| !is_taken(name, &self.planned) && !self.existing.contains_key(name));
            match free {
                Some(name) => {
                    planned.reason = if is_same_program {
                        format!(
                            "`{base}` of {other} is the same program with other variables, so this one is `{name}` \
                             and its tools are there twice; `bowline disable {name}` leaves them once"
                        )
                    } else {
                        format!("`{base}` of {other} differs, so this one is `{name}`")
                    };
                    (planned.action, planned.target) = (ImportAction::Add, name);
                }
                None => planned.reason = format!("there are too many servers named `{base}`"),
            }
        } else if self.existing.contains_key(&base) {
            planned.action = if self.replace { ImportAction::Replace } else { ImportAction::Keep };
            planned.reason = if self.replace {
                format!("`{base}` of your configuration differs, and is replaced")
            } else {
                planned.attention.clear();
                format!("`{base}` of your configuration differs, and stays; --replace overwrites it")
            };
        } else {
            planned.action = ImportAction::Add;
        }
        planned.entry = Some(entry);
        server
    }

    /// Checks an entry as it would be read from the file.
    fn check(&self, name: &str, entry: &ServerEntry, opens_files: bool) -> Result<(), Vec<Problem>> {
        let unopened = LenientEnvironment { env: self.env, opens_files: false, fills_urls: false };
        let env: &dyn Environment = if opens_files { self.env } else { &unopened };
        let (_, errors) = parse_partial(&self.source(name, entry), env);
        errors.map_or(Ok(()), |errors| Err(errors.problems().to_vec()))
    }

    /// The server of an entry in a form in which it can be compared, whatever is set.
    fn comparable(&self, name: &str, entry: &ServerEntry, opens_files: bool) -> Option<Server> {
        let source = self.source(name, entry);
        let forms = LenientEnvironment::all(self.env).into_iter().filter(|it| it.opens_files == opens_files);
        let parse = |env| parse_partial(&source, &env).0.servers.remove(name);
        forms.into_iter().find_map(parse).map(normalize)
    }

    /// A configuration with this entry only.
    fn source(&self, name: &str, entry: &ServerEntry) -> Source {
        let mut editor = ConfigEditor::empty(&self.config.path);
        editor.set_server(name, &entry.keys());
        Source::new(&*self.config.path, editor.text()).with_format(bowline_config::FileFormat::Toml)
    }
}

/// Whether another server is the same. A folder that only follows from where the file is does not count.
fn is_same_server(server: &Server, entry: &ServerEntry, other: &Server) -> bool {
    let is_cwd_implied = matches!(&entry.target, Target::Program(program) if program.is_cwd_implied);
    server == other || (is_cwd_implied && without_folder(server) == *other)
}

/// Whether another server is the same program, started with other variables.
fn is_same_program(server: &Server, entry: &ServerEntry, other: &Server) -> bool {
    let is_started = matches!(server.transport, Transport::Stdio(_));
    is_started && is_same_server(&without_variables(server), entry, &without_variables(other))
}

fn without_variables(server: &Server) -> Server {
    let mut server = server.clone();
    if let Transport::Stdio(program) = &mut server.transport {
        program.env.clear();
    }
    server
}

fn without_folder(server: &Server) -> Server {
    let mut server = server.clone();
    if let Transport::Stdio(program) = &mut server.transport {
        program.cwd = None;
    }
    server
}

/// Removes what two entries for the same server may differ in.
fn normalize(mut server: Server) -> Server {
    server.name.clear();
    server.enabled = true;
    if let Transport::Http(http) | Transport::Sse(http) = &mut server.transport {
        http.headers.sort_by_key(|(name, _)| name.to_ascii_lowercase());
        // Codex sets one port for all of its servers. It only matters to a client that was registered with it.
        if http.auth.client.is_none() {
            http.auth.redirect = Redirect::AnyPort;
        }
    }
    server
}

/// A problem of an entry, by its key and without the place in a file that does not exist.
fn describe_problem(problem: &Problem, name: &str) -> String {
    let key = problem.key.strip_prefix("servers.").unwrap_or(&problem.key);
    let key = key.strip_prefix(name).unwrap_or(key).trim_start_matches('.');
    let key = key.strip_prefix(&format!("{name:?}.")).unwrap_or(key);
    match problem.kind {
        ProblemKind::Unresolved => problem.message.clone(),
        _ if key.is_empty() => problem.message.clone(),
        _ => format!("`{key}`: {}", problem.message),
    }
}
