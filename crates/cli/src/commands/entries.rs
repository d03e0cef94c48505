//! Implements `bowline remove|enable|disable|list|edit`: the entries of configuration files.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::path::Path;

use bowline::Server;
use bowline::config::Source;
use bowline_config::{closest_name, parse_partial};
use bowline_settings::{ConfigEditor, ConfigFiles, private_folder};
use bowline_store::private;
use bowline_transport::describe_url;
use serde_json::json;

use super::editor::Editor;
use super::import_servers::unused_secrets::{find_secrets, remove_unused_secrets};
use crate::args::{RemoveArgs, ToggleArgs};
use crate::env;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::list_cache::ListCache;
use crate::print::table::Table;
use crate::settings::Settings;

/// The file that verbs change: the user's, or the one that was named.
pub(super) fn own_file(settings: &Settings) -> Outcome<&Path> {
    let path = match &settings.files {
        ConfigFiles::Single(path) => Some(path.as_path()),
        ConfigFiles::Layered { user, .. } => user.as_deref(),
    };
    path.ok_or_else(|| {
        Failure::usage_hint("there is no folder for your configuration", "name a file with --config")
    })
}

pub(super) async fn remove(args: &RemoveArgs, settings: &Settings) -> Outcome {
    change(&args.names, settings, "removed", ConfigEditor::remove_server).await
}

pub(super) async fn enable(args: &ToggleArgs, settings: &Settings) -> Outcome {
    change(&args.names, settings, "enabled", |editor, name| editor.set_enabled(name, true)).await
}

pub(super) async fn disable(args: &ToggleArgs, settings: &Settings) -> Outcome {
    change(&args.names, settings, "disabled", |editor, name| editor.set_enabled(name, false)).await
}

/// Waits for the turn of this process to change configuration files: two changes at the same time would
/// lose one of them. The turn ends when the file is dropped. Without a folder to wait in there is none.
pub(super) async fn take_turn(settings: &Settings) -> Outcome<Option<File>> {
    let Some(folder) = settings.state() else { return Ok(None) };
    let path = folder.join("config.lock");
    let shown_path = path.display().to_string();
    let taking = move || {
        private_folder::create_folder(&folder)?;
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.create(true).truncate(false).write(true).open(&path)?;
        file.lock()?;
        Ok(file)
    };
    let taken = tokio::task::spawn_blocking(taking).await.map_err(std::io::Error::other).flatten();
    taken.map(Some).map_err(|error: std::io::Error| {
        let why = env::describe_io_error(&error);
        let message = format!("the configuration cannot be changed: {shown_path} cannot be locked: {why}");
        // An error of ours says what to do.
        if error.kind() == std::io::ErrorKind::PermissionDenied && error.get_ref().is_some() {
            return Failure::usage(message);
        }
        Failure::usage_hint(message, "make sure that you can write to that file and to its folder")
    })
}

/// Changes entries. If one of them does not exist, nothing is changed.
async fn change(
    names: &[String],
    settings: &Settings,
    done: &str,
    act: impl Fn(&mut ConfigEditor, &str) -> bool,
) -> Outcome {
    let _turn = take_turn(settings).await?;
    let mut editor = ConfigEditor::open(own_file(settings)?)?;
    let path = editor.path().display().to_string();
    let before = problems(&editor, settings);
    let stored_before = find_secrets(&editor, settings);
    let mut seen = HashSet::new();
    let names: Vec<_> = names.iter().filter(|name| seen.insert(*name)).collect();
    for name in &names {
        if !act(&mut editor, name) {
            if editor.has_server(name) {
                let message = format!("the entry `{name}` in {path} is not a table; nothing was changed");
                return Err(Failure::usage_hint(message, "fix it with `bowline edit`"));
            }
            return Err(unknown_entry(name, &path, settings));
        }
    }
    editor.save()?;
    // A view may name a server that is no longer there.
    for problem in problems(&editor, settings).iter().filter(|problem| !before.contains(problem)) {
        settings.printer.note(&format!("now there is a problem: {problem}"));
    }
    if settings.printer.is_json() {
        settings.printer.write_json(&json!({ "path": path, done: names }).to_string())?;
    }
    let listed: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let from = if done == "removed" { "from" } else { "in" };
    settings.printer.note(&format!("{done} {} {from} {path}", listed.join(", ")));
    remove_unused_secrets(&stored_before, &editor, settings);
    Ok(Exit::Ok)
}

