//! [`CallOwners`]: whom a server addresses that several hosts share.
//!
//! A legacy server does not say which call a request or a log message of its own is about. So it is
//! about a host only if it cannot be about another one: every call that the server may still be
//! working on, or has just answered, is a call of that host.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// The hosts that share a server, and the calls that it may be working on. `H` names a host.
#[derive(Debug)]
pub struct CallOwners<H> {
    hosts: BTreeSet<H>,
    open: BTreeMap<CallKey, H>,
    /// Hosts with a call that has ended, and until when the server may still speak of it.
    ended: HashMap<H, Instant>,
    grace: GracePeriods,
    last_key: u64,
}

/// How long a server may still speak of a call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct GracePeriods {
    /// If it has responded. What it said before its response may be handled after it.
    pub answered: Duration,
    /// If it has not: a cancellation is a request, which servers may ignore.
    pub abandoned: Duration,
}

/// One open call. Later calls are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey(u64);

/// Whether the server has responded to a call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// It has, or was never sent the call.
    Answered,
    /// It may be working on it.
    Abandoned,
}

/// Whom a message of the server is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<H> {
    /// This host. The call is the latest of its open ones, if it has any.
    Host {
        /// The host.
        host: H,
        /// Its latest open call.
        call: Option<CallKey>,
    },
    /// It may be for any of several hosts.
    Unclear,
    /// There is no host.
    Nobody,
}

impl<H: Copy + Ord + Hash> CallOwners<H> {
    /// Begins without hosts.
    pub fn new(grace: GracePeriods) -> Self {
        Self { hosts: BTreeSet::new(), open: BTreeMap::new(), ended: HashMap::new(), grace, last_key: 0 }
    }

    /// Adds a host.
    pub fn join(&mut self, host: H) {
        self.hosts.insert(host);
    }

    /// Removes a host. Its open calls end by themselves. Returns whether there are others.
    pub fn leave(&mut self, host: H) -> bool {
        self.hosts.remove(&host);
        !self.hosts.is_empty()
    }

    /// Begins a call of a host, which is about to be sent to the server.
    pub fn begin(&mut self, host: H) -> CallKey {
        self.last_key += 1;
        let key = CallKey(self.last_key);
        self.open.insert(key, host);
        key
    }

    /// Ends a call.
    pub fn end(&mut self, call: CallKey, end: CallEnd, now: Instant) {
        let Some(host) = self.open.remove(&call) else { return };
        let until = now
            + match end {
                CallEnd::Answered => self.grace.answered,
                CallEnd::Abandoned => self.grace.abandoned,
            };
        self.ended.retain(|_, until| *until > now);
        let latest = self.ended.entry(host).or_insert(until);
        *latest = until.max(*latest);
    }

    /// Whom a message of the server is for that belongs to no known call.
    // GW-15
    pub fn owner(&self, now: Instant) -> Owner<H> {
        let ended = self.ended.iter().filter(|(_, until)| **until > now).map(|(host, _)| *host);
        let mut working = self.open.values().copied().chain(ended);
        let host = match working.next() {
            Some(first) if working.all(|other| other == first) => first,
            Some(_) => return Owner::Unclear,
            None => match (self.hosts.first(), self.hosts.len()) {
                (Some(only), 1) => *only,
                (None, _) => return Owner::Nobody,
                _ => return Owner::Unclear,
            },
        };
        if !self.hosts.contains(&host) {
            // It has left, and what its call still has to say is for nobody.
            return Owner::Nobody;
        }
        let call = self.open.last_key_value().map(|(key, _)| *key);
        Owner::Host { host, call }
    }
}

#[cfg(test)]
mod tests;
