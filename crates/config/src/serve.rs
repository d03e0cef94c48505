//! Owns the validated form of `[serve]`: how `bowline serve` serves hosts.

/// How `bowline serve` serves hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ServeSettings {
    /// The access tokens that hosts over HTTP can have; `None` accepts none.
    pub oauth: Option<OAuthResource>,
    /// What one host may use.
    pub limits: ServeLimits,
}

/// A resource that OAuth access tokens are issued for, and which of them are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct OAuthResource {
    /// The URL at which hosts reach the endpoint, to the letter. Tokens need it as their audience.
    pub resource: String,
    /// The issuers whose tokens are accepted, to the letter. At least one.
    pub issuers: Vec<String>,
    /// The scopes that every request needs.
    pub scopes: Vec<String>,
    /// Scopes with the view that each opens, in the order of the file. If there are any, a token opens
    /// these views only.
    pub view_scopes: Vec<(String, String)>,
}

impl OAuthResource {
    /// Creates a resource whose tokens need no scopes and open every view; set the fields where they do
    /// not.
    pub fn new(resource: impl Into<String>, issuers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let issuers = issuers.into_iter().map(Into::into).collect();
        Self { resource: resource.into(), issuers, scopes: Vec::new(), view_scopes: Vec::new() }
    }
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

impl ServeRate {
    /// Creates a rate. Zero is raised to one.
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self { per_second: per_second.max(1), burst: burst.max(1) }
    }
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
