//! [`Admission`]: which requests are served, so that no host and no identity uses up what all share.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use bowline_proto::server::quota::{Quota, QuotaExcess};
use bowline_proto::wire::RpcError;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::audience::Audience;
use crate::limits::{HostLimits, LimitScope, LimitsControl, request_refused};

/// Counts the requests of all hosts.
#[derive(Debug)]
pub(crate) struct Admission {
    limits: LimitsControl,
    identities: Mutex<Identities>,
    /// Turns what hosts call themselves into keys of a fixed size.
    hasher: RandomState,
}

#[derive(Debug)]
struct Identities {
    by_principal: HashMap<Option<Box<str>>, Arc<Identity>>,
    /// When there are this many, those that are unused are dropped.
    sweep_at: usize,
}

/// All hosts with one token.
#[derive(Debug)]
struct Identity {
    quota: Mutex<Quota>,
    /// Hosts without a session, by what they call themselves.
    stateless: Mutex<HashMap<u64, Arc<Mutex<Quota>>>>,
}

/// Counts the requests of one host.
#[derive(Debug)]
pub(crate) struct HostAdmission {
    identity: Arc<Identity>,
    quota: Arc<Mutex<Quota>>,
    limits: LimitsControl,
}

/// A request that is open until this is dropped.
#[derive(Debug)]
pub(crate) struct RequestSlot(Arc<HostAdmission>);

/// How many identities are kept before those that are unused are looked for.
const MIN_SWEEP: usize = 256;
/// Most hosts without a session that are told apart in one identity. Further ones count as one host.
const MAX_STATELESS_HOSTS: usize = 1024;
/// The key of hosts without a session that are not told apart.
const OTHER_HOSTS: u64 = 0;

impl Admission {
    pub(crate) fn new(limits: HostLimits) -> Self {
        let identities = Identities { by_principal: HashMap::new(), sweep_at: MIN_SWEEP };
        Self {
            limits: LimitsControl::new(limits),
            identities: Mutex::new(identities),
            hasher: RandomState::new(),
        }
    }

    /// Counts the requests of a session that begins.
    pub(crate) fn begin_session(&self, audience: &Audience) -> Arc<HostAdmission> {
        let (identity, quota) = (self.identity(audience), self.host_quota());
        Arc::new(HostAdmission { identity, quota, limits: self.limits.clone() })
    }

    /// Counts the requests of hosts without a session that call themselves this.
    pub(crate) fn stateless_host(&self, audience: &Audience, name: &str) -> Arc<HostAdmission> {
        let identity = self.identity(audience);
        let now = Instant::now();
        let mut hosts = identity.stateless.lock();
        let mut key = self.hasher.hash_one(name).max(OTHER_HOSTS + 1);
        if hosts.len() >= MAX_STATELESS_HOSTS && !hosts.contains_key(&key) {
            hosts.retain(|_, quota| !is_unused(quota, now));
            if hosts.len() >= MAX_STATELESS_HOSTS {
                key = OTHER_HOSTS;
            }
        }
        let quota = Arc::clone(hosts.entry(key).or_insert_with(|| self.host_quota()));
        drop(hosts);
        Arc::new(HostAdmission { identity, quota, limits: self.limits.clone() })
    }

    /// Changes the limits, also for hosts that are there already.
    pub(crate) fn limits(&self) -> &LimitsControl {
        &self.limits
    }

    fn host_quota(&self) -> Arc<Mutex<Quota>> {
        Arc::new(Mutex::new(Quota::new(self.limits.get().of_host())))
    }

    fn identity(&self, audience: &Audience) -> Arc<Identity> {
        let mut identities = self.identities.lock();
        let Identities { by_principal, sweep_at } = &mut *identities;
        let principal = audience.principal().map(Box::from);
        if by_principal.len() >= *sweep_at && !by_principal.contains_key(&principal) {
            let now = Instant::now();
            by_principal.retain(|_, identity| !identity.is_unused(now));
            *sweep_at = (2 * by_principal.len()).max(MIN_SWEEP);
        }
        let identity = by_principal.entry(principal).or_insert_with(|| {
            let quota = Mutex::new(Quota::new(self.limits.get().of_identity()));
            Arc::new(Identity { quota, stateless: Mutex::default() })
        });
        Arc::clone(identity)
    }
}

impl Identity {
    /// Whether nothing is lost if it is forgotten.
    fn is_unused(self: &Arc<Self>, now: Instant) -> bool {
        let mut stateless = self.stateless.lock();
        stateless.retain(|_, quota| !is_unused(quota, now));
        // A session holds it, and so does whoever is just about to.
        stateless.is_empty() && Arc::strong_count(self) == 1 && self.quota.lock().is_unused(now.into_std())
    }
}

impl HostAdmission {
    /// Counts the requests of a host that is the only one.
    pub(crate) fn alone(limits: HostLimits) -> Arc<Self> {
        Admission::new(limits).begin_session(&Audience::default())
    }

    /// Changes the limits.
    pub(crate) fn limits(&self) -> &LimitsControl {
        &self.limits
    }

    /// Admits a request, or returns the error that its host is told.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<RequestSlot, RpcError> {
        let refuse = |scope| move |excess: QuotaExcess| request_refused(scope, excess);
        let mut own = self.quota.lock();
        let mut shared = self.identity.quota.lock();
        let limits = self.limits.get();
        own.set_limits(limits.of_host());
        shared.set_limits(limits.of_identity());
        // The clock is read under the locks, so that times come in their order.
        let now = Instant::now().into_std();
        own.check(now).map_err(refuse(LimitScope::Host))?;
        shared.check(now).map_err(refuse(LimitScope::Identity))?;
        own.take(now);
        shared.take(now);
        Ok(RequestSlot(Arc::clone(self)))
    }
}

/// Whether nothing is lost if the quota of a host without a session is forgotten.
fn is_unused(quota: &Arc<Mutex<Quota>>, now: Instant) -> bool {
    Arc::strong_count(quota) == 1 && quota.lock().is_unused(now.into_std())
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        let mut own = self.0.quota.lock();
        let mut shared = self.0.identity.quota.lock();
        let now = Instant::now().into_std();
        own.release(now);
        shared.release(now);
    }
}

#[cfg(test)]
mod tests;
