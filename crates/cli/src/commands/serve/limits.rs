//! What one host of `bowline serve` may use: `[serve.limits]` of the user's own file.

use bowline::config::{Problem, ServeLimits, ServeRate};
use bowline_gateway::{HostLimits, HttpSettings};

use crate::failure::{Failure, Outcome};
use crate::settings::Settings;

/// Returns the configured limits. Limits with a mistake are an error: whoever has set some relies on
/// them.
pub(super) fn configured(settings: &Settings) -> Outcome<ServeLimits> {
    let layers = settings.layers()?;
    let problems: Vec<Problem> = layers.serve_problems().cloned().collect();
    if problems.is_empty() {
        Ok(layers.serve().limits)
    } else {
        Err(Failure::config("the table `serve` cannot be used", problems))
    }
}

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
