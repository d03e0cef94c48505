//! Where `bowline serve` keeps the sessions of its hosts, so that they outlive a restart.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline::auth::store::StoreError;
use bowline_gateway::{
    RecordCheck, SessionFiles, SessionIdKey, SessionStore, SessionStoreFuture, StoredSession,
};
use tokio::time::timeout;

use crate::print::Printer;
use crate::settings::Settings;

/// How long the folder may take to open before hosts are accepted.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens the folder of sessions. `None` if it cannot be used, which a note says.
///
/// It is not the store of logins: it is written with every call that may have effects, and whoever
/// uses no logins need not unlock a keyring. Nothing in it is of use for longer than a session, so one
/// that is damaged is set aside.
pub(crate) async fn open(settings: &Settings) -> Option<Arc<dyn SessionStore>> {
    let folder = settings.state()?.join("sessions");
    // A file system that hangs must not stop everything.
    let opened = timeout(OPEN_TIMEOUT, tokio::task::spawn_blocking(|| open_or_set_aside(folder))).await;
    let reason = match opened {
        Ok(Ok(Opened { files: Ok(files), damage })) => {
            if let Some(damage) = damage {
                let note =
                    format!("the stored sessions of hosts cannot be used and were set aside: {damage}");
                settings.printer.note(&note);
            }
            return Some(Arc::new(NotedSessions { files, printer: settings.printer.clone() }));
        }
        Ok(Ok(Opened { files: Err(error), .. })) => error.to_string(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the file system does not answer".to_owned(),
    };
    settings.printer.note(&format!("the sessions of hosts will not outlive a restart: {reason}"));
    None
}

/// The files of sessions. A note says that they cannot be written.
struct NotedSessions {
    files: SessionFiles,
    printer: Printer,
}

impl SessionStore for NotedSessions {
    fn id_key(&self) -> SessionIdKey {
        self.files.id_key()
    }

    fn save(&self, session: &str, record: Vec<u8>, lifetime: Duration) -> SessionStoreFuture<()> {
        self.files.save(session, record, lifetime)
    }

    fn append(&self, session: &str, entry: Vec<u8>, lifetime: Duration) -> SessionStoreFuture<()> {
        self.files.append(session, entry, lifetime)
    }

    fn touch(&self, session: &str, lifetime: Duration) {
        self.files.touch(session, lifetime);
    }

    fn remove(&self, session: &str) -> SessionStoreFuture<()> {
        self.files.remove(session)
    }

    fn load(&self, session: &str, accepts: RecordCheck) -> SessionStoreFuture<Option<StoredSession>> {
        self.files.load(session, accepts)
    }

    fn flush(&self) -> SessionStoreFuture<()> {
        self.files.flush()
    }

    fn report_failure(&self, cause: &str) {
        self.printer.note(&format!(
            "sessions and calls of hosts cannot be recorded: {cause} (a restart would cost hosts the responses that \
             are open)"
        ));
    }

    fn release(&self) {
        self.files.release();
    }
}

impl fmt::Debug for NotedSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

struct Opened {
    files: Result<SessionFiles, StoreError>,
    /// Why the folder that was there before could not be used.
    damage: Option<StoreError>,
}

fn open_or_set_aside(folder: PathBuf) -> Opened {
    match SessionFiles::open(&folder) {
        Err(error @ (StoreError::Unusable(_) | StoreError::Sealed(_))) => match set_aside(&folder) {
            Ok(()) => Opened { files: SessionFiles::open(&folder), damage: Some(error) },
            Err(moving) => {
                tracing::warn!(error = %moving, "damaged sessions stay where they are");
                Opened { files: Err(error), damage: None }
            }
        },
        files => Opened { files, damage: None },
    }
}

/// Moves a damaged folder out of the way, in place of one that was moved before.
fn set_aside(folder: &Path) -> io::Result<()> {
    let aside = folder.with_extension("damaged");
    match fs::remove_dir_all(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::rename(folder, aside)
}
