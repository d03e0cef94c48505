//! [`FileChange`]: which file of a host is changed, from what to what.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use bowline_hosts::{Host, HostFile, Scope, host_files};
use bowline_settings::{ReplaceError, read_text_file, replace_user_file};
use bowline_store::private::DRAFT_EXTENSION;
use serde_json::{Value, json};

use super::MAX_FILE_MEBIBYTES;
use crate::args::HostFileArgs;
use crate::dialog::{ConfirmQuestion, Dialogs};
use crate::env;
use crate::failure::{Fact, Failure, Outcome};
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

/// Why a change was not written.
pub(super) struct WriteError {
    pub(super) failure: Failure,
    /// Whether the file has the new text all the same, since only a step after that failed.
    pub(super) is_written: bool,
}

/// What became of files that had been changed when the change of another one failed.
#[derive(Default)]
pub(super) struct Rollback<'a> {
    /// Changes that were undone.
    pub(super) undone: Vec<&'a FileChange>,
    /// Changes that could not be undone, each with the copy of the file from before `bowline install`.
    pub(super) remaining: Vec<(&'a FileChange, Option<PathBuf>)>,
}

impl FileChange {
    /// Creates a change that changes nothing yet.
    pub(super) fn new(host: Host, path: PathBuf, before: Option<String>) -> Self {
        Self { host, path, after: before.clone(), before, own_texts: Vec::new() }
    }

    /// Writes the file in one step, if it is still what was shown.
    pub(super) fn write(&self) -> Result<(), WriteError> {
        replace_text(&self.path, self.before.as_deref(), self.after.as_deref()).map_err(|error| {
            let is_written = matches!(error, ReplaceError::Io(_)) && self.holds(self.after.as_deref());
            WriteError { failure: self.describe_error(error), is_written }
        })
    }

    /// Gives a written file its earlier text back, if it is still what was written. Returns whether it has
    /// that text.
    pub(super) fn undo(&self) -> bool {
        let undone = replace_text(&self.path, self.after.as_deref(), self.before.as_deref());
        undone.is_ok() || self.holds(self.before.as_deref())
    }

    /// Fails if the file is not what was shown, or is known not to be writable.
    fn check_writable(&self) -> Outcome<()> {
        if !self.holds(self.before.as_deref()) {
            return Err(self.describe_error(ReplaceError::Changed));
        }
        let target = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        if target.metadata().is_ok_and(|about| about.permissions().readonly()) {
            return Err(self.describe_error(ReplaceError::ReadOnly));
        }
        probe_folder(&target).map_err(|error| self.describe_error(ReplaceError::Io(error)))
    }

    /// Whether the file has this text now, where `None` means that there is no file.
    fn holds(&self, text: Option<&str>) -> bool {
        match std::fs::read(&self.path) {
            Ok(now) => text.is_some_and(|text| text.as_bytes() == now),
            Err(error) => text.is_none() && error.kind() == io::ErrorKind::NotFound,
        }
    }

    fn describe_error(&self, error: ReplaceError) -> Failure {
        let path = self.path.display();
        match error {
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
        }
    }
}

impl Rollback<'_> {
    /// Adds to the failure of one change what became of the others.
    pub(super) fn add_to(&self, failure: Failure) -> Failure {
        let mut report = match failure {
            Failure::Report(report) => report,
            other => return other,
        };
        if !self.undone.is_empty() {
            let lines = self.undone.iter().map(|change| format!("{} is as it was", change.path.display()));
            report.facts.push(Fact { label: "undone", lines: lines.collect() });
            let paths: Vec<_> = self.undone.iter().map(|change| change.path.to_string_lossy()).collect();
            report.members.insert("undone".into(), json!(paths));
        }
        if !self.remaining.is_empty() {
            let line = |(change, backup): &(&FileChange, Option<PathBuf>)| {
                let path = change.path.display();
                match backup {
                    Some(backup) => {
                        format!("{path}; {} has it as it was before `bowline install`", backup.display())
                    }
                    None => path.to_string(),
                }
            };
            let lines = self.remaining.iter().map(line).collect();
            report.facts.push(Fact { label: "still changed", lines });
            let member = |(change, backup): &(&FileChange, Option<PathBuf>)| -> Value {
                let backup = backup.as_ref().map(|path| path.to_string_lossy());
                json!({ "path": change.path.to_string_lossy(), "backup": backup })
            };
            let members: Vec<Value> = self.remaining.iter().map(member).collect();
            report.members.insert("still_changed".into(), members.into());
        }
        Failure::Report(report)
    }
}

