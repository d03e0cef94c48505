//! Owns the connection that waits for entries of logs: one blocking `XREAD` for all logs that somebody
//! in this process waits for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::ConnectionManager;
use tokio::time::{sleep, timeout};

use super::log::{LogKeys, parse_stream_id};
use crate::log::Doorbell;

/// How long one `XREAD` blocks, in milliseconds. A log that is first waited for meanwhile is included
/// in the next one, so this is also the longest delay of a new wait.
const BLOCK_MS: u64 = 100;

/// Timeout of one `XREAD`, for a server that does not respond.
const READ_TIMEOUT: Duration = Duration::from_secs(3);

/// The pause after a failure.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Waits for logs, with a background task that runs as long as somebody waits.
pub(super) struct LogWaiting {
    manager: ConnectionManager,
    bell: Doorbell,
    is_running: AtomicBool,
}

/// The response to `XREAD`: for each stream its key and its new entries.
type NewEntries = Option<Vec<(String, Vec<(String, redis::Value)>)>>;

impl LogWaiting {
    /// Waits with a connection that nothing else uses, because `XREAD` blocks it.
    pub(super) fn new(manager: ConnectionManager) -> Self {
        Self { manager, bell: Doorbell::default(), is_running: AtomicBool::new(false) }
    }

    pub(super) fn bell(&self) -> &Doorbell {
        &self.bell
    }

    /// Starts the background task, unless it runs.
    pub(super) fn ensure_running(self: Arc<Self>) {
        if !self.is_running.swap(true, Ordering::SeqCst) {
            tokio::spawn(async move {
                let mut aborted = AbortGuard { waiting: self, is_armed: true };
                aborted.waiting.run().await;
                aborted.is_armed = false;
            });
        }
    }

    async fn run(&self) {
        loop {
            while !self.bell.is_idle() {
                if let Err(error) = self.read_once().await {
                    // Those who wait learn of it when they read the log.
                    tracing::debug!(%error, "cannot wait for entries of logs");
                    sleep(RETRY_INTERVAL).await;
                }
            }
            self.is_running.store(false, Ordering::SeqCst);
            // Somebody may have begun to wait after the last look, and found the task running.
            if self.bell.is_idle() || self.is_running.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }

    async fn read_once(&self) -> Result<(), redis::RedisError> {
        let awaited = self.bell.awaited_logs();
        let mut logs = HashMap::with_capacity(awaited.len());
        let mut read = redis::cmd("XREAD");
        read.arg("COUNT").arg(1).arg("BLOCK").arg(BLOCK_MS).arg("STREAMS");
        for (log, _) in &awaited {
            let key = LogKeys::new(log).entries;
            read.arg(&key);
            logs.insert(key, log);
        }
        for (_, position) in &awaited {
            read.arg(format!("{}-0", position.0));
        }
        if awaited.is_empty() {
            return Ok(());
        }
        let mut manager = self.manager.clone();
        let found: NewEntries = match timeout(READ_TIMEOUT, read.query_async(&mut manager)).await {
            Ok(found) => found?,
            Err(_) => return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        };
        for (key, entries) in found.unwrap_or_default() {
            let newest = entries.last().and_then(|(id, _)| parse_stream_id(id.as_bytes()));
            if let (Some(log), Some(newest)) = (logs.get(&key), newest) {
                self.bell.ring(log, newest);
            }
        }
        Ok(())
    }
}

/// Lets another task start when this one is aborted, as it is at the end of its runtime.
struct AbortGuard {
    waiting: Arc<LogWaiting>,
    is_armed: bool,
}

impl Drop for AbortGuard {
    fn drop(&mut self) {
        if self.is_armed {
            self.waiting.is_running.store(false, Ordering::SeqCst);
        }
    }
}

impl std::fmt::Debug for LogWaiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogWaiting")
    }
}
