//! The public interface of the store: one contract for every backend, real processes that are
//! killed, and the files on disk. Tests that need a server are in `interop_redis`.

mod backends;
#[path = "../support/contract.rs"]
mod contract;
#[cfg(unix)]
mod files;
#[path = "../support/histories.rs"]
mod histories;
mod killed;
#[path = "../support/log_contract.rs"]
mod log_contract;
#[path = "../support/log_histories.rs"]
mod log_histories;
mod logs;
#[path = "../support/processes.rs"]
mod processes;
mod sealed;
mod shared_file;
#[path = "../support/worker.rs"]
mod worker;

use std::path::Path;
use std::sync::Arc;

use bowline_store::{Key, SqliteStore, Store, StoreError};

/// A key of a kind that only tests use.
fn key(id: &str) -> Key {
    Key::new("test", id)
}

/// Opens the store in this file.
async fn sqlite(path: &Path) -> Arc<dyn Store> {
    open(text(path)).await.unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Opens the store that a worker was told to use.
async fn open(at: &str) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(SqliteStore::open(Path::new(at), &mut Vec::new()).await?))
}
