//! Writes the changes of `bowline install`, each with a record by which it can be undone: all of them, or none.

use bowline_hosts::{HostDocument, starts_bowline};

use super::InstallPlan;
use super::file_change::{FileChange, Rollback, WriteError, check_all_writable};
use super::records::{InstallRecord, InstallRecords, LoadedRecord, RemovedServer};
use crate::failure::Outcome;

/// A change whose record is saved.
struct RecordedChange<'a> {
    change: &'a FileChange,
    record: InstallRecord,
    /// The record that there was before.
    earlier: Option<LoadedRecord>,
}

/// Writes the changes. If one of them fails, those before it are undone.
pub(super) fn apply_all(plans: &[&InstallPlan], records: &InstallRecords) -> Outcome<()> {
    let changes: Vec<&FileChange> = plans.iter().map(|plan| &plan.change).collect();
    check_all_writable(&changes)?;
    let mut written: Vec<RecordedChange<'_>> = Vec::new();
    for plan in plans {
        if let Err(failure) = apply(plan, records, &mut written) {
            return Err(roll_back(&written, records).add_to(failure));
        }
    }
    for RecordedChange { change, record, earlier } in &written {
        if let Some((earlier, _)) = earlier {
            records.remove_unused_backups(&change.path, earlier, Some(record));
        }
    }
    Ok(())
}

/// Records and writes one change, and adds it to those that were written.
fn apply<'a>(
    plan: &'a InstallPlan,
    records: &InstallRecords,
    written: &mut Vec<RecordedChange<'a>>,
) -> Outcome<()> {
    let change = &plan.change;
    let earlier = records.load(&change.path);
    let (record, original) = make_record(plan, earlier.as_ref());
    let saved = records.save(&change.path, &record, original);
    let recorded = RecordedChange { change, record, earlier };
    if let Err(failure) = saved {
        recorded.restore_record(records);
        return Err(failure);
    }
    match change.write() {
        Ok(()) => {
            written.push(recorded);
            Ok(())
        }
        Err(WriteError { failure, is_written: true }) => {
            written.push(recorded);
            Err(failure)
        }
        Err(WriteError { failure, is_written: false }) => {
            recorded.restore_record(records);
            Err(failure)
        }
    }
}

/// Makes the record of a change. Returns it with the text that `bowline uninstall` restores.
fn make_record<'a>(
    plan: &'a InstallPlan,
    earlier: Option<&'a LoadedRecord>,
) -> (InstallRecord, Option<&'a str>) {
    let FileChange { host, path, before, after, .. } = &plan.change;
    let before = before.as_deref();
    // If an earlier installation wrote the file as it is now, the one before that is restored.
    let continued = earlier.filter(|(record, _)| before.is_some_and(|now| record.wrote(now)));
    let original = continued.map_or(before, |(_, backup)| backup.as_deref());
    let mut record = InstallRecord::new(*host, path, original, after.as_deref().unwrap_or_default());
    record.entries.clone_from(&plan.entries);
    record.removed.clone_from(&plan.removed);
    let Some((earlier, _)) = earlier else { return (record, original) };
    let is_new = |name: &str| !plan.entries.iter().any(|entry| entry.name == name);
    record.entries.extend(earlier.entries.iter().filter(|entry| is_new(&entry.name)).cloned());
    if continued.is_some() {
        record.removed.extend(earlier.removed.iter().cloned());
        record.removed_earlier.clone_from(&earlier.removed_earlier);
    } else {
        // The text that is restored does not have them.
        let document = HostDocument::parse(*host, before.unwrap_or_default()).ok();
        let entry = |name: &str| document.as_ref().and_then(|document| document.entry(name));
        let is_missing = |removed: &RemovedServer| entry(&removed.name).is_none_or(starts_bowline);
        record.removed_earlier = earlier.all_removed().into_iter().filter(is_missing).collect();
    }
    (record, original)
}

/// Undoes changes, the latest first. The record of one that cannot be undone stays, for `bowline uninstall`.
fn roll_back<'a>(written: &[RecordedChange<'a>], records: &InstallRecords) -> Rollback<'a> {
    let mut rollback = Rollback::default();
    for recorded in written.iter().rev() {
        let change = recorded.change;
        if change.undo() {
            recorded.restore_record(records);
            rollback.undone.push(change);
        } else {
            rollback.remaining.push((change, records.find_backup(&change.path)));
        }
    }
    rollback
}

impl RecordedChange<'_> {
    /// Saves the record that there was before the change.
    fn restore_record(&self, records: &InstallRecords) {
        let path = &self.change.path;
        let Some((earlier, backup)) = &self.earlier else {
            records.remove(path, Some(&self.record));
            return;
        };
        // If this fails, the newer record stays: it names every copy that the earlier one has servers in.
        if records.save(path, earlier, backup.as_deref()).is_ok() {
            records.remove_unused_backups(path, &self.record, Some(earlier));
        }
    }
}
