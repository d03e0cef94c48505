//! Owns the keys of `[serve]`.

use crate::keys::{Scopes, StringMap, Strings, Text, keys};

keys! {
    /// How `bowline serve` serves hosts. Only the user's own file has it; in a project's file it has no
    /// effect.
    pub(crate) struct RawServe {
        /// OAuth for hosts over HTTP: `bowline serve` accepts access tokens of the issuers named here.
        oauth: RawServeOauth,
    }
}

keys! {
    /// OAuth for hosts of `bowline serve` over HTTP, for teams. Access tokens are JWTs of one of the
    /// issuers, for this resource. They are accepted beside the token that `bowline serve` makes itself.
    pub(crate) struct RawServeOauth {
        /// The URL at which hosts reach the endpoint, such as `https://gateway.example.com/mcp`: https,
        /// or on this machine. Tokens need it as their audience.
        #[meant_by("audience", "url", "aud")]
        resource: Text,

        /// The issuers whose tokens are accepted, as they write themselves.
        #[meant_by("issuer", "authorization_servers", "iss")]
        issuers: Strings,

        /// The scopes that every request needs: a list, or one string with blanks between them.
        #[meant_by("scope", "required_scopes")]
        scopes: Scopes,

        /// The views that scopes open, by scope: `views = { "mcp:research" = "research" }`. With this
        /// table, a token opens the views of its scopes and nothing else; without it, everything.
        #[meant_by("view")]
        views: StringMap,
    }
    rules {
        "required": ["resource", "issuers"],
    }
}
