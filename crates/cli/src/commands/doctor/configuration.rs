//! The checks `configuration` and `trust`: which files are read, what is wrong in them, and which
//! servers they define.

use std::time::Instant;

use bowline::Server;
use bowline::config::Problem;
use bowline_settings::{DistrustReason, Layer, Layers, Origin, ServerLookup, UntrustedFile, trust_command};

use super::check::{Blame, CheckLog, Finding};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::units;
use crate::settings::Settings;

/// Checks all files.
pub(super) fn check_files(settings: &Settings, log: &CheckLog) {
    let begun = Instant::now();
    let layers = match settings.layers() {
        Ok(layers) => layers,
        Err(failure) => {
            log.add("configuration", begun, unreadable_finding(failure, settings));
            log.skip(&["trust"], "the configuration cannot be read");
            return;
        }
    };
    log.add("configuration", begun, files_finding(layers, settings));
    let begun = Instant::now();
    let findings: Vec<Finding> = layers.untrusted().iter().map(untrusted_finding).collect();
    if findings.is_empty() {
        let projects = layers.projects().count();
        let seen = if projects == 0 {
            "no file of a project is in effect".to_owned()
        } else {
            format!("{} of the project, trusted", units::count(projects, "file"))
        };
        log.add("trust", begun, Finding::ok(seen));
    }
    for finding in findings {
        log.add("trust", begun, finding);
    }
}

fn unreadable_finding(failure: Failure, settings: &Settings) -> Finding {
    let (message, hint) = match failure {
        Failure::Report(report) => (report.message, report.hint),
        Failure::Signal(_) | Failure::Output(_) => ("the configuration cannot be read".to_owned(), None),
    };
    Finding::failed(Blame::You, Exit::Usage, message)
        .fix(hint.unwrap_or_else(|| "correct the file, or name another one with --config".to_owned()))
        .run(settings.command_line.format_command(["config", "path"]))
}

fn files_finding(layers: &Layers, settings: &Settings) -> Finding {
    let problems: Vec<&Problem> = layers.iter().flat_map(|layer| &layer.problems).collect();
    if !problems.is_empty() {
        let file = problems[0].file.display();
        let count = units::count(problems.len(), "problem");
        return Finding::failed(Blame::You, Exit::Usage, format!("{count}, the first in {file}"))
            .fix("correct the file")
            .run(settings.command_line.format_command(["config", "check"]))
            .details(problems.into_iter().take(MAX_PROBLEMS).map(problem_line));
    }
    let files: Vec<String> = layers.iter().map(|layer| layer.path.display().to_string()).collect();
    if files.is_empty() {
        return Finding::ok("there is no configuration file");
    }
    let servers = units::count(layers.server_names().len(), "server");
    Finding::ok(format!("{servers} in {}", files.join(" and ")))
}

fn untrusted_finding(file: &UntrustedFile) -> Finding {
    let path = file.path.display();
    let seen = format!("{path} is not used: it {}", file.reason.describe());
    let finding = Finding::warning(Blame::You, seen);
    match &file.reason {
        DistrustReason::State(_) => {
            finding.fix("look at what it would do, and trust it if you agree").run(trust_command(&file.path))
        }
        reason => finding.fix(reason.suggest_fix(&file.path)),
    }
}

/// What the configuration says about one server.
pub(super) enum ServerEntry<'a> {
    Usable(&'a Server, &'a Layer),
    /// It cannot be examined, for this reason.
    Unusable(Finding),
    /// It is not meant to be used.
    Disabled,
    Unknown,
}

/// Looks a server up, and says why it cannot be used.
pub(super) fn find_entry<'a>(name: &str, layers: &'a Layers, settings: &Settings) -> ServerEntry<'a> {
    match layers.find_server(name) {
        ServerLookup::Server(server, _) if !server.enabled => ServerEntry::Disabled,
        ServerLookup::Server(server, layer) => ServerEntry::Usable(server, layer),
        ServerLookup::Broken(problems) => {
            // The entry of a disabled server is only noted.
            let mut wrong = layers.iter().flat_map(|layer| &layer.problems);
            if !wrong.any(|problem| problem.server.as_deref() == Some(name)) {
                return ServerEntry::Disabled;
            }
            ServerEntry::Unusable(entry_finding(&problems, settings))
        }
        ServerLookup::Unreadable(problems) => ServerEntry::Unusable(entry_finding(&problems, settings)),
        ServerLookup::Untrusted(file) => {
            let mut finding = untrusted_finding(file);
            (finding.status, finding.exit) = (super::check::Status::Failed, Exit::Usage);
            ServerEntry::Unusable(finding)
        }
        ServerLookup::Unknown => ServerEntry::Unknown,
    }
}

fn entry_finding(problems: &[Problem], settings: &Settings) -> Finding {
    let first = problems.first();
    let file = first.map(|problem| problem.file.display().to_string()).unwrap_or_default();
    let hint = first.and_then(|problem| problem.hint.clone());
    let seen = match first {
        Some(problem) => format!("its entry in {file} cannot be used: {}", keyed_message(problem)),
        None => "its entry cannot be used".to_owned(),
    };
    Finding::failed(Blame::You, Exit::Usage, seen)
        .fix(hint.unwrap_or_else(|| "correct the entry".to_owned()))
        .run(settings.command_line.format_command(["config", "check"]))
        .details(problems.iter().take(MAX_PROBLEMS).map(problem_line))
}

/// Returns the finding for an entry that can be used.
pub(super) fn usable_finding(name: &str, layer: &Layer) -> Finding {
    let file = layer.path.display();
    let notes: Vec<&Problem> =
        layer.config.notes.iter().filter(|note| note.server.as_deref() == Some(name)).collect();
    let seen = format!("{file}{}", if layer.origin == Origin::Project { ", trusted" } else { "" });
    match notes.first() {
        None => Finding::ok(seen),
        Some(note) => Finding::warning(Blame::You, format!("{seen}: {}", keyed_message(note)))
            .fix(note.hint.clone().unwrap_or_else(|| "correct the entry".to_owned()))
            .details(notes.iter().take(MAX_PROBLEMS).map(|note| problem_line(note))),
    }
}

fn problem_line(problem: &Problem) -> String {
    format!("{}:{}: {}", problem.line, problem.column, keyed_message(problem))
}

/// Returns the message after the key that it is about. Many messages have the key as their subject.
fn keyed_message(problem: &Problem) -> String {
    let Problem { key, message, .. } = problem;
    if key.is_empty() { message.clone() } else { format!("{key}: {message}") }
}

/// How many problems are shown; `bowline config check` shows all.
const MAX_PROBLEMS: usize = 8;
