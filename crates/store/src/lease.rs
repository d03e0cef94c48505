//! Owns the parts of a lease: an unguessable token, and a bounded lifetime.

use std::time::Duration;

use crate::{StoreError, random};

/// The longest lifetime of a lease without renewal; longer requests are reduced to this.
///
/// It also bounds the effect of clock changes: a lease that seems to end later than this was
/// granted before the clock was set back, and counts as expired.
pub const MAX_LEASE_TTL: Duration = Duration::from_secs(300);

/// A shorter lease could expire before its holder knows of it.
const MIN_LEASE_TTL: Duration = Duration::from_millis(10);

/// Clamps a requested lifetime to the allowed range.
pub(crate) fn clamp_ttl(ttl: Duration) -> Duration {
    ttl.clamp(MIN_LEASE_TTL, MAX_LEASE_TTL)
}

/// Clamps a requested lifetime, in milliseconds.
#[cfg(any(feature = "sqlite", feature = "valkey"))]
pub(crate) fn clamp_ttl_ms(ttl: Duration) -> i64 {
    i64::try_from(clamp_ttl(ttl).as_millis()).unwrap_or(i64::MAX)
}

/// Creates a token that distinguishes a lease from all others.
pub(crate) fn new_token() -> Result<String, StoreError> {
    Ok(random::hex(&random::bytes::<16>()?))
}
