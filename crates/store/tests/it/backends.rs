//! Runs the contract against the stores that need no server.

mod memory {
    use std::future::{Ready, ready};
    use std::sync::Arc;

    use bowline_store::MemoryStore;

    use crate::contract::{StoreHandles, contract};

    fn make() -> Ready<((), StoreHandles)> {
        let store = MemoryStore::new();
        ready(((), [Arc::new(store.clone()), Arc::new(store)]))
    }

    contract!(make);
    crate::log_contract::log_contract!(make);

    #[test]
    fn any_history() {
        crate::histories::check(500, async || make().await.1);
    }

    #[test]
    fn any_history_of_logs() {
        use crate::log_histories::{StoreClock, check};

        check(500, async || (make().await.1, StoreClock::Paused));
    }
}

mod file {
    use tempfile::TempDir;

    use crate::contract::{StoreHandles, contract};
    use crate::sqlite;

    async fn make() -> (TempDir, StoreHandles) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let hands = [sqlite(&path).await, sqlite(&path).await];
        (folder, hands)
    }

    contract!(make);
    crate::log_contract::log_contract!(make);

    #[test]
    fn any_history() {
        let folder = tempfile::tempdir().unwrap();
        let count = std::cell::Cell::new(0);
        crate::histories::check(40, async || {
            count.set(count.get() + 1);
            let path = folder.path().join(format!("{}.db", count.get()));
            [sqlite(&path).await, sqlite(&path).await]
        });
    }
}
