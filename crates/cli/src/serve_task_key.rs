//! The key that the ids of tasks are sealed with, so that hosts find their tasks after a restart of
//! `bowline serve` or `bowline connect`.

use std::time::Duration;

use bowline_gateway::TaskKey;
use bowline_store::{SealKey, private};
use tokio::time::timeout;

use crate::settings::Settings;

/// How long the file may take to read before hosts are served.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads the key, which is created if there is none. `None` if it cannot be used, which the log says:
/// then tasks are found as long as the process lives.
pub(crate) async fn load(settings: &Settings) -> Option<TaskKey> {
    let path = settings.state()?.join("serve-task-key");
    let read = move || {
        if let Some(folder) = path.parent() {
            private::create_folder(folder).map_err(|error| error.to_string())?;
        }
        SealKey::load_or_create(&path).map_err(|error| error.to_string())
    };
    // A file system that hangs must not stop everything.
    let reason = match timeout(READ_TIMEOUT, tokio::task::spawn_blocking(read)).await {
        Ok(Ok(Ok(key))) => return Some(TaskKey::new(key)),
        Ok(Ok(Err(error))) => error,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the file system does not answer".to_owned(),
    };
    tracing::warn!(reason, "tasks of hosts will not be found after a restart");
    None
}
