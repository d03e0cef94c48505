//! Owns the validated form of `[serve]`: how `bowline serve` serves hosts.

/// How a gateway serves hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ServeConfig {
    /// What one host may use.
    pub limits: ServeLimits,
}

/// What one host of a gateway may use. All hosts with one token together may use a few times as much.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ServeLimits {
    /// How many requests it may have open.
    pub requests_in_flight: u32,
    /// How many requests it may send in a second, and how many at once. `None`: as many as it likes.
    pub rate: Option<ServeRate>,
    /// How many sessions all hosts with one token may have. `None`: as many as there may be at all.
    pub sessions: Option<u32>,
    /// How many KiB a message may have.
    pub body_kib: u32,
}

/// How fast requests of a host may come. Neither is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ServeRate {
    /// How many requests in a second.
    pub per_second: u32,
    /// How many requests at once.
    pub burst: u32,
}

impl ServeLimits {
    pub(crate) const REQUESTS_IN_FLIGHT: u32 = 2048;
    pub(crate) const BODY_KIB: u32 = 64 * 1024;
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            requests_in_flight: Self::REQUESTS_IN_FLIGHT,
            rate: None,
            sessions: None,
            body_kib: Self::BODY_KIB,
        }
    }
}
