//! Owns the validated form of `[serve]`: how `bowline serve` serves hosts.

/// How `bowline serve` serves hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServeSettings {
    /// The access tokens that hosts over HTTP can have; `None` accepts none.
    pub oauth: Option<OAuthResource>,
}

/// A resource that OAuth access tokens are issued for, and which of them are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
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
