//! Implements `bowline uninstall`: the file of a host as it was before, or without the entries of bowline.

use std::path::Path;

use bowline_hosts::{Host, HostDocument, starts_bowline};
use serde_json::{Value, json};

use super::file_change::{self, FileChange, choose_file, read_host_file};
use super::records::{InstallRecord, InstallRecords};
use super::{is_named, parse_document, preview, quote};
use crate::args::{HostFileArgs, UninstallArgs};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::settings::Settings;

/// What `bowline uninstall` would do to the file of one host.
struct UninstallPlan {
    change: FileChange,
    kind: UninstallKind,
    /// The entries of bowline that are removed.
    entries: Vec<String>,
    /// Entries of other servers that are put back.
    restored: Vec<String>,
    /// What a person should know before the answer.
    notes: Vec<String>,
}

/// How the file is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UninstallKind {
    /// Not at all: there is no entry of bowline.
    Nothing,
    /// It becomes what it was, byte for byte.
    Restored,
    /// It has changed since, so that entries are removed from it as it is.
    EntriesRemoved,
}

pub(in crate::commands) async fn run(args: UninstallArgs, settings: &Settings) -> Outcome {
    let records = InstallRecords::open(settings)?;
    let plans: Vec<UninstallPlan> = args
        .hosts
        .iter()
        .map(|host| make_plan(*host, &args.file, &records, settings))
        .collect::<Outcome<_>>()?;
    let printer = &settings.printer;
    let changes: Vec<&FileChange> =
        plans.iter().filter(|plan| plan.has_changes()).map(|plan| &plan.change).collect();
    if !printer.is_json() {
        for plan in &plans {
            if plan.has_changes() {
                printer.write_layout(&preview::render(&plan.change, printer))?;
            }
            for note in &plan.notes {
                printer.note(note);
            }
        }
    }
    if !args.file.dry_run {
        if !changes.is_empty() {
            file_change::confirm(&changes, &args.file, settings).await?;
        }
        let _turn = super::super::entries::take_turn(settings).await?;
        for plan in &plans {
            apply(plan, &args.file, &records, settings)?;
        }
    }
    if printer.is_json() {
        let hosts: Vec<Value> = plans.iter().map(|plan| plan.to_json(args.file.dry_run)).collect();
        printer.write_json(&json!({ "hosts": hosts }).to_string())?;
    }
    Ok(Exit::Ok)
}

fn make_plan(
    host: Host,
    args: &HostFileArgs,
    records: &InstallRecords,
    settings: &Settings,
) -> Outcome<UninstallPlan> {
    let path = choose_file(host, args, settings, |path| has_entries(host, path, records))?;
    let before = read_host_file(&path)?;
    let mut plan = UninstallPlan {
        change: FileChange::new(host, path, before),
        kind: UninstallKind::Nothing,
        entries: Vec::new(),
        restored: Vec::new(),
        notes: Vec::new(),
    };
    let shown = plan.change.path.display().to_string();
    let Some(text) = plan.change.before.clone() else {
        plan.notes.push(format!("bowline is not installed in {}: there is no {shown}", host.name()));
        return Ok(plan);
    };
    let recorded = records.load(&plan.change.path);
    if let Some((record, _)) = &recorded {
        plan.change.own_texts = record.entries.iter().map(|entry| entry.text.clone()).collect();
    }
    let document = parse_document(host, &plan.change.path, Some(&text))?;
    let is_whole = |record: &InstallRecord| record.entries.iter().all(|entry| is_named(args, &entry.name));
    let unchanged = recorded.as_ref().filter(|(record, _)| record.wrote(&text) && is_whole(record));
    let result = if let Some((record, backup)) = unchanged {
        plan.kind = UninstallKind::Restored;
        plan.entries = record.entries.iter().map(|entry| entry.name.clone()).collect();
        plan.restored.clone_from(&record.removed);
        let Some(backup) = backup else {
            plan.change.after = None;
            return Ok(plan);
        };
        // An older installation may have left its entry in what was kept.
        let mut restored = parse_document(host, &plan.change.path, Some(backup))?;
        for entry in &record.entries {
            if restored.entry(&entry.name).is_some_and(starts_bowline) {
                restored = plan.without(&restored, &entry.name, Some(record))?;
            }
        }
        restored
    } else {
        plan.remove_entries(document, recorded.as_ref(), args)?
    };
    let is_created = recorded.as_ref().is_some_and(|(record, _)| record.before.is_none());
    plan.change.after = Some(result.text().to_owned()).filter(|_| !(is_created && result.is_empty()));
    if plan.kind == UninstallKind::Nothing {
        plan.notes.push(format!("bowline is not installed in {}: {shown} has no entry of it", host.name()));
    }
    Ok(plan)
}

