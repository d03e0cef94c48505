//! Shows what an import would do, and what it has done.

use std::path::Path;

use bowline_hosts::{Host, ImportAction, PlannedServer, Scope, ServerEntry};
use serde_json::{Value, json};

use super::host_files::FileProblem;
use super::secret_files::FOLDER;
use super::{Import, ImportServersArgs};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::print::table::Table;
use crate::print::{escape, units};
use crate::settings::Settings;

impl Import {
    /// Shows a table of all servers, and what is worth knowing about each. Commands are shown whole,
    /// since any part of them could matter.
    pub(super) fn show(&self, path: &Path, args: &ImportServersArgs, settings: &Settings) -> Outcome<()> {
        let printer = &settings.printer;
        let headers = ["HOST", "NAME", "ACTION", "SERVER"];
        let mut table = Table::new(headers).with_max_column_width(MAX_COLUMN_WIDTH);
        for planned in &self.planned {
            let server = planned.entry.as_ref().map(ServerEntry::describe).unwrap_or_default();
            // Escaped here, so that no line end in it hides the rest.
            let cells = [host_cell(planned), planned.name.clone(), action_cell(planned), server];
            table.push_row(cells.map(|cell| escape::line(&cell).into_owned()));
        }
        if !table.is_empty() {
            printer.write_layout(&table.render(printer))?;
        }
        for FileProblem { path, line, message, .. } in &self.problems {
            let line = line.map(|line| format!(":{line}")).unwrap_or_default();
            printer.note(&format!("{}{line} is left out: {message}", path.display()));
        }
        for planned in &self.planned {
            let mut sentences = reasons(planned);
            // What is not added needs no further words, and the table says what is the same.
            if planned.action == ImportAction::Same {
                continue;
            }
            sentences.extend(planned.notes.iter().filter(|_| planned.is_written()).cloned());
            if !sentences.is_empty() {
                let (host, name) = (planned.host.id(), &planned.name);
                printer.note(&format!("`{name}` of {host}: {}", sentences.join("; ")));
            }
        }
        let with_secrets =
            self.written().filter(|planned| planned.entry.as_ref().is_some_and(ServerEntry::has_secrets));
        let with_secrets = with_secrets.count();
        if with_secrets > 0 && args.store_secrets {
            let folder = path.parent().unwrap_or(Path::new("")).join(FOLDER);
            let count = units::count(with_secrets, "server");
            printer.note(&format!("the secrets of {count} go into files in {}", folder.display()));
        } else if with_secrets > 0 {
            let count = units::count(with_secrets, "server");
            let readers = if is_readable_by_others(path) { ", which other users can read" } else { "" };
            printer.note(&format!(
                "the secrets of {count} are copied into your configuration{readers}; --store-secrets puts them into files"
            ));
        }
        Ok(())
    }

    /// Says what was done, or why there was nothing to do.
    pub(super) fn finish(
        &self,
        path: &Path,
        args: &ImportServersArgs,
        is_changed: bool,
        settings: &Settings,
    ) -> Outcome {
        let printer = &settings.printer;
        if printer.is_json() {
            self.write_json(path, args, is_changed, settings)?;
            return Ok(Exit::Ok);
        }
        let (path, written) = (path.display(), units::count(self.written().count(), "server"));
        printer.note(&if is_changed {
            format!("imported {written} into {path}; see `bowline list`")
        } else if self.planned.is_empty() && self.problems.is_empty() {
            "no servers of other hosts were found; name a file to read it".to_owned()
        } else if self.written().next().is_none() {
            format!("there is nothing to import; {path} was not changed")
        } else {
            format!("{written} would be imported into {path}; nothing was changed")
        });
        Ok(Exit::Ok)
    }

    /// Prints everything as one object, without secrets.
    pub(super) fn write_json(
        &self,
        path: &Path,
        args: &ImportServersArgs,
        is_changed: bool,
        settings: &Settings,
    ) -> Outcome<()> {
        let servers: Vec<Value> = self.planned.iter().map(server_json).collect();
        let problems = self.problems.iter().map(|problem| {
            json!({
                "host": problem.host.map(Host::id),
                "file": problem.path.to_string_lossy(),
                "line": problem.line,
                "message": problem.message,
            })
        });
        let summary = json!({
            "path": path.to_string_lossy(),
            "changed": is_changed,
            "dry_run": args.dry_run,
            "servers": servers,
            "problems": problems.collect::<Vec<_>>(),
        });
        settings.printer.write_json(&summary.to_string())?;
        Ok(())
    }
}

/// Whether other users of this machine can read a file. One that is new is for its owner only.
fn is_readable_by_others(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o044 != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// What has to be done about a server, and why something else than adding it is done.
fn reasons(planned: &PlannedServer) -> Vec<String> {
    let mut reasons = planned.attention.clone();
    if planned.is_written() && !planned.attention.is_empty() {
        reasons.push(format!("`bowline enable {}` enables it", planned.target));
    }
    reasons.extend((!planned.reason.is_empty()).then(|| planned.reason.clone()));
    reasons
}

fn host_cell(planned: &PlannedServer) -> String {
    match planned.scope {
        Scope::Project => format!("{} (project)", planned.host.id()),
        Scope::User | Scope::Managed => planned.host.id().to_owned(),
    }
}

fn action_cell(planned: &PlannedServer) -> String {
    let action = planned.action.as_str();
    let is_disabled = planned.entry.as_ref().is_some_and(|entry| !entry.is_enabled());
    let name = match planned.action {
        ImportAction::Add | ImportAction::Same if planned.target != planned.name => {
            format!("{action} as {}", planned.target)
        }
        _ => action.to_owned(),
    };
    if planned.is_written() && is_disabled { format!("{name}, disabled") } else { name }
}

fn server_json(planned: &PlannedServer) -> Value {
    let scope = match planned.scope {
        Scope::User => "user",
        Scope::Project => "project",
        Scope::Managed => "managed",
    };
    let entry = planned.entry.as_ref();
    json!({
        "host": planned.host.id(),
        "file": planned.path.to_string_lossy(),
        "scope": scope,
        "project": planned.project.as_ref().map(|project| project.to_string_lossy()),
        "name": planned.name,
        "target": planned.target,
        "action": planned.action.as_str(),
        "enabled": entry.map(ServerEntry::is_enabled),
        "server": entry.map(ServerEntry::describe),
        "reasons": reasons(planned),
        "notes": planned.notes,
    })
}

/// Greatest width of the columns before the last one, so that commands have room.
const MAX_COLUMN_WIDTH: usize = 16;
