//! Lists the hosts whose files are on this machine, and whether bowline is installed in them.

use bowline_hosts::{Host, HostDocument, Scope, host_files, starts_bowline};
use serde_json::json;

use super::file_change::read_host_file;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::print::table::Table;
use crate::settings::Settings;

/// A file of a host.
struct FoundFile {
    host: Host,
    path: String,
    scope: &'static str,
    /// The names of its entries that start bowline; `None` if it cannot be read.
    entries: Option<Vec<String>>,
}

pub(super) fn run(settings: &Settings) -> Outcome {
    let printer = &settings.printer;
    let folder = std::env::current_dir().ok();
    let mut files = host_files(&*settings.env, folder.as_deref());
    files.retain(|file| file.scope != Scope::Managed && file.path.exists());
    // In the home folder, the file of a project may be that of the user.
    files.dedup_by(|file, earlier| (file.host, &file.path) == (earlier.host, &earlier.path));
    let found: Vec<FoundFile> = files
        .into_iter()
        .map(|file| FoundFile {
            host: file.host,
            path: file.path.display().to_string(),
            scope: if file.scope == Scope::Project { "project" } else { "user" },
            entries: own_entries(file.host, &file.path),
        })
        .collect();
    if printer.is_json() {
        let hosts = found.iter().map(|file| {
            json!({
                "host": file.host.id(),
                "path": file.path,
                "scope": file.scope,
                "installed": file.entries.as_ref().map(|entries| !entries.is_empty()),
                "entries": file.entries,
                "command": file.command(),
            })
        });
        printer.write_json(&json!({ "hosts": hosts.collect::<Vec<_>>() }).to_string())?;
        return Ok(Exit::Ok);
    }
    if found.is_empty() {
        let ids = Host::ALL.map(Host::id).join(", ");
        printer.note(&format!("no file of a host was found; `bowline install HOST` creates one for {ids}"));
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(["HOST", "BOWLINE", "COMMAND", "FILE"]);
    for file in &found {
        let state = match file.entries.as_deref() {
            None => "unreadable",
            Some([]) => "no",
            Some(_) => "installed",
        };
        table.push_row([file.host.name().to_owned(), state.to_owned(), file.command(), file.path.clone()]);
    }
    printer.write_layout(&table.render(printer))?;
    Ok(Exit::Ok)
}

impl FoundFile {
    /// The command that installs bowline, or uninstalls it.
    fn command(&self) -> String {
        let is_installed = self.entries.as_ref().is_some_and(|entries| !entries.is_empty());
        let verb = if is_installed { "uninstall" } else { "install" };
        let scope = if self.scope == "project" { " --scope project" } else { "" };
        format!("bowline {verb} {}{scope}", self.host.id())
    }
}

fn own_entries(host: Host, path: &std::path::Path) -> Option<Vec<String>> {
    let text = read_host_file(path).ok()??;
    let document = HostDocument::parse(host, &text).ok()?;
    let own = document.entries().filter(|(_, entry)| starts_bowline(entry));
    Some(own.map(|(name, _)| name.to_owned()).collect())
}