/// What is wrong with the file, apart from where.
fn problems(editor: &ConfigEditor, settings: &Settings) -> Vec<String> {
    let (_, errors) = parse_partial(&Source::new(editor.path(), editor.text()), &*settings.env);
    let problems = errors.map(|errors| errors.problems().to_vec()).unwrap_or_default();
    problems.iter().map(|problem| format!("{}: {}", problem.key, problem.message)).collect()
}

fn unknown_entry(name: &str, path: &str, settings: &Settings) -> Failure {
    let message = format!("there is no server named `{name}` in {path}; nothing was changed");
    let Ok(layers) = settings.layers() else { return Failure::usage(message) };
    let others = layers.iter().filter(|layer| layer.path.display().to_string() != path);
    if let Some(other) = others.into_iter().find(|layer| layer.config.servers.contains_key(name)) {
        let file = other.path.display();
        return Failure::usage_hint(message, format!("it is in {file}: name that file with --config"));
    }
    match closest_name(name, layers.server_names()) {
        Some(near) => Failure::usage_hint(message, format!("did you mean `{near}`?")),
        None => Failure::usage_hint(message, "`bowline list` shows those that there are"),
    }
}

/// Lists the configured servers without connecting to them.
pub(super) fn list(settings: &Settings) -> Outcome {
    let printer = &settings.printer;
    let selection = settings.select_servers(&[])?;
    let known = ListCache::open(settings).count_tools(selection.servers);
    let rows = known
        .iter()
        .map(|(server, tools)| (server.name.clone(), state(server), describe_target(server), *tools));
    let skipped = selection.skipped.iter().map(|skipped| {
        (skipped.name.clone(), skipped.reason.as_str(), skipped.detail.clone().unwrap_or_default(), None)
    });
    let mut rows: Vec<_> = rows.chain(skipped).collect();
    rows.sort();
    if printer.is_json() {
        let servers: Vec<_> = rows
            .iter()
            .map(|(name, state, target, tools)| json!({ "name": name, "state": state, "target": target, "tools": tools }))
            .collect();
        printer.write_json(&json!({ "servers": servers }).to_string())?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(["NAME", "STATE", "TOOLS", "TARGET"]);
    for (name, state, target, tools) in rows {
        let tools = tools.map(|tools| tools.to_string()).unwrap_or_default();
        table.push_row([name, state.to_owned(), tools, target]);
    }
    printer.write_layout(&table.render(printer))?;
    Ok(Exit::Ok)
}

fn state(server: &Server) -> &'static str {
    if server.enabled { "enabled" } else { "disabled" }
}

/// The command without its arguments, or the URL without what may be a key.
pub(super) fn describe_target(server: &Server) -> String {
    let program = server.transport.program().map(|program| program.command.clone());
    let url = || server.transport.http().map(|http| describe_url(&http.url));
    program.or_else(url).unwrap_or_default()
}

/// Opens the configuration file in an editor, and checks it afterwards. Its folder is created, since editors do not
/// save a file whose folder does not exist.
pub(super) async fn edit(settings: &Settings) -> Outcome {
    let path = own_file(settings)?;
    let Some(editor) = Editor::from_environment(&*settings.env)? else {
        return Err(Failure::usage_hint(
            "no editor is known",
            format!("set EDITOR, or open {} yourself", path.display()),
        ));
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    if let Some(Err(error)) = folder.map(private::create_folder) {
        return Err(Failure::file(path, &env::describe_io_error(&error)));
    }
    editor.open(path).await?;
    let text = match env::read_small_file(path) {
        Ok(text) => text,
        Err(_) if !path.exists() => return Ok(Exit::Ok),
        Err(why) => return Err(Failure::file(path, &why)),
    };
    let (_, errors) = parse_partial(&Source::new(path, text), &*settings.env);
    match errors {
        None => Ok(Exit::Ok),
        Some(errors) => {
            Err(Failure::config(format!("{} has problems", path.display()), errors.problems().to_vec()))
        }
    }
}
