//! Owns the lease that lets one process at a time prompt the person.

use std::future::Future;

use bowline_store::{EncryptedStore, Lease, Lock, StoreError};
use tokio::runtime::Handle;

use crate::refresh::driver::{LEASE_TTL, LoginStore, keep_lease_during};

/// The lease that allows one process to prompt the person. Dropping it releases it, so that a
/// canceled login can be repeated at once.
pub(super) struct LoginLease {
    store: EncryptedStore,
    lease: Option<Lease>,
    /// Ends with the process, also where the process ends before the lease is released.
    _lock: Lock,
}

impl LoginLease {
    /// Takes the lease of logins to a server; `None` if another process has it.
    pub(super) async fn acquire(login: &LoginStore) -> Result<Option<Self>, StoreError> {
        let (store, name) = (login.store.clone(), format!("login/{}", login.key.id));
        // A free lock proves that the process that left a lease behind has ended.
        let Ok(lock) = store.lock(&name).await? else { return Ok(None) };
        let lease = store.acquire(&name, LEASE_TTL).await?;
        Ok(lease.map(|lease| Self { store, lease: Some(lease), _lock: lock }))
    }

    pub(super) async fn keep_during<T>(&self, work: impl Future<Output = T>) -> T {
        keep_lease_during(&self.store, self.lease.as_ref(), work).await
    }

    pub(super) async fn release(mut self) {
        if let Some(lease) = self.lease.take() {
            // The lease expires by itself if the release fails.
            let _ = self.store.release(lease).await;
        }
    }
}

impl Drop for LoginLease {
    fn drop(&mut self) {
        if let (Some(lease), Ok(runtime)) = (self.lease.take(), Handle::try_current()) {
            let store = self.store.clone();
            runtime.spawn(async move { store.release(lease).await });
        }
    }
}