/// Whether a file has an entry of bowline, or had one from `bowline install`.
fn has_entries(host: Host, path: &Path, records: &InstallRecords) -> bool {
    let Ok(Some(text)) = read_host_file(path) else { return false };
    if records.load(path).is_some() {
        return true;
    }
    HostDocument::parse(host, &text)
        .is_ok_and(|document| document.entries().any(|(_, entry)| starts_bowline(entry)))
}

/// Writes the change of one host, and forgets what was recorded of it.
fn apply(
    plan: &UninstallPlan,
    args: &HostFileArgs,
    records: &InstallRecords,
    settings: &Settings,
) -> Outcome<()> {
    let (printer, path) = (&settings.printer, plan.change.path.display());
    if plan.has_changes() {
        plan.change.write()?;
    }
    // With one name, other entries may be left, and their record with them.
    if args.name.is_none() || plan.kind == UninstallKind::Restored {
        records.remove(&plan.change.path);
    }
    let restored = if plan.restored.is_empty() || plan.kind == UninstallKind::Restored {
        String::new()
    } else {
        format!(", and put back {}", quote(&plan.restored))
    };
    match (plan.kind, &plan.change.after) {
        (UninstallKind::Nothing, _) => {}
        (_, None) => printer.note(&format!("deleted {path}, which `bowline install` had created")),
        (UninstallKind::Restored, Some(_)) => {
            printer.note(&format!("{path} is as it was before `bowline install`"));
        }
        (UninstallKind::EntriesRemoved, Some(_)) => {
            printer.note(&format!("removed {} from {path}{restored}", quote(&plan.entries)));
        }
    }
    Ok(())
}

impl UninstallPlan {
    fn has_changes(&self) -> bool {
        self.change.before != self.change.after
    }

    /// Removes the entries of bowline from a file that is not what was written, and puts back those that
    /// were removed for them.
    fn remove_entries(
        &mut self,
        mut document: HostDocument,
        recorded: Option<&(InstallRecord, Option<String>)>,
        args: &HostFileArgs,
    ) -> Outcome<HostDocument> {
        let record = recorded.map(|(record, _)| record);
        // With a record, what a person has written by hand stays.
        let is_ours =
            |name: &str| record.is_none_or(|record| record.entries.iter().any(|entry| entry.name == name));
        let own = document.entries().filter(|(name, entry)| is_named(args, name) && starts_bowline(entry));
        let names: Vec<String> = own.map(|(name, _)| name.to_owned()).filter(|name| is_ours(name)).collect();
        for name in names {
            document = self.without(&document, &name, record)?;
            self.entries.push(name);
            self.kind = UninstallKind::EntriesRemoved;
        }
        let Some((record, backup)) = recorded else { return Ok(document) };
        let path = self.change.path.display();
        if self.kind == UninstallKind::EntriesRemoved {
            self.notes.push(format!(
                "{path} has changed since `bowline install`, so only the entries of bowline are removed; the rest stays as it is now"
            ));
        }
        let backup = backup.as_deref().and_then(|text| HostDocument::parse(self.change.host, text).ok());
        for name in record.removed.iter().filter(|_| args.name.is_none()) {
            if document.entry(name).is_some() {
                continue;
            }
            let put_back = backup.as_ref().and_then(|backup| document.insert_from(backup, name).ok());
            match put_back {
                Some(put_back) => {
                    document = put_back.document;
                    self.restored.push(name.clone());
                    self.kind = UninstallKind::EntriesRemoved;
                }
                None => self.notes.push(format!("the entry `{name}` cannot be put back into {path}")),
            }
        }
        Ok(document)
    }

    /// A document without one entry: without the text that was inserted for it, if that is still there.
    fn without(
        &self,
        document: &HostDocument,
        name: &str,
        record: Option<&InstallRecord>,
    ) -> Outcome<HostDocument> {
        let written = record.and_then(|record| record.entries.iter().find(|entry| entry.name == name));
        if let Some(removed) = written.and_then(|written| document.remove_inserted(name, &written.text)) {
            return Ok(removed);
        }
        document.remove(name).map_err(|error| {
            let path = self.change.path.display();
            Failure::usage_hint(
                format!("{path} cannot be changed safely: {error}; nothing was changed"),
                format!("remove the entry `{name}` from `{}` by hand", document.container_name()),
            )
        })
    }

    fn to_json(&self, is_dry_run: bool) -> Value {
        let state = match (self.kind, is_dry_run) {
            (UninstallKind::Nothing, _) => "not_installed",
            (_, true) => "would_uninstall",
            (UninstallKind::Restored, false) => "restored",
            (UninstallKind::EntriesRemoved, false) => "removed",
        };
        json!({
            "host": self.change.host.id(),
            "path": self.change.path.to_string_lossy(),
            "state": state,
            "entries": self.entries,
            "restored": self.restored,
            "diff": preview::diff_lines(&self.change),
        })
    }
}
