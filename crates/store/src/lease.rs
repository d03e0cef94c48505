//! Owns what a lease is made of: a token that nobody guesses, and a time that is never long.

use std::time::Duration;

use crate::{StoreError, random};

/// The longest that a lease lasts without being renewed; who asks for more gets this.
///
/// It is also the bound on what a clock that jumps can do: a lease that seems to end later than this was
/// granted by a clock that has been set back since, and counts as ended.
pub const LONGEST_LEASE: Duration = Duration::from_secs(300);

/// A lease of less than this could end before its holder knows of it.
const SHORTEST: Duration = Duration::from_millis(10);

/// For how long a lease is given to somebody who asks for `ttl`.
pub(crate) fn bounded(ttl: Duration) -> Duration {
    ttl.clamp(SHORTEST, LONGEST_LEASE)
}

/// In milliseconds.
pub(crate) fn bounded_ms(ttl: Duration) -> i64 {
    i64::try_from(bounded(ttl).as_millis()).unwrap_or(i64::MAX)
}

/// Tells one lease from all others, before and after.
pub(crate) fn token() -> Result<String, StoreError> {
    Ok(random::hex(&random::bytes::<16>()?))
}
