//! Where `bowline serve` keeps the sessions of its hosts, so that they outlive a restart.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bowline::auth::store::{self, StoreError};
use bowline::config::{KeyLocation, StoreConfig};
use bowline_gateway::{SessionStore, StoredSessions};
use tokio::time::timeout;

use crate::settings::Settings;

/// How long the store may take to open before hosts are accepted. It is then opened with the first
/// session.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens the store of sessions. `None` if it cannot be used, which a note says.
///
/// It is not the store of logins: it is written with every call that may have effects, and whoever
/// uses no logins need not unlock a keyring. Its key is in a file beside it that only its owner can
/// read. Nothing in it is of use for longer than a session, so one that is damaged is set aside.
pub(crate) async fn open(settings: &Settings) -> Option<Arc<dyn SessionStore>> {
    let folder = settings.state()?.join("sessions");
    let mut config = StoreConfig::default();
    config.key = KeyLocation::File;
    let mut opened = timeout(OPEN_TIMEOUT, store::open(&config, &folder)).await;
    if let Ok(Err(StoreError::Unusable(reason) | StoreError::Sealed(reason))) = &opened {
        match set_aside(&folder) {
            Ok(()) => {
                let note =
                    format!("the stored sessions of hosts cannot be used and were set aside: {reason}");
                settings.printer.note(&note);
                opened = timeout(OPEN_TIMEOUT, store::open(&config, &folder)).await;
            }
            Err(error) => tracing::warn!(%error, "a damaged store of sessions stays where it is"),
        }
    }
    let opened = match opened {
        Ok(Ok(opened)) => opened.store,
        Ok(Err(error)) => {
            settings.printer.note(&format!("the sessions of hosts will not outlive a restart: {error}"));
            return None;
        }
        Err(_) => store::open_lazily(config, folder),
    };
    Some(Arc::new(StoredSessions::new(opened)))
}

/// Moves a damaged store out of the way, in place of one that was moved before.
fn set_aside(folder: &Path) -> io::Result<()> {
    let aside = folder.with_extension("damaged");
    match fs::remove_dir_all(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::rename(folder, aside)
}
