//! Carries out operations on stored sessions: those of one session in their order, those of several
//! together.

use std::sync::Arc;
use std::time::Duration;

use bowline_server::StoredSession;
use bowline_store::StoreError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::SessionLogs;

/// An operation on a session.
pub(super) struct Command {
    pub(super) session: Arc<str>,
    pub(super) operation: Operation,
}

/// Gets the result of an operation.
pub(super) type Waiter<T> = oneshot::Sender<Result<T, String>>;

/// What is to be done with a session.
pub(super) enum Operation {
    Save {
        record: Vec<u8>,
        lifetime: Duration,
        done: Waiter<()>,
    },
    Append {
        entry: Vec<u8>,
        lifetime: Duration,
        done: Waiter<()>,
    },
    Touch {
        lifetime: Duration,
    },
    Remove {
        done: Waiter<()>,
    },
    Load {
        done: Waiter<Option<StoredSession>>,
    },
    /// Says when everything before it was carried out, for all sessions.
    Flush {
        done: Waiter<()>,
    },
}

/// How many operations may wait for the store.
pub(super) const MAX_QUEUED_COMMANDS: usize = 4 * 1024;
/// How many operations are carried out together.
const MAX_BATCH: usize = 256;

/// Carries out operations until there can be no more.
pub(super) async fn carry_out(logs: Arc<SessionLogs>, mut commands: mpsc::Receiver<Command>) {
    let mut batch = Vec::with_capacity(MAX_BATCH);
    while commands.recv_many(&mut batch, MAX_BATCH).await > 0 {
        let mut by_session: Vec<(Arc<str>, Vec<Operation>)> = Vec::new();
        let mut flushes = Vec::new();
        for Command { session, operation } in batch.drain(..) {
            if let Operation::Flush { done } = operation {
                flushes.push(done);
                continue;
            }
            match by_session.iter_mut().find(|(other, _)| *other == session) {
                Some((_, operations)) => operations.push(operation),
                None => by_session.push((session, vec![operation])),
            }
        }
        let mut running = JoinSet::new();
        for (session, operations) in by_session {
            let logs = Arc::clone(&logs);
            running.spawn(async move { carry_out_in_order(&logs, &session, operations).await });
        }
        while running.join_next().await.is_some() {}
        for done in flushes {
            let _ = done.send(Ok(()));
        }
    }
}

async fn carry_out_in_order(logs: &SessionLogs, session: &str, operations: Vec<Operation>) {
    let (mut entries, mut waiters) = (Vec::new(), Vec::new());
    let mut operations = operations.into_iter().peekable();
    while let Some(operation) = operations.next() {
        match operation {
            // Whoever waits may have been dropped.
            Operation::Save { record, lifetime, done } => {
                let saved = logs.save(session, record, lifetime).await;
                let _ = done.send(saved.map_err(|error| error.to_string()));
            }
            Operation::Append { entry, lifetime, done } => {
                entries.push(entry);
                waiters.push(done);
                if matches!(operations.peek(), Some(Operation::Append { .. })) {
                    continue;
                }
                let appended = logs.append(session, &std::mem::take(&mut entries), lifetime).await;
                let appended = appended.map_err(|error| error.to_string());
                for waiter in waiters.drain(..) {
                    // Whoever waits may have been dropped.
                    let _ = waiter.send(appended.clone());
                }
            }
            Operation::Touch { lifetime } => report(logs.touch(session, lifetime).await),
            Operation::Remove { done } => {
                let _ = done.send(logs.remove(session).await.map_err(|error| error.to_string()));
            }
            Operation::Load { done } => {
                let _ = done.send(logs.load(session).await.map_err(|error| error.to_string()));
            }
            Operation::Flush { done } => drop(done.send(Ok(()))),
        }
    }
}

fn report(outcome: Result<(), StoreError>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "a session could not be recorded");
    }
}
