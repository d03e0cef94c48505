//! Removes the files of secrets that a configuration no longer refers to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bowline_hosts::StoredSecret;
use bowline_settings::{ConfigEditor, home_folder, read_text_file};

use super::secret_files::{FOLDER, is_own};
use crate::env;
use crate::settings::Settings;

/// Finds the files in the folder of secrets that a configuration refers to. They need not exist.
pub(in crate::commands) fn find_secrets(editor: &ConfigEditor, settings: &Settings) -> BTreeSet<PathBuf> {
    let folder = folder_of(editor.path());
    let secrets = folder.join(FOLDER);
    let home = home_folder(&*settings.env);
    let resolve = |path: String| match (path.strip_prefix("~/").or(path.strip_prefix("~\\")), &home) {
        (Some(below), Some(home)) => home.join(below),
        _ => folder.join(path),
    };
    let files = editor.file_references().into_iter().map(resolve);
    files.filter(|file| file.parent() == Some(secrets.as_path())).collect()
}

/// Removes the files that the configuration referred to before it was changed and saved, and does not any more. Says
/// what became of each.
pub(in crate::commands) fn remove_unused_secrets(
    before: &BTreeSet<PathBuf>,
    editor: &ConfigEditor,
    settings: &Settings,
) {
    let after = find_secrets(editor, settings);
    for file in before.difference(&after).filter(|file| file.symlink_metadata().is_ok()) {
        let path = file.display();
        let note = match remove_secret(file, editor.path(), settings) {
            Ok(()) => format!("removed the secret file {path}, which nothing refers to any more"),
            Err(why) => format!("the secret file {path} stays: {why}"),
        };
        settings.printer.note(&note);
    }
}

/// Removes a file that is ours. The error says why it stays.
fn remove_secret(file: &Path, config: &Path, settings: &Settings) -> Result<(), String> {
    let about = file.symlink_metadata().map_err(|error| env::describe_io_error(&error))?;
    let is_link = file.parent().is_some_and(Path::is_symlink);
    if is_link || !about.is_file() || !is_own(&about) || !has_name_of_secret(file) {
        return Err(
            "it is not a file that bowline has written; remove it yourself if nothing needs it".to_owned()
        );
    }
    if let Some(other) = find_other_user(file, config, settings) {
        return Err(format!("{} refers to it", other.display()));
    }
    std::fs::remove_file(file).map_err(|error| {
        format!("it cannot be removed: {}; remove it yourself", env::describe_io_error(&error))
    })
}

/// Whether an import could have given a file its name, `SERVER.LABEL`. What somebody put there by hand is theirs.
fn has_name_of_secret(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.match_indices('.').any(|(at, dot)| StoredSecret::is_label(&name[at + dot.len()..]))
}

/// Finds another configuration that refers to a file: one beside this one, or one that is used together with it.
fn find_other_user(file: &Path, config: &Path, settings: &Settings) -> Option<PathBuf> {
    let name = file.file_name()?.to_str()?;
    let folder = Some(folder_of(config)).filter(|folder| !folder.as_os_str().is_empty());
    let beside = std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let beside = beside
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml" || extension == "json"));
    let used = settings.files.paths().into_iter().map(|(path, _)| path.to_owned());
    let own = config.canonicalize().ok();
    let mut others = beside.chain(used).filter(|path| path.canonicalize().ok() != own);
    others.find(|path| read_text_file(path, MAX_FILE_MEBIBYTES).is_ok_and(|text| refers_to(&text, name)))
}

/// Whether a text has a placeholder for a file of this name, in any folder.
fn refers_to(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let is_end = text[at + name.len()..].trim_start().starts_with('}');
        is_end && text[..at].ends_with(['/', '\\'])
    })
}

fn folder_of(config: &Path) -> &Path {
    config.parent().unwrap_or(Path::new(""))
}

/// Largest configuration that is searched, in MiB.
const MAX_FILE_MEBIBYTES: u64 = 1;
