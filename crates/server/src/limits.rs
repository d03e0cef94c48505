//! [`HostLimits`]: what one host may use, so that it leaves something to the others; and what a host is
//! told that wants more.

use std::sync::Arc;
use std::time::Duration;

use bowline_proto::server::UNREACHABLE;
use bowline_proto::server::quota::{QuotaExcess, QuotaLimits, Rate};
use bowline_proto::wire::{Json, RpcError};
use parking_lot::Mutex;
use serde_json::json;

/// What one host may use.
///
/// A host is a session, or for hosts of 2026-07-28, which have none, those of the same name and version.
/// All hosts of one identity together may use [`HOSTS_PER_IDENTITY`] times as much. An identity is the
/// token that a host has: hosts that share one still cannot starve each other.
///
/// A request over a limit is not executed. It is answered with an error that says how long to wait.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLimits {
    requests: QuotaLimits,
    pub(crate) sessions: Option<usize>,
}

/// Changes the limits of hosts while they are served. Clones change the same limits.
#[derive(Clone, Debug)]
pub struct LimitsControl(Arc<Mutex<HostLimits>>);

impl LimitsControl {
    pub(crate) fn new(limits: HostLimits) -> Self {
        Self(Arc::new(Mutex::new(limits)))
    }

    pub(crate) fn get(&self) -> HostLimits {
        *self.0.lock()
    }

    /// Sets other limits. Requests that are open count for them, too.
    pub fn set(&self, limits: HostLimits) {
        *self.0.lock() = limits;
    }
}

/// How many times as much as one host all hosts of an identity may use.
pub const HOSTS_PER_IDENTITY: u32 = 4;

impl Default for HostLimits {
    fn default() -> Self {
        Self::new()
    }
}

impl HostLimits {
    /// Creates the default limits, which no host reaches that means well.
    pub fn new() -> Self {
        Self { requests: QuotaLimits { in_flight: DEFAULT_IN_FLIGHT, rate: None }, sessions: None }
    }

    /// Sets how many requests a host may have open, those included that wait to be served (default
    /// 2,048: twice of what hosts send at once that mean well).
    pub fn with_requests_in_flight(mut self, requests: usize) -> Self {
        self.requests.in_flight = requests;
        self
    }

    /// Sets how many requests a host may send: `burst` at once, and after that `per_second`. By default,
    /// and if one of them is zero, there is no limit: requests in flight bound what a host costs, and on
    /// one's own machine there is no reason to slow one down.
    pub fn with_rate(mut self, per_second: u32, burst: u32) -> Self {
        self.requests.rate = Rate::new(per_second, burst);
        self
    }

    /// Sets how many sessions an identity may have (default: as many as there may be at all).
    pub fn with_sessions(mut self, sessions: usize) -> Self {
        self.sessions = Some(sessions);
        self
    }

    pub(crate) fn of_host(self) -> QuotaLimits {
        self.requests
    }

    pub(crate) fn of_identity(self) -> QuotaLimits {
        self.requests.times(HOSTS_PER_IDENTITY)
    }
}

/// Twice the number of calls that hosts are known to send at once, a thousand.
const DEFAULT_IN_FLIGHT: usize = 2048;
/// How long a host should wait until one of its sessions may have ended.
pub(crate) const SESSION_WAIT: Duration = Duration::from_secs(5);

/// Whose limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitScope {
    /// That of one host.
    Host,
    /// That of all hosts with its token.
    Identity,
}

/// The error for a request that was not admitted.
pub(crate) fn request_refused(scope: LimitScope, excess: QuotaExcess) -> RpcError {
    let whose = match scope {
        LimitScope::Host => "this host",
        LimitScope::Identity => "the hosts with this token",
    };
    match excess {
        QuotaExcess::InFlight { limit, wait } => {
            let why = format!("too many requests are open: {limit} of {whose} may be");
            refused("busy", &why, wait)
        }
        QuotaExcess::Rate { wait } => refused("rate", &format!("too many requests of {whose}"), wait),
    }
}

/// The error for a session that is one too many of its identity.
pub(crate) fn session_refused(limit: usize) -> RpcError {
    let why = format!("too many sessions: {limit} may be open with this token");
    refused("sessions", &why, SESSION_WAIT)
}

/// The error for a session that is one too many of all.
pub(crate) fn listener_full(limit: usize) -> RpcError {
    let why = format!("too many sessions: {limit} may be open at once");
    refused("sessions", &why, SESSION_WAIT)
}

/// An error in the form in which a gateway reports a server that failed. A model that reads the message
/// knows that nothing was done, and when to try again.
fn refused(cause: &str, why: &str, wait: Duration) -> RpcError {
    let seconds = tenths_rounded_up(wait);
    let message = format!("bowline: {why} (the request was not executed); wait {seconds} s");
    let facts = json!({ "bowline": { "cause": cause, "execution": "not_executed", "retry_after": seconds } });
    RpcError { code: UNREACHABLE, message, data: Json::encode(&facts).ok() }
}

/// The time in seconds, rounded up to tenths: who comes back sooner is refused again.
fn tenths_rounded_up(wait: Duration) -> f64 {
    let tenths = u32::try_from(wait.as_millis().div_ceil(100)).unwrap_or(u32::MAX);
    f64::from(tenths.max(1)) / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_when_to_come_back() {
        let error =
            request_refused(LimitScope::Host, QuotaExcess::Rate { wait: Duration::from_millis(1201) });
        assert_eq!(
            (error.code, &*error.message),
            (-31050, "bowline: too many requests of this host (the request was not executed); wait 1.3 s")
        );
        let facts = json!({"bowline": {"cause": "rate", "execution": "not_executed", "retry_after": 1.3}});
        assert_eq!(error.data.unwrap().decode::<serde_json::Value>().unwrap(), facts);
        let error = request_refused(
            LimitScope::Identity,
            QuotaExcess::InFlight { limit: 8, wait: Duration::from_millis(250) },
        );
        assert_eq!(
            error.message,
            "bowline: too many requests are open: 8 of the hosts with this token may be (the request was not \
             executed); wait 0.3 s"
        );
        assert_eq!(tenths_rounded_up(Duration::from_nanos(1)).to_string(), "0.1");
    }

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        assert_eq!(HostLimits::new().with_rate(0, 5), HostLimits::new());
    }
}
