//! Implements `bowline trust` and `bowline untrust`.

use std::path::{Path, PathBuf};

use bowline::config::Source;
use bowline_config::{EndpointOutline, Outline, ProgramOutline, SettingOutline, outline};
use serde_json::{Value, json};

use crate::args::{TrustArgs, UntrustArgs};
use crate::dialog::{ConfirmQuestion, Dialogs};
use crate::env;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::print::table::Table;
use crate::print::{Printer, STRONG, escape};
use crate::settings::Settings;
use crate::suggested_command::shell_quote;
use bowline_settings::{
    PROJECT_FILES, ProjectFile, TrustRecords, TrustState, find_project_files, resolve_location,
};

pub(super) async fn run(args: TrustArgs, settings: &Settings) -> Outcome {
    let TrustArgs { path, yes, list } = args;
    let records = open_records(settings)?;
    if list {
        return list_trusted(&records, settings);
    }
    for path in files_to_trust(path)? {
        trust_file(&path, yes, &records, settings).await?;
    }
    Ok(Exit::Ok)
}

/// Shows what a project's file would do, and records that it is trusted if the user agrees.
async fn trust_file(path: &Path, yes: bool, records: &TrustRecords, settings: &Settings) -> Outcome<()> {
    let printer = &settings.printer;
    let file = ProjectFile::read(path).map_err(|why| Failure::file(path, &why))?;
    file.check(env::home_folder(&*settings.env).as_deref()).map_err(|found| {
        let message = format!("{} cannot be trusted: {}", path.display(), found.problem);
        Failure::usage_hint(message, found.fix)
    })?;
    let outline = outline(&Source::new(path, &*file.text));
    if let Some(problem) = outline.problem {
        let message = format!("{} cannot be trusted, as it cannot be read", path.display());
        return Err(Failure::config(message, vec![problem]));
    }
    let replaced = find_replaced_servers(&outline, settings).map_err(|unread| {
        printer.note(&format!(
            "{unread} cannot be read, so that it is not known which servers of yours this file would take the place of"
        ));
    });
    let replaced = replaced.ok();
    let standing = records.state_of(&file);
    if !printer.is_json() {
        printer.write_layout(&describe_outline(
            &file.location,
            (&outline, replaced.as_deref().unwrap_or_default()),
            standing,
            printer,
        ))?;
    }
    if standing != TrustState::Trusted {
        if !yes && !ask_trust(&file.location, standing, settings).await? {
            return Err(Failure::usage(format!("{} is not trusted", file.location.display())));
        }
        records
            .save(&file)
            .map_err(|error| Failure::usage(format!("cannot record that you trust the file: {error}")))?;
    }
    if printer.is_json() {
        printer.write_json(&outline_json(&file.location, &outline, replaced.as_deref()).to_string())?;
        return Ok(());
    }
    let already = if standing == TrustState::Trusted { "already " } else { "" };
    printer.note(&format!("{} is {already}trusted, until it changes", file.location.display()));
    Ok(())
}

pub(super) fn run_untrust(args: UntrustArgs, settings: &Settings) -> Outcome {
    let UntrustArgs { path } = args;
    let records = open_records(settings)?;
    let paths = match path {
        Some(path) if is_project_file(&path) => vec![path],
        Some(folder) => PROJECT_FILES.map(|name| folder.join(name)).to_vec(),
        None => find_nearest_files()?,
    };
    let failed = |error: std::io::Error| Failure::usage(format!("the trust cannot be removed: {error}"));
    let mut places = Vec::new();
    for path in paths {
        // The file, and even its folder, may be gone.
        let place = resolve_location(&path).or_else(|_| std::path::absolute(&path));
        let place = place.map_err(|error| Failure::file(&path, &env::describe_io_error(&error)))?;
        let was_trusted = records.remove(&place).map_err(failed)?;
        places.push((place, was_trusted));
    }
    // Of a folder's files, those that were not trusted are not worth a word beside one that was.
    if places.iter().any(|(_, was_trusted)| *was_trusted) {
        places.retain(|(_, was_trusted)| *was_trusted);
    }
    for (place, was_trusted) in places {
        if settings.printer.is_json() {
            let untrusted = json!({ "path": place.to_string_lossy(), "trusted": false });
            settings.printer.write_json(&untrusted.to_string())?;
        }
        let said = if was_trusted { "is no longer trusted" } else { "was not trusted" };
        settings.printer.note(&format!("{} {said}", place.display()));
    }
    Ok(Exit::Ok)
}

