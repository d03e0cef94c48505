//! Removes the files of secrets that a configuration no longer refers to.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use bowline_hosts::StoredSecret;
use bowline_settings::{ConfigEditor, TextFileError, home_folder, read_text_file};

use super::secret_files::{FOLDER, is_own};
use crate::env;
use crate::settings::Settings;

/// The files in the folder of secrets that a configuration refers to, which need not exist, and of each whether an
/// import could have given it its name.
pub(in crate::commands) type ReferencedSecrets = BTreeMap<PathBuf, bool>;

/// Finds the files in the folder of secrets that a configuration refers to.
pub(in crate::commands) fn find_secrets(editor: &ConfigEditor, settings: &Settings) -> ReferencedSecrets {
    let folder = folder_of(editor.path());
    let secrets = folder.join(FOLDER);
    let home = home_folder(&*settings.env);
    let resolve = |path: String| match (path.strip_prefix("~/").or(path.strip_prefix("~\\")), &home) {
        (Some(below), Some(home)) => home.join(below),
        _ => folder.join(path),
    };
    let files = editor.file_references().into_iter().map(resolve);
    let files = files.filter(|file| file.parent() == Some(secrets.as_path()));
    files
        .map(|file| (has_name_of_secret(&file, editor), file))
        .map(|(is_named, file)| (file, is_named))
        .collect()
}

/// Whether an import could have given a file its name, `SERVER.LABEL`. What somebody put there by hand is theirs, and may
/// be nowhere else.
fn has_name_of_secret(file: &Path, editor: &ConfigEditor) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut dots = name.match_indices('.').map(|(at, _)| at);
    dots.any(|at| editor.has_server(&name[..at]) && StoredSecret::is_label(&name[at + 1..]))
}

/// Removes the files that the configuration referred to before it was changed and saved, and does not any more. Says
/// what became of each.
pub(in crate::commands) fn remove_unused_secrets(
    before: &ReferencedSecrets,
    editor: &ConfigEditor,
    settings: &Settings,
) {
    let after = find_secrets(editor, settings);
    let unused = before.iter().filter(|(file, _)| !after.contains_key(*file));
    for (file, is_named) in unused.filter(|(file, _)| file.symlink_metadata().is_ok()) {
        let path = file.display();
        let note = match remove_secret(file, *is_named, editor, settings) {
            Ok(()) => format!("removed the secret file {path}, which nothing refers to any more"),
            Err(why) => format!("the secret file {path} stays: {why}"),
        };
        settings.printer.note(&note);
    }
}

/// Removes a file that is ours. The error says why it stays.
fn remove_secret(
    file: &Path,
    is_named: bool,
    editor: &ConfigEditor,
    settings: &Settings,
) -> Result<(), String> {
    let about = file.symlink_metadata().map_err(|error| env::describe_io_error(&error))?;
    let is_link = file.parent().is_some_and(Path::is_symlink);
    if is_link || !about.is_file() || !is_own(&about) || !is_named {
        return Err(
            "it is not a file that bowline has written; remove it yourself if nothing needs it".to_owned()
        );
    }
    if let Some(why) = find_other_user(file, editor, settings) {
        return Err(why);
    }
    std::fs::remove_file(file).map_err(|error| {
        format!("it cannot be removed: {}; remove it yourself", env::describe_io_error(&error))
    })
}

/// Finds what else refers to a file, or might: this configuration in another spelling, one beside it, one that is
/// used together with it, or one of a project that is trusted. Returns it as a sentence.
fn find_other_user(file: &Path, editor: &ConfigEditor, settings: &Settings) -> Option<String> {
    let (config, name) = (editor.path(), file.file_name()?.to_str()?);
    if refers_to(&editor.text(), name) {
        return Some(format!("{} still names it", config.display()));
    }
    let folder = Some(folder_of(config)).filter(|folder| !folder.as_os_str().is_empty());
    let beside = std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let beside = beside
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml" || extension == "json"));
    let used = settings.files.paths().into_iter().map(|(path, _)| path.to_owned());
    let trusted = match settings.trust_records().map(|records| records.list()).transpose() {
        Ok(rows) => rows.unwrap_or_default(),
        Err(error) => {
            let why = env::describe_io_error(&error);
            return Some(format!(
                "projects that you trust may refer to it, and which they are is not known: {why}"
            ));
        }
    };
    let trusted = trusted.into_iter().map(|row| row.path);
    let own = config.canonicalize().ok();
    let mut others = beside.chain(used).chain(trusted).filter(|path| path.canonicalize().ok() != own);
    others.find_map(|path| match read_text_file(&path, MAX_FILE_MEBIBYTES) {
        Ok(text) if refers_to(&text, name) => Some(format!("{} refers to it", path.display())),
        Ok(_) => None,
        Err(TextFileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => None,
        Err(why) => Some(format!("{}, which may refer to it, cannot be read: {why}", path.display())),
    })
}

/// Whether a text names a file of this name in any folder, in a placeholder or as a path.
pub(super) fn refers_to(text: &str, name: &str) -> bool {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    text.match_indices(name)
        .any(|(at, _)| text[..at].ends_with(['/', '\\']) && !text[at + name.len()..].starts_with(is_inside))
}

fn folder_of(config: &Path) -> &Path {
    config.parent().unwrap_or(Path::new(""))
}

/// Largest configuration that is searched, in MiB.
pub(super) const MAX_FILE_MEBIBYTES: u64 = 1;
