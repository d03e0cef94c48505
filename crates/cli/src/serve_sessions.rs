//! Where `bowline serve` keeps the sessions of its hosts, so that they outlive a restart.

use std::sync::Arc;

use bowline::auth::store;
use bowline::config::{KeyLocation, StoreConfig};
use bowline_gateway::{SessionStore, StoredSessions};

use crate::settings::Settings;

/// The store of sessions, opened when it is first needed. `None` if there is no folder for it.
///
/// It is not the store of logins: it is written with every call that may have effects, and whoever
/// uses no logins need not unlock a keyring. Its key is in a file beside it that only its owner can
/// read.
pub(crate) fn open(settings: &Settings) -> Option<Arc<dyn SessionStore>> {
    let folder = settings.state()?.join("sessions");
    let mut config = StoreConfig::default();
    config.key = KeyLocation::File;
    Some(Arc::new(StoredSessions::new(store::open_lazily(config, folder))))
}
