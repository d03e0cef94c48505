//! Reads the body of a POST: bounded in size and in time, and within the memory that all bodies
//! share.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::settings::HttpSettings;

/// The share of a body in the memory for the bodies of all hosts, released when this is dropped.
#[derive(Debug, Default)]
pub struct BodyMemory {
    /// In the memory of all hosts. `None` on a pipe, which has a single host.
    shared: Option<MemoryShare>,
    /// In that of its session, if it has one.
    own: Option<MemoryShare>,
}

/// A part of some memory.
#[derive(Debug)]
struct MemoryShare {
    budget: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
}

/// Why a body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyRefusal {
    TooLarge,
    TooSlow,
    /// The memory for bodies is in use.
    NoMemory,
    /// The connection broke.
    Broken,
}

/// Creates the memory for bodies. A permit is a KiB.
pub(crate) fn body_budget(settings: &HttpSettings) -> Arc<Semaphore> {
    Arc::new(Semaphore::new((settings.body_memory / 1024).clamp(1, Semaphore::MAX_PERMITS)))
}

/// Creates the memory for the bodies of one session: a part of that of all hosts, so that no host uses up
/// all of it.
pub(crate) fn session_body_budget(settings: &HttpSettings) -> Arc<Semaphore> {
    let bytes = (settings.body_memory / SESSIONS_OF_LARGE_BODIES).max(settings.message_limit);
    Arc::new(Semaphore::new((bytes.min(settings.body_memory) / 1024).clamp(1, Semaphore::MAX_PERMITS)))
}

/// How many sessions may use as much memory for bodies as they are allowed to.
const SESSIONS_OF_LARGE_BODIES: usize = 4;

/// Reads a body, within the memory for all bodies, and within that of its session if it has one.
pub(crate) async fn read_body(
    body: Incoming,
    settings: &HttpSettings,
    (shared, own): (&Arc<Semaphore>, Option<&Arc<Semaphore>>),
) -> Result<(Bytes, BodyMemory), BodyRefusal> {
    let memory = BodyMemory { shared: Some(MemoryShare::new(shared)), own: own.map(MemoryShare::new) };
    let read = read_all(body, settings.message_limit, memory);
    timeout(settings.body_timeout, read).await.unwrap_or(Err(BodyRefusal::TooSlow))
}

async fn read_all(
    mut body: Incoming,
    limit: usize,
    mut memory: BodyMemory,
) -> Result<(Bytes, BodyMemory), BodyRefusal> {
    if body.size_hint().lower() > limit as u64 {
        return Err(BodyRefusal::TooLarge);
    }
    let mut all = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|_| BodyRefusal::Broken)?;
        let Ok(chunk) = frame.into_data() else { continue };
        if chunk.len() > limit - all.len() {
            return Err(BodyRefusal::TooLarge);
        }
        memory.grow_to(all.len() + chunk.len())?;
        all.extend_from_slice(&chunk);
    }
    Ok((all.freeze(), memory))
}

impl BodyMemory {
    fn grow_to(&mut self, bytes: usize) -> Result<(), BodyRefusal> {
        self.own.as_mut().map_or(Ok(()), |own| own.grow_to(bytes))?;
        self.shared.as_mut().map_or(Ok(()), |shared| shared.grow_to(bytes))
    }
}

impl MemoryShare {
    fn new(budget: &Arc<Semaphore>) -> Self {
        Self { budget: Arc::clone(budget), held: None }
    }

    fn grow_to(&mut self, bytes: usize) -> Result<(), BodyRefusal> {
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let Some(missing) = (bytes.div_ceil(1024)).checked_sub(held).filter(|missing| *missing > 0) else {
            return Ok(());
        };
        let missing = u32::try_from(missing).map_err(|_| BodyRefusal::NoMemory)?;
        // Bodies that waited for each other's memory would wait forever.
        let more = Arc::clone(&self.budget).try_acquire_many_owned(missing);
        let more = more.map_err(|_| BodyRefusal::NoMemory)?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }
}
