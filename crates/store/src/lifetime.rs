//! Owns the bounds of a lifetime: that of a value, of a log, and of a counter.

use std::time::Duration;

/// The longest lifetime of a value, log or counter; longer requests are reduced to this.
pub const MAX_TTL: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The shortest lifetime. Both servers and files count in milliseconds.
const MIN_TTL: Duration = Duration::from_millis(1);

/// Clamps a requested lifetime to the allowed range.
pub(crate) fn clamp(ttl: Duration) -> Duration {
    ttl.clamp(MIN_TTL, MAX_TTL)
}

/// Clamps a requested lifetime, in milliseconds.
#[cfg(any(feature = "sqlite", feature = "valkey"))]
pub(crate) fn clamp_ms(ttl: Duration) -> i64 {
    i64::try_from(clamp(ttl).as_millis()).unwrap_or(i64::MAX)
}
