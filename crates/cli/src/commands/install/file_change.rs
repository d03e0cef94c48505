//! [`FileChange`]: which file of a host is changed, from what to what.

use std::io;
use std::path::{Path, PathBuf};

use bowline_hosts::{Host, HostFile, Scope, host_files};
use bowline_settings::{ReplaceError, read_text_file, replace_user_file};

use super::MAX_FILE_MEBIBYTES;
use crate::args::HostFileArgs;
use crate::dialog::{ConfirmQuestion, Dialogs};
use crate::env;
use crate::failure::{Failure, Outcome};
use crate::settings::Settings;

/// The change of one file of a host.
#[derive(Debug)]
pub(super) struct FileChange {
    pub(super) host: Host,
    pub(super) path: PathBuf,
    /// The text that was read; `None` if there was no file.
    pub(super) before: Option<String>,
    /// The text to write; `None` if the file is deleted.
    pub(super) after: Option<String>,
    /// Texts of entries of bowline, which are shown in full.
    pub(super) own_texts: Vec<String>,
}

impl FileChange {
    /// Creates a change that changes nothing yet.
    pub(super) fn new(host: Host, path: PathBuf, before: Option<String>) -> Self {
        Self { host, path, after: before.clone(), before, own_texts: Vec::new() }
    }

    /// Writes the file in one step, if it is still what was shown.
    pub(super) fn write(&self) -> Outcome<()> {
        let bytes = |text: &'_ Option<String>| text.as_deref().map(|text| text.as_bytes().to_vec());
        let (before, after) = (bytes(&self.before), bytes(&self.after));
        let path = self.path.display();
        replace_user_file(&self.path, before.as_deref(), after.as_deref()).map_err(|error| match error {
            ReplaceError::Changed => Failure::usage_hint(
                format!("{path} has changed since the preview, so nothing was written to it"),
                "run the command again to see the change as it would be now",
            ),
            ReplaceError::ReadOnly => Failure::usage_hint(
                format!("{path} is read-only, so nothing was written to it"),
                "allow yourself to write to the file, or let whatever manages it add the entry",
            ),
            ReplaceError::Io(error) => {
                let why = env::describe_io_error(&error);
                Failure::usage(format!("{path} cannot be written: {why}"))
            }
            _ => Failure::usage(format!("{path} cannot be written")),
        })
    }
}

/// Chooses the file of a host: the one that was named, or the first for which `is_wanted` is true, or
/// the first whose folder exists, or the first.
pub(super) fn choose_file(
    host: Host,
    args: &HostFileArgs,
    settings: &Settings,
    is_wanted: impl Fn(&Path) -> bool,
) -> Outcome<PathBuf> {
    if let Some(path) = &args.path {
        return std::path::absolute(path)
            .map_err(|error| Failure::file(path, &env::describe_io_error(&error)));
    }
    let scope = Scope::from(args.scope);
    let folder = std::env::current_dir().ok().filter(|_| scope == Scope::Project);
    let files = host_files(&*settings.env, folder.as_deref());
    let is_candidate = |file: &&HostFile| file.host == host && file.scope == scope;
    let paths: Vec<&PathBuf> = files.iter().filter(is_candidate).map(|file| &file.path).collect();
    let has_folder = |path: &&&PathBuf| path.parent().is_some_and(Path::exists);
    let wanted = paths.iter().find(|path| is_wanted(path));
    let chosen = wanted.or_else(|| paths.iter().find(has_folder)).or(paths.first());
    chosen.map(|path| (*path).clone()).ok_or_else(|| {
        let kind = if scope == Scope::Project { "a project" } else { "a user" };
        let message = format!("{} has no file for {kind} that is known", host.name());
        Failure::usage_hint(message, "name the file with --file")
    })
}

/// Reads a file of a host, which need not exist.
pub(super) fn read_host_file(path: &Path) -> Outcome<Option<String>> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(about) if about.is_symlink() && !path.exists() => {
            return Err(Failure::usage_hint(
                format!("{} is a link to a file that does not exist", path.display()),
                "create that file, or remove the link",
            ));
        }
        _ => {}
    }
    read_text_file(path, MAX_FILE_MEBIBYTES).map(Some).map_err(|why| Failure::file(path, &why))
}

/// Asks whether the changes that were shown are to be written, unless the user has said so.
pub(super) async fn confirm(
    changes: &[&FileChange],
    args: &HostFileArgs,
    settings: &Settings,
) -> Outcome<()> {
    if args.yes {
        return Ok(());
    }
    let paths: Vec<String> = changes.iter().map(|change| change.path.display().to_string()).collect();
    let text = format!("Change {}?", paths.join(" and "));
    let question = ConfirmQuestion {
        text: &text,
        yes: "Yes, as shown",
        no: "No",
        unasked_message: "nothing was changed".to_owned(),
        unasked_hint: "look at the change with --dry-run, then use --yes",
    };
    if Dialogs::open(&settings.printer, &*settings.env).confirm(question).await? {
        return Ok(());
    }
    Err(Failure::usage("nothing was changed"))
}
