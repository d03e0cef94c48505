//! Implements `bowline uninstall`: the file of a host as it was before, or without the entries of bowline.

use std::path::Path;

use bowline_hosts::{Host, HostDocument, starts_bowline};
use serde_json::{Value, json};

use super::drafts::remove_stale_drafts;
use super::file_change::{self, FileChange, Rollback, WriteError, choose_file, read_host_file};
use super::records::{InstallRecord, InstallRecords, LoadedRecord, RemovedServer};
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
    /// What was recorded of the file.
    recorded: Option<InstallRecord>,
    /// What stays of that.
    kept: Option<InstallRecord>,
}

/// How the file is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UninstallKind {
    /// Not at all: there is no entry of bowline.
    Nothing,
    /// It becomes what it was, byte for byte.
    Restored,
    /// It becomes what it was before the last installation, apart from what earlier ones had added and removed.
    RestoredInPart,
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
            remove_stale_drafts(&plan.change.path);
            records.remove_stale_drafts(&plan.change.path);
        }
        write_all(&changes, &records)?;
        for plan in &plans {
            plan.update_record(&records);
            plan.report_done(settings);
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
    let loaded = records.load(&path);
    let mut plan = UninstallPlan {
        change: FileChange::new(host, path, before),
        kind: UninstallKind::Nothing,
        entries: Vec::new(),
        restored: Vec::new(),
        notes: Vec::new(),
        recorded: loaded.as_ref().map(|(record, _)| record.clone()),
        kept: None,
    };
    let shown = plan.change.path.display().to_string();
    let Some(text) = plan.change.before.clone() else {
        plan.notes.push(format!("bowline is not installed in {}: there is no {shown}", host.name()));
        plan.keep_removed_servers(records);
        return Ok(plan);
    };
    if let Some((record, _)) = &loaded {
        plan.change.own_texts = record.entries.iter().map(|entry| entry.text.clone()).collect();
    }
    let document = parse_document(host, &plan.change.path, Some(&text))?;
    let is_unchanged =
        |(record, _): &&LoadedRecord| record.wrote(&text) && removes_all_entries(record, &document, args);
    let result = match loaded.as_ref().filter(is_unchanged) {
        Some((record, backup)) => plan.restore(record, backup.as_deref(), records)?,
        None => plan.remove_entries(document, args, records)?,
    };
    let is_created = plan.recorded.as_ref().is_some_and(|record| record.before.is_none());
    plan.change.after = Some(result.text().to_owned()).filter(|_| !(is_created && result.is_empty()));
    if plan.kind == UninstallKind::Nothing {
        plan.notes.push(format!("bowline is not installed in {}: {shown} has no entry of it", host.name()));
    }
    Ok(plan)
}

