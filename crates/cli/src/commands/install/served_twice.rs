//! Finds the servers that a host has from its own file as well as from bowline.

use std::path::Path;

use bowline::config::Source;
use bowline_hosts::{
    FileOrigin, FoundServer, Host, HostDocument, ImportAction, Scope, plan_import, read_servers,
    starts_bowline,
};
use bowline_settings::ConfigEditor;

use crate::commands::entries::own_file;
use crate::settings::Settings;

/// Returns the entries of a host's file that are servers which bowline serves: by their name, or because they are the
/// same server. An import may have given it another name, such as `My-Files` for `My Files`.
pub(super) fn find_served_twice(
    document: &HostDocument,
    (host, path): (Host, &Path),
    served: &[String],
    settings: &Settings,
) -> Vec<String> {
    let is_served = |name: &str| served.iter().any(|served| served == name);
    let same = same_servers(host, path, document.text(), settings).unwrap_or_default();
    let same = same
        .into_iter()
        .filter(|(_, own_name)| is_served(own_name))
        .map(|(name, _)| name)
        .collect::<Vec<_>>();
    let others = document.entries().filter(|(_, entry)| !starts_bowline(entry)).map(|(name, _)| name);
    others
        .filter(|name| is_served(name) || same.iter().any(|same| same == name))
        .map(ToOwned::to_owned)
        .collect()
}

/// Returns the names of entries in the file, each with the name of the same server in our configuration. There are
/// none if either cannot be read.
fn same_servers(host: Host, path: &Path, text: &str, settings: &Settings) -> Option<Vec<(String, String)>> {
    let servers = read_servers(host, FileOrigin { path, project: None }, text).ok()?;
    // Entries of single projects are not in the part of the file that `install` changes.
    let servers = servers.into_iter().filter(|server| server.project.is_none());
    let found = servers.map(|server| FoundServer { host, scope: Scope::User, path: path.to_owned(), server });
    let editor = ConfigEditor::open(own_file(settings).ok()?).ok()?;
    let config = Source::new(editor.path(), editor.text());
    let planned = plan_import(found.collect(), &config, &*settings.env, false);
    let same = planned.into_iter().filter(|planned| planned.action == ImportAction::Same);
    Some(same.map(|planned| (planned.name, planned.target)).collect())
}