fn list_trusted(records: &TrustRecords, settings: &Settings) -> Outcome {
    let printer = &settings.printer;
    let all =
        records.list().map_err(|error| Failure::usage(format!("cannot list the trusted files: {error}")))?;
    if printer.is_json() {
        // A path that is not UTF-8 is shown lossily.
        let all = all.iter().map(|it| json!({ "path": it.path.to_string_lossy(), "state": it.state }));
        printer.write_json(&json!({ "trusted": all.collect::<Vec<_>>() }).to_string())?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(["STATE", "FILE"]);
    for listed in &all {
        table.push_row([listed.state.to_owned(), listed.path.display().to_string()]);
    }
    if table.is_empty() {
        printer.note("no project is trusted; `bowline trust` in its folder asks you about one");
        return Ok(Exit::Ok);
    }
    printer.write_layout(&table.render(printer))?;
    Ok(Exit::Ok)
}

async fn ask_trust(place: &Path, standing: TrustState, settings: &Settings) -> Outcome<bool> {
    let place = place.display();
    let text = match standing {
        TrustState::Changed => format!("{place} has changed since you trusted it. Trust it as it is now?"),
        _ => format!("Trust {place}?"),
    };
    let question = ConfirmQuestion {
        text: &text,
        yes: "Yes, until it changes",
        no: "No",
        unasked_message: format!("{place} is not trusted"),
        unasked_hint: "read the file, then use --yes",
    };
    Dialogs::open(&settings.printer, &*settings.env).confirm(question).await
}

fn open_records(settings: &Settings) -> Outcome<TrustRecords> {
    settings.trust_records().ok_or_else(|| Failure::usage("there is no private folder to record it in"))
}

/// Returns the project files at `path`: that file, those in that folder, or the nearest ones.
fn files_to_trust(path: Option<PathBuf>) -> Outcome<Vec<PathBuf>> {
    let Some(path) = path else { return find_nearest_files() };
    if path.is_dir() {
        let mut files = PROJECT_FILES.map(|name| path.join(name)).to_vec();
        files.retain(|file| file.exists());
        if files.is_empty() {
            let message = format!("there is no {} in {}", PROJECT_FILES.join(" or "), path.display());
            return Err(Failure::usage_hint(message, "name the file, or its folder"));
        }
        return Ok(files);
    }
    if is_project_file(&path) {
        return Ok(vec![path]);
    }
    Err(Failure::usage_hint(
        format!("{} is not a project's {}", path.display(), PROJECT_FILES.join(" or ")),
        "a file of another name is used only by those who name it with --config",
    ))
}

fn find_nearest_files() -> Outcome<Vec<PathBuf>> {
    let files = find_project_files()?;
    if files.is_empty() {
        return Err(Failure::usage_hint(
            format!("there is no {} here or in a folder above", PROJECT_FILES.join(" or ")),
            "name the file, or its folder",
        ));
    }
    Ok(files)
}

fn is_project_file(path: &Path) -> bool {
    PROJECT_FILES.iter().any(|name| path.ends_with(name))
}

/// Returns the servers of the user's own file that the project's file would replace. If the user's
/// file cannot be read, the error is its path.
fn find_replaced_servers(project: &Outline, settings: &Settings) -> Result<Vec<String>, String> {
    let Some(path) = env::user_config_path(&*settings.env).filter(|path| path.exists()) else {
        return Ok(Vec::new());
    };
    let unread = || path.display().to_string();
    let text = env::read_small_file(&path).map_err(|_| unread())?;
    let own = outline(&Source::new(&*path, text));
    if own.problem.is_some() {
        return Err(unread());
    }
    let names = project.servers.iter().map(|server| server.name.clone());
    Ok(names.filter(|name| own.server(name).is_some()).collect())
}

/// Describes what the file would do. Nothing is truncated, since any part of it could matter.
fn describe_outline(
    place: &Path,
    (outline, replaced): (&Outline, &[String]),
    standing: TrustState,
    printer: &Printer,
) -> String {
    let Outline { servers: _, programs, endpoints, variables, files, folders, settings, problem: _ } =
        outline;
    let sections: [(&str, Vec<String>); 7] = [
        ("replace these servers of yours", replaced.to_vec()),
        ("start", programs.iter().flat_map(program_lines).collect()),
        ("reach", endpoints.iter().flat_map(endpoint_lines).collect()),
        ("read these variables", variables.iter().cloned().collect()),
        ("read these files", files.iter().cloned().collect()),
        ("offer these folders to servers", folders.clone()),
        ("set what servers may do and what leaves this machine", settings.iter().map(setting_line).collect()),
    ];
    let does_nothing = sections.iter().all(|(_, lines)| lines.is_empty());
    let place = place.display().to_string();
    let changed = if standing == TrustState::Changed { " has changed since you trusted it. It" } else { "" };
    let what = if does_nothing { " do nothing" } else { ", with your rights:" };
    let mut out = format!("{}{changed} would{what}\n", escape::line(&place));
    for (title, lines) in sections.into_iter().filter(|(_, lines)| !lines.is_empty()) {
        out.push_str(&printer.paint(STRONG, title));
        out.push('\n');
        for line in lines {
            out.push_str("  ");
            out.push_str(&escape::line(&line));
            out.push('\n');
        }
    }
    out
}

fn program_lines(program: &ProgramOutline) -> Vec<String> {
    let ProgramOutline { key, words, env, cwd } = program;
    let command: Vec<String> = words.iter().map(|word| shell_quote(word)).collect();
    let mut lines = vec![format!("{}  ({key})", command.join(" "))];
    lines.extend(cwd.iter().map(|cwd| format!("    in {cwd}")));
    lines.extend(env.iter().map(|(name, value)| format!("    with {name}={}", shell_quote(value))));
    lines
}

fn endpoint_lines(endpoint: &EndpointOutline) -> Vec<String> {
    let EndpointOutline { key, url, headers } = endpoint;
    let mut lines = vec![format!("{url}  ({key})")];
    if !headers.is_empty() {
        lines.push(format!("    with the headers {}", headers.join(", ")));
    }
    lines
}

fn setting_line(setting: &SettingOutline) -> String {
    let SettingOutline { key, value } = setting;
    // The last part of the key tells the meaning, whatever table it is in.
    let means = match key.rsplit('.').next().unwrap_or_default() {
        "sampling" | "policy" if value == "allow" => "  (servers use your model, and nobody asks you)",
        "allow_http" if value == "true" => "  (credentials go over connections that others can read)",
        "ca_file" => "  (whose certificates are believed)",
        _ => "",
    };
    format!("{key} = {}{means}", shell_quote(value))
}

/// Describes what the file would do as JSON. `replaced` is `None` if it is not known.
fn outline_json(place: &Path, outline: &Outline, replaced: Option<&[String]>) -> Value {
    let programs = outline.programs.iter().map(|it| {
        let env: serde_json::Map<String, Value> =
            it.env.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        json!({ "key": it.key, "command": it.words, "env": env, "cwd": it.cwd })
    });
    let endpoints =
        outline.endpoints.iter().map(|it| json!({ "key": it.key, "url": it.url, "headers": it.headers }));
    json!({
        "path": place.to_string_lossy(),
        "trusted": true,
        "replaces": replaced,
        "starts": programs.collect::<Vec<_>>(),
        "reaches": endpoints.collect::<Vec<_>>(),
        "variables": outline.variables,
        "files": outline.files,
        "folders": outline.folders,
        "settings": outline.settings.iter().map(|it| json!({ "key": it.key, "value": it.value })).collect::<Vec<_>>(),
    })
}