/// Whether no entry of the record is left in a file after those that were asked for are removed.
fn removes_all_entries(record: &InstallRecord, document: &HostDocument, args: &HostFileArgs) -> bool {
    let is_left = |name: &str| !is_named(args, name) && document.entry(name).is_some_and(starts_bowline);
    let mut names = record.entries.iter().map(|entry| entry.name.as_str());
    let is_asked = args.name.is_none() || names.clone().any(|name| is_named(args, name));
    is_asked && !names.any(is_left)
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

/// Writes the changes. If one of them fails, those before it are undone.
fn write_all(changes: &[&FileChange], records: &InstallRecords) -> Outcome<()> {
    file_change::check_all_writable(changes)?;
    let mut written: Vec<&FileChange> = Vec::new();
    for change in changes {
        let Err(WriteError { failure, is_written }) = change.write() else {
            written.push(change);
            continue;
        };
        written.extend(is_written.then_some(*change));
        let mut rollback = Rollback::default();
        for change in written.into_iter().rev() {
            if change.undo() {
                rollback.undone.push(change);
            } else {
                rollback.remaining.push((change, records.find_backup(&change.path)));
            }
        }
        return Err(rollback.add_to(failure));
    }
    Ok(())
}

impl UninstallPlan {
    fn has_changes(&self) -> bool {
        self.change.before != self.change.after
    }

    /// Returns the file as it was before the installation, without the entries of earlier installations and
    /// with the servers that those removed.
    fn restore(
        &mut self,
        record: &InstallRecord,
        backup: Option<&str>,
        records: &InstallRecords,
    ) -> Outcome<HostDocument> {
        self.entries = record.entries.iter().map(|entry| entry.name.clone()).collect();
        self.restored.clone_from(&record.removed);
        let mut document = parse_document(self.change.host, &self.change.path, backup)?;
        for entry in &record.entries {
            if document.entry(&entry.name).is_some_and(starts_bowline) {
                document = self.without(&document, &entry.name, Some(record))?;
            }
        }
        let document = self.put_back(document, record, &record.removed_earlier, records);
        let is_exact = document.text() == backup.unwrap_or_default() && self.kept.is_none();
        self.kind = if is_exact { UninstallKind::Restored } else { UninstallKind::RestoredInPart };
        Ok(document)
    }

    /// Removes the entries of bowline from a file that is not what was written, and puts back those that
    /// were removed for them.
    fn remove_entries(
        &mut self,
        mut document: HostDocument,
        args: &HostFileArgs,
        records: &InstallRecords,
    ) -> Outcome<HostDocument> {
        let recorded = self.recorded.clone();
        let record = recorded.as_ref();
        // With a record, what a person has written by hand stays.
        let is_ours =
            |name: &str| record.is_none_or(|record| record.entries.iter().any(|entry| entry.name == name));
        let own = document.entries().filter(|(name, entry)| is_named(args, name) && starts_bowline(entry));
        let names: Vec<String> = own.map(|(name, _)| name.to_owned()).filter(|name| is_ours(name)).collect();
        let removes_all = record.is_some_and(|record| removes_all_entries(record, &document, args));
        for name in names {
            document = self.without(&document, &name, record)?;
            self.entries.push(name);
            self.kind = UninstallKind::EntriesRemoved;
        }
        let Some(record) = record else { return Ok(document) };
        if self.kind == UninstallKind::EntriesRemoved {
            self.notes.push(format!(
                "{} has changed since `bowline install`, so only the entries of bowline are removed; the rest stays as it is now",
                self.change.path.display()
            ));
        }
        // Other entries may be left, and their record with them.
        if !removes_all {
            self.kept = Some(record.clone());
            return Ok(document);
        }
        let document = self.put_back(document, record, &record.all_removed(), records);
        if !self.restored.is_empty() {
            self.kind = UninstallKind::EntriesRemoved;
        }
        Ok(document)
    }

    /// Puts back servers that were removed, unless the host has them again. The record is kept for those for
    /// which that fails.
    fn put_back(
        &mut self,
        mut document: HostDocument,
        record: &InstallRecord,
        servers: &[RemovedServer],
        records: &InstallRecords,
    ) -> HostDocument {
        let FileChange { host, path, .. } = &self.change;
        let mut missing = Vec::new();
        for server in servers {
            let name = &server.name;
            if document.entry(name).is_some() {
                continue;
            }
            let backup = records.read_backup(path, &server.backup);
            let backup = backup.and_then(|text| HostDocument::parse(*host, &text).ok());
            let insertion = backup.and_then(|backup| document.insert_from(&backup, name).ok());
            if let Some(insertion) = insertion {
                document = insertion.document;
                self.restored.push(name.clone());
            } else {
                let copy = Some(records.backup_path(path, &server.backup)).filter(|copy| copy.exists());
                let place = copy.map(|copy| format!("; it is in {}", copy.display())).unwrap_or_default();
                self.notes
                    .push(format!("the entry `{name}` cannot be put back into {}{place}", path.display()));
                missing.push(server.clone());
            }
        }
        self.kept = record.keep_for(missing);
        document
    }

    /// Keeps the record of a file that is gone, if servers were removed from it.
    fn keep_removed_servers(&mut self, records: &InstallRecords) {
        let Some(record) = &self.recorded else { return };
        let servers = record.all_removed();
        for RemovedServer { name, backup } in &servers {
            let copy = records.backup_path(&self.change.path, backup);
            let copy = copy.display();
            self.notes.push(format!("the entry `{name}`, which was removed for bowline, is in {copy}"));
        }
        self.kept = (!servers.is_empty()).then(|| record.clone());
    }

    /// Forgets what was recorded of the file, apart from what is kept.
    fn update_record(&self, records: &InstallRecords) {
        let path = &self.change.path;
        // Another process may have installed bowline since the record was read.
        if records.load(path).map(|(record, _)| record) != self.recorded {
            return;
        }
        match (&self.recorded, &self.kept) {
            (recorded, None) => records.remove(path, recorded.as_ref()),
            // If this fails, the old record stays: it names the same copies.
            (Some(recorded), Some(kept)) if recorded != kept && records.save(path, kept, None).is_ok() => {
                records.remove_unused_backups(path, recorded, Some(kept));
            }
            _ => {}
        }
    }

    fn report_done(&self, settings: &Settings) {
        let path = self.change.path.display();
        let put_back = match (self.entries.as_slice(), self.restored.as_slice()) {
            (_, []) => String::new(),
            ([], restored) => format!("put back {} into {path}", quote(restored)),
            (_, restored) => format!(", and put back {}", quote(restored)),
        };
        let removed = match self.entries.as_slice() {
            [] => String::new(),
            entries => format!("removed {} from {path}", quote(entries)),
        };
        let done = match (self.kind, &self.change.after) {
            (UninstallKind::Nothing, _) => return,
            (_, None) => format!("deleted {path}, which `bowline install` had created"),
            (UninstallKind::Restored, Some(_)) => format!("{path} is as it was before `bowline install`"),
            (UninstallKind::RestoredInPart, Some(_)) => {
                format!("{removed}{put_back}; the rest of the file is as the host left it")
            }
            (UninstallKind::EntriesRemoved, Some(_)) => format!("{removed}{put_back}"),
        };
        settings.printer.note(&done);
    }

    /// A document without one entry: without the text that was inserted for it, if that is still there.
    fn without(
        &self,
        document: &HostDocument,
        name: &str,
        record: Option<&InstallRecord>,
    ) -> Outcome<HostDocument> {
        let written = record.and_then(|record| record.entries.iter().find(|entry| entry.name == name));
        let removed = written.and_then(|written| document.remove_inserted(name, &written.text));
        // A member that was put before the entry since then keeps its comma, which not every parser allows.
        if let Some(removed) = removed
            && (removed.is_strict_json() || !document.is_strict_json())
        {
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
            (UninstallKind::RestoredInPart | UninstallKind::EntriesRemoved, false) => "removed",
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
