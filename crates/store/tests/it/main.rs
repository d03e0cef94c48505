//! The store as others use it: one contract for each kind of it, real processes that are killed, and files as they
//! lie on the disk. What needs a server is in `interop_redis`.

#[path = "../support/contract.rs"]
mod contract;
#[cfg(unix)]
mod files;
#[path = "../support/histories.rs"]
mod histories;
mod killed;
mod kinds;
#[path = "../support/processes.rs"]
mod processes;
mod sealed;
mod together;
#[path = "../support/worker.rs"]
mod worker;

use std::path::Path;
use std::sync::Arc;

use bowline_store::{Key, Sqlite, Store, StoreError};

/// A key of a kind that only tests have.
fn key(id: &str) -> Key {
    Key::new("test", id)
}

/// The store in this file.
async fn sqlite(path: &Path) -> Arc<dyn Store> {
    open(text(path)).await.unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The store that a worker is told of.
async fn open(at: &str) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(Sqlite::open(Path::new(at), &mut Vec::new()).await?))
}