/// Fails if one of several files is known not to be writable. A single file is written or not.
pub(super) fn check_all_writable(changes: &[&FileChange]) -> Outcome<()> {
    if changes.len() < 2 {
        return Ok(());
    }
    changes.iter().try_for_each(|change| change.check_writable())
}

fn replace_text(path: &Path, before: Option<&str>, after: Option<&str>) -> Result<(), ReplaceError> {
    replace_user_file(path, before.map(str::as_bytes), after.map(str::as_bytes))
}

/// Fails if no file can be created beside this one, or in the folder in which its folder would be created.
fn probe_folder(target: &Path) -> io::Result<()> {
    let folder = target.ancestors().skip(1).find(|folder| folder.is_dir());
    let (Some(folder), Some(name)) = (folder, target.file_name()) else { return Ok(()) };
    // Named as a draft, so that one which is left behind is removed.
    let draft = folder.join(name).with_extension(format!("{:016x}.{DRAFT_EXTENSION}", std::process::id()));
    match OpenOptions::new().write(true).create_new(true).open(&draft) {
        Ok(_) => std::fs::remove_file(&draft),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
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
        Ok(about) if about.is_symlink() && path.metadata().is_err_and(|error| leads_back(&error)) => {
            return Err(Failure::usage_hint(
                format!("{} is a link that leads back to itself", path.display()),
                "remove the link, or let it lead to the file",
            ));
        }
        Err(error) if leads_back(&error) => {
            return Err(Failure::usage_hint(
                format!("a folder of {} is a link that leads back to itself", path.display()),
                "remove the link, or let it lead to the folder",
            ));
        }
        Ok(about) if about.is_symlink() && !path.exists() => {
            return Err(Failure::usage_hint(
                format!("{} is a link to a file that does not exist", path.display()),
                "create that file, or remove the link",
            ));
        }
        _ => {}
    }
    read_text_file(path, MAX_FILE_MEBIBYTES).map(Some).map_err(|error| {
        let message = format!("cannot use {}: {error}", path.display());
        match error.suggest_fix() {
            Some(fix) => Failure::usage_hint(message, fix),
            None => Failure::usage(message),
        }
    })
}

/// Whether the system has given up to follow links.
#[cfg(unix)]
fn leads_back(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

#[cfg(not(unix))]
fn leads_back(_error: &io::Error) -> bool {
    false
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_undone_only_while_the_file_is_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "a").unwrap();
        let mut change = FileChange::new(Host::Cursor, path.clone(), Some("a".to_owned()));
        change.after = Some("b".to_owned());
        assert!(change.write().is_ok() && change.holds(Some("b")));
        assert!(change.undo() && change.holds(Some("a")));
        assert!(change.write().is_ok());
        std::fs::write(&path, "c").unwrap();
        assert!(!change.undo() && change.holds(Some("c")));
        let remaining = vec![(&change, Some(PathBuf::from("/copy")))];
        let rollback = Rollback { undone: Vec::new(), remaining };
        let Failure::Report(report) = rollback.add_to(Failure::usage("m")) else { panic!("no report") };
        assert_eq!((report.facts.len(), report.facts[0].label), (1, "still changed"));
        let line = format!("{}; /copy has it as it was before `bowline install`", path.display());
        assert_eq!(report.facts[0].lines, [line]);
    }
}
