//! The store in a real server: the contract, many processes, and a server that stops, restarts,
//! hangs, requires a password, or uses TLS.
//!
//! The server's program is the one that `BOWLINE_REDIS_SERVER` names, else a Valkey or Redis on the
//! `PATH`.
#![cfg(unix)]

#[path = "../support/contract.rs"]
mod contract;
#[path = "../support/histories.rs"]
mod histories;
#[path = "../support/log_contract.rs"]
mod log_contract;
#[path = "../support/log_histories.rs"]
mod log_histories;
mod logs;
#[path = "../support/processes.rs"]
mod processes;
mod server;
mod tls;
mod valkey;
#[path = "../support/worker.rs"]
mod worker;

use std::sync::Arc;

use bowline_config::Secret;
use bowline_store::{Key, Precondition, Store, StoreError, ValkeyStore};
use contract::StoreHandles;
use server::Server;

/// A key of a kind that only tests use.
fn key(id: &str) -> Key {
    Key::new("test", id)
}

/// Opens the store that a worker was told to use.
async fn open(at: &str) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(ValkeyStore::open(&Secret::new(at), &mut Vec::new()).await?))
}

async fn make() -> (Server, StoreHandles) {
    let server = Server::start();
    let hands = [server.store().await, server.store().await];
    (server, hands)
}

contract::contract!(make);
log_contract::log_contract!(make);

#[test]
fn any_history() {
    let server = Server::start_with(&["--appendfsync", "no"]);
    histories::check(100, async || {
        let hands = [server.store().await, server.store().await];
        for (key, _) in hands[0].list("test").await.unwrap() {
            hands[0].remove(&key, Precondition::Any).await.unwrap();
        }
        hands
    });
}

#[test]
fn any_history_of_logs() {
    let server = Server::start_with(&["--appendfsync", "no"]);
    log_histories::check(100, async || {
        let hands = [server.store().await, server.store().await];
        for log in ["a", "b"] {
            hands[0].remove_log(&bowline_store::LogName::new(log)).await.unwrap();
        }
        (hands, log_histories::StoreClock::Real)
    });
}

#[tokio::test]
async fn no_update_is_lost() {
    let server = Server::start();
    processes::no_update_is_lost(server.url().expose()).await;
}

#[tokio::test]
async fn a_killed_holder_frees_its_lease() {
    let server = Server::start();
    processes::a_killed_holder_frees_its_lease(server.url().expose()).await;
}

#[tokio::test]
async fn all_entries_of_all_processes_are_heard() {
    let server = Server::start();
    processes::all_entries_of_all_processes_are_heard(server.url().expose()).await;
}
