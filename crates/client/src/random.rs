//! Random numbers for waits and ids, where a guess does no harm.

use std::hash::{BuildHasher as _, RandomState};

/// Returns a number that differs from call to call and from process to process. It comes from the
/// seed of the standard library's hash maps, and is not for secrets.
pub(crate) fn random_u64() -> u64 {
    RandomState::new().hash_one(())
}
