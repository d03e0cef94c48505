//! Decides when the configuration files have changed and are whole again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bowline_settings::{ConfigFiles, find_project_files};

use crate::settings::Settings;

/// The files that the configuration is read from.
#[derive(Clone, Debug)]
pub(in super::super) struct ConfigWatch {
    watched: Arc<Watched>,
    first: FilesLook,
}

#[derive(Debug)]
struct Watched {
    /// Files that are looked at, whether they exist or not.
    paths: Vec<PathBuf>,
    /// Whether the project's files, which may be others each time, are looked at as well.
    has_project: bool,
}

/// How files look without being read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilesLook(Vec<(PathBuf, Option<FileLook>)>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileLook {
    modified: Option<SystemTime>,
    bytes: u64,
    /// Zero where there are none.
    inode: u64,
}

impl ConfigWatch {
    /// Looks at the files of these settings for the first time. They have to be read afterward, so
    /// that no change is missed.
    pub(in super::super) fn new(settings: &Settings) -> Self {
        let (mut paths, has_project) = match &settings.files {
            ConfigFiles::Single(path) => (vec![path.clone()], false),
            ConfigFiles::Layered { user, .. } => (Vec::from_iter(user.clone()), true),
        };
        if has_project {
            // A project's file may become trusted.
            paths.extend(settings.trust_records().map(|records| records.folder().to_owned()));
        }
        let watched = Arc::new(Watched { paths, has_project });
        let first = watched.look();
        Self { watched, first }
    }

    pub(super) fn first_look(&self) -> FilesLook {
        self.first.clone()
    }

    /// Looks at the files. A file system that does not answer delays nothing else.
    pub(super) async fn look(&self) -> FilesLook {
        let watched = Arc::clone(&self.watched);
        let looked = tokio::task::spawn_blocking(move || watched.look()).await;
        looked.unwrap_or_else(|_| self.first.clone())
    }
}

impl Watched {
    fn look(&self) -> FilesLook {
        let projects = if self.has_project { find_project_files().unwrap_or_default() } else { Vec::new() };
        let paths = self.paths.iter().cloned().chain(projects);
        let look = |path: PathBuf| {
            let look = look_at(&path);
            (path, look)
        };
        FilesLook(paths.map(look).collect())
    }
}

fn look_at(path: &Path) -> Option<FileLook> {
    let about = path.metadata().ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&about);
    #[cfg(not(unix))]
    let inode = 0;
    Some(FileLook { modified: about.modified().ok(), bytes: about.len(), inode })
}

/// Decides when changed files are read: when they have looked the same twice, since editors write in
/// steps.
#[derive(Debug)]
pub(super) struct ChangeDetector {
    /// How the files looked when they were read last.
    read: FilesLook,
    /// How they looked the last time, if that was different.
    last: Option<FilesLook>,
}

impl ChangeDetector {
    /// Begins with files that were read.
    pub(super) fn new(read: FilesLook) -> Self {
        Self { read, last: None }
    }

    /// Takes note that the files are read now.
    pub(super) fn take(&mut self, now: FilesLook) {
        *self = Self::new(now);
    }

    /// Takes note of how the files look. Returns whether they are to be read.
    pub(super) fn observe(&mut self, now: FilesLook) -> bool {
        if now == self.read {
            self.last = None;
            return false;
        }
        let is_settled = self.last.as_ref() == Some(&now);
        if is_settled {
            self.take(now);
        } else {
            self.last = Some(now);
        }
        is_settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(sizes: &[u64]) -> FilesLook {
        let looks = sizes.iter().map(|&bytes| Some(FileLook { modified: None, bytes, inode: 1 }));
        FilesLook(looks.map(|look| (PathBuf::from("file"), look)).collect())
    }

    #[test]
    fn files_are_read_once_they_have_settled() {
        let mut detector = ChangeDetector::new(look(&[1]));
        let mut observed = |sizes: &[u64]| detector.observe(look(sizes));
        assert!(!observed(&[1]));
        // Truncated, then written in two steps.
        assert!(!observed(&[0]) && !observed(&[5]) && !observed(&[9]));
        assert!(observed(&[9]));
        assert!(!observed(&[9]));
        // Another file appears.
        assert!(!observed(&[9, 2]) && observed(&[9, 2]));
        // It was changed back before it was read.
        assert!(!observed(&[7]) && !observed(&[9, 2]) && !observed(&[9, 2]));
        detector.take(look(&[3]));
        assert!(!detector.observe(look(&[3])));
    }

    #[test]
    fn replaced_removed_and_created_files_look_different() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let watched = Watched { paths: vec![path.clone()], has_project: false };
        let missing = watched.look();
        assert_eq!(missing, watched.look());
        std::fs::write(&path, "a = 1").unwrap();
        let written = watched.look();
        let draft = folder.path().join("draft");
        std::fs::write(&draft, "a = 2").unwrap();
        // The time is that of the first file, as after a copy that keeps times.
        let modified = path.metadata().unwrap().modified().unwrap();
        std::fs::File::options().write(true).open(&draft).unwrap().set_modified(modified).unwrap();
        std::fs::rename(&draft, &path).unwrap();
        let replaced = watched.look();
        assert_ne!(missing, written);
        #[cfg(unix)]
        assert_ne!(written, replaced);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(watched.look(), missing);
    }
}
