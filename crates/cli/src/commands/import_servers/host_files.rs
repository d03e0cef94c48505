//! Finds and reads the files of hosts.

use std::path::{Path, PathBuf};

use bowline_config::closest_name;
use bowline_hosts::{
    ClaudeSettings, FileOrigin, FoundServer, Host, HostFile, HostServer, HostServerContent, Scope,
    check_syntax, guess_host, host_files, profile_files, project_of_file, read_servers_with,
};
use bowline_settings::{ProjectFile, TextFileError, home_folder, read_text_file};

use super::claude_settings::read_claude_settings;
use crate::failure::{Failure, Outcome};
use crate::settings::Settings;

/// A file that is read.
pub(super) struct ImportFile {
    /// The host; `None` if it is to be guessed.
    host: Option<Host>,
    scope: Scope,
    path: PathBuf,
    project: Option<PathBuf>,
    /// Whether a person named this file, and not only its host.
    is_named: bool,
}

/// Why nothing of a file is used.
pub(super) struct FileProblem {
    pub(super) host: Option<Host>,
    pub(super) path: PathBuf,
    pub(super) line: Option<usize>,
    pub(super) message: String,
    /// Whether a person named the file and it cannot be read, so that nothing is imported.
    pub(super) is_refused: bool,
}

/// Finds the files to read. A word is the name of a host, or else a file.
pub(super) fn find_files(
    words: &[String],
    only_project: bool,
    settings: &Settings,
) -> Outcome<Vec<ImportFile>> {
    let project = find_project(settings);
    if only_project && project.is_none() {
        return Err(Failure::usage_hint(
            "no host has a file for this project",
            "run it in the folder of the project, or name the file",
        ));
    }
    let places = all_places(project.as_deref(), settings);
    let known: Vec<ImportFile> = places
        .iter()
        .filter(|file| !only_project || file.scope == Scope::Project)
        .filter(|file| is_there(&file.path))
        .cloned()
        .map(|file| ImportFile::known(file, project.as_deref()))
        .collect();
    if words.is_empty() {
        return Ok(known);
    }
    let mut files: Vec<ImportFile> = Vec::new();
    for word in words {
        let Some(host) = Host::from_id(word) else {
            files.push(ImportFile::named(word, settings)?);
            continue;
        };
        let before = files.len();
        let of_host = known.iter().filter(|file| file.host == Some(host));
        files.extend(of_host.map(|file| ImportFile {
            path: file.path.clone(),
            project: file.project.clone(),
            ..*file
        }));
        if files.len() == before {
            let places = places.iter().filter(|file| file.host == host);
            let places: Vec<String> = places.map(|file| file.path.display().to_string()).collect();
            return Err(Failure::usage_hint(
                format!("{} has no configuration file here", host.name()),
                format!("name the file; this was looked for: {}", places.join(", ")),
            ));
        }
    }
    let named: Vec<PathBuf> =
        files.iter().filter(|file| file.is_named).map(|file| file.path.clone()).collect();
    let mut seen = Vec::new();
    files.retain_mut(|file| {
        file.is_named = named.contains(&file.path);
        let is_new = !seen.contains(&file.path);
        seen.extend(is_new.then(|| file.path.clone()));
        is_new
    });
    Ok(files)
}

/// Lists where hosts have their servers, in the order of the hosts. There need not be a file.
fn all_places(project: Option<&Path>, settings: &Settings) -> Vec<HostFile> {
    let mut places = host_files(&*settings.env, project);
    places.extend(profile_files(&*settings.env));
    places.sort_by_key(|file| file.host);
    places
}

/// Finds the nearest folder with a file of a host, from the current one up. The home folder is not a
/// project: its files are the user's.
fn find_project(settings: &Settings) -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let home = home_folder(&*settings.env);
    let is_home = |folder: &&Path| Some(*folder) == home.as_deref();
    let has_file = |folder: &&Path| {
        let files = host_files(&*settings.env, Some(folder));
        files.iter().any(|file| file.scope == Scope::Project && is_there(&file.path))
    };
    here.ancestors().take_while(|folder| !is_home(folder)).find(has_file).map(Path::to_owned)
}

/// Whether something is at a path. What cannot be looked at is reported when it is read.
pub(super) fn is_there(path: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    !std::fs::metadata(path).is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
}

/// Largest file that is read, in MiB. Some hosts keep their history in the same file.
pub(super) const MAX_FILE_MEBIBYTES: u64 = 32;

impl ImportFile {
    fn known(file: HostFile, project: Option<&Path>) -> Self {
        let HostFile { host, scope, path } = file;
        let project = project.filter(|_| scope == Scope::Project).map(Path::to_owned);
        Self { host: Some(host), scope, path, project, is_named: false }
    }

