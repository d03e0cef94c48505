//! What one host of `bowline serve` may use: `[serve.limits]` of the user's own file.

use bowline::config::{ServeLimits, ServeRate};
use bowline_gateway::{HostLimits, HttpSettings};

/// The limits, as a listener has them.
pub(super) fn host_limits(limits: &ServeLimits) -> HostLimits {
    let mut host = HostLimits::new().with_requests_in_flight(limits.requests_in_flight as usize);
    if let Some(ServeRate { per_second, burst, .. }) = limits.rate {
        host = host.with_rate(per_second, burst);
    }
    match limits.sessions {
        Some(sessions) => host.with_sessions(sessions as usize),
        None => host,
    }
}

/// Sets the limits of a listener.
pub(super) fn apply(http: HttpSettings, limits: &ServeLimits) -> HttpSettings {
    http.with_host_limits(host_limits(limits)).with_message_limit(limits.body_kib as usize * 1024)
}
