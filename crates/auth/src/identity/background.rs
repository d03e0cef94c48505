//! Refreshes the token in time while the connection is idle, and follows the store.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::sleep;

use super::refresh::Refresher;
use super::stored_login::StoredLogin;
use super::unsaved_login::SaveRetries;
use crate::refresh::due;

/// How often an idle connection checks the clock and the store: machines sleep, and clocks are
/// adjusted.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// How often it checks while a login is missing that another process may make, or while one is
/// unsaved.
const URGENT_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The shortest time between two checks.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Keeps the login refreshed and saved for as long as it is polled.
pub(super) async fn keep_refreshed(login: &StoredLogin, refresher: &Arc<Refresher>, saves: &SaveRetries) {
    if !login.policy.uses_logins() {
        return std::future::pending().await;
    }
    let server = &login.ctx.server;
    // Jitter that differs between processes, so that they do not refresh at the same moment.
    let share = fastrand::f64();
    let mut changes = login.current.watch_generation();
    loop {
        let wait = next_poll(login, refresher, share);
        tokio::select! {
            () = sleep(wait) => {}
            _ = changes.changed() => continue,
            () = login.missing.reported() => continue,
        }
        // Another process may have refreshed already; then there is nothing to do.
        if let Err(error) = login.reload().await {
            tracing::debug!(%server, %error, "the stored login cannot be read");
        }
        if let Some(saving) = saves.join()
            && let Err(error) = saving.await
        {
            tracing::debug!(%server, %error, "the login can still not be stored");
        }
        let Some(active) = login.current.login() else { continue };
        let early = due::idle_refresh_at(&active.record, share).is_some_and(|at| SystemTime::now() >= at);
        if early && active.record.is_refreshable() && refresher.backoff.active_error().is_none() {
            // Callers that need the token see the error themselves.
            let _ = refresher.join(&active.record.access).await;
        }
    }
}

fn next_poll(login: &StoredLogin, refresher: &Refresher, share: f64) -> Duration {
    let active = login.current.login();
    let unsaved = active.as_ref().is_some_and(|active| active.unsaved.is_some());
    let refreshable = active.filter(|active| active.record.is_refreshable());
    let missing = refreshable.is_none() && login.missing.get();
    let most = if missing || unsaved { URGENT_POLL_INTERVAL } else { POLL_INTERVAL };
    let Some(at) = refreshable.and_then(|active| due::idle_refresh_at(&active.record, share)) else {
        return most;
    };
    let due = at.duration_since(SystemTime::now()).unwrap_or_default();
    due.max(refresher.backoff.remaining_wait()).clamp(MIN_POLL_INTERVAL, most)
}