    /// A file that a person names.
    fn named(word: &str, settings: &Settings) -> Outcome<Self> {
        let path = std::path::absolute(word).unwrap_or_else(|_| PathBuf::from(word));
        if !is_there(&path) {
            let ids = Host::ALL.map(Host::id);
            let hint = match closest_name(word, ids.to_vec()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("a host is one of {}", ids.join(", ")),
            };
            return Err(Failure::usage_hint(format!("`{word}` is neither a host nor a file"), hint));
        }
        let of_user = all_places(None, settings).into_iter().find(|file| file.path == path);
        Ok(match of_user {
            Some(file) => Self { is_named: true, ..Self::known(file, None) },
            None => Self { host: None, scope: Scope::User, path, project: None, is_named: true },
        })
    }
}

/// Reads the files. One that cannot be read does not keep the others from being read.
pub(super) fn read_files(
    files: Vec<ImportFile>,
    settings: &Settings,
) -> (Vec<FoundServer>, Vec<FileProblem>) {
    let mut found = Vec::new();
    let mut problems = Vec::new();
    for ImportFile { host: known_host, mut scope, path, mut project, is_named } in files {
        let mut report = |host: Option<Host>, line: Option<usize>, message: String, is_refused: bool| {
            problems.push(FileProblem { host, path: path.clone(), line, message, is_refused });
        };
        let text = match read_text_file(&path, MAX_FILE_MEBIBYTES) {
            Ok(text) => text,
            Err(error) => {
                report(known_host, None, describe_unreadable(&error), is_named);
                continue;
            }
        };
        if is_named && text.trim_start_matches('\u{feff}').trim().is_empty() {
            report(known_host, None, "it is empty".to_owned(), true);
            continue;
        }
        let Some(host) = known_host.or_else(|| guess_host(&path, &text)) else {
            match check_syntax(&path, &text) {
                Ok(()) => report(None, None, "it has none of the keys that hosts have".to_owned(), is_named),
                Err(problem) => report(None, Some(problem.line), problem.message, is_named),
            }
            continue;
        };
        if known_host.is_none() {
            project = project_of_file(host, &path).map(Path::to_owned);
            scope = if project.is_some() { Scope::Project } else { scope };
        }
        let origin = FileOrigin { path: &path, project: project.as_deref() };
        let mut side_problems = Vec::new();
        let switched_off = match host {
            Host::ClaudeCode => read_claude_settings(project.as_deref(), settings, &mut side_problems),
            _ => ClaudeSettings::default(),
        };
        match read_servers_with(host, origin, &switched_off, &text) {
            Ok(servers) if servers.is_empty() && is_named => {
                report(Some(host), None, format!("it has no servers of {}", host.name()), false);
            }
            Ok(servers) => {
                let exposure = find_exposure(&path, scope, settings);
                found.extend(servers.into_iter().map(|mut server| {
                    if let Some(exposure) = &exposure {
                        disable_exposed(&mut server, exposure);
                    }
                    let scope = if server.project.is_some() { Scope::Project } else { scope };
                    FoundServer { host, scope, path: path.clone(), server }
                }));
            }
            Err(problem) => report(Some(host), Some(problem.line), problem.message, is_named),
        }
        side_problems.retain(|side| problems.iter().all(|known| known.path != side.path));
        problems.extend(side_problems);
    }
    (found, problems)
}

/// Says why a file cannot be read, and what to do about it.
pub(super) fn describe_unreadable(error: &TextFileError) -> String {
    let fix = error.suggest_fix().map(|fix| format!(" ({fix})")).unwrap_or_default();
    format!("{error}{fix}")
}

/// Fails if a file that a person named cannot be read.
pub(super) fn refuse_unreadable(problems: &[FileProblem]) -> Outcome<()> {
    let refused: Vec<String> = problems.iter().filter(|problem| problem.is_refused).map(describe).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let message = format!("{}; nothing was imported", refused.join("; "));
    Err(Failure::usage_hint(message, "correct the file, or leave it out"))
}

fn describe(problem: &FileProblem) -> String {
    let line = problem.line.map(|line| format!(":{line}")).unwrap_or_default();
    format!("{}{line} cannot be imported: {}", problem.path.display(), problem.message)
}

/// Says who else could have written the file of a project, as `bowline trust` does.
fn find_exposure(path: &Path, scope: Scope, settings: &Settings) -> Option<String> {
    if scope != Scope::Project {
        return None;
    }
    let home = home_folder(&*settings.env);
    match ProjectFile::read(path) {
        Ok(file) => file.check(home.as_deref()).err().map(|exposure| exposure.problem),
        Err(problem) => Some(format!("who wrote {} cannot be told: {problem}", path.display())),
    }
}

/// Disables a server that others could have written.
fn disable_exposed(server: &mut HostServer, exposure: &str) {
    if let HostServerContent::Server { entry, attention } = &mut server.content {
        entry.set_enabled(false);
        attention.push(format!("{exposure}, so look at what it runs"));
    }
}
