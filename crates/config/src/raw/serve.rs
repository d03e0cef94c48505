//! Owns the keys of `[serve]`.

use crate::keys::{Count, Scopes, StringMap, Strings, Text, keys};
use crate::serve::ServeLimits;

keys! {
    /// How `bowline serve` serves hosts. Only the user's own file has it; in a project's file it has no
    /// effect.
    pub(crate) struct RawServe {
        /// OAuth for hosts over HTTP: `bowline serve` accepts access tokens of the issuers named here.
        oauth: RawServeOauth,

        /// What one host may use.
        #[meant_by("limit")]
        limits: RawServeLimits,
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

keys! {
    /// What one host of `bowline serve` may use, so that it leaves something to the others. All hosts
    /// with one token together may use four times as much.
    pub(crate) struct RawServeLimits {
        /// How many requests a host may have open, those included that wait to be served.
        #[meant_by("in_flight", "concurrent", "max_requests")]
        requests_in_flight: Count = ServeLimits::REQUESTS_IN_FLIGHT,

        /// How many requests a host may send in a second, after a burst. Left out, there is no limit.
        #[meant_by("rate", "rate_limit", "per_second")]
        requests_per_second: Count,

        /// How many requests a host may send at once; needs `requests_per_second`. Left out, as many as
        /// in ten seconds.
        burst: Count,

        /// How many sessions all hosts with one token may have. Left out, as many as there may be at all:
        /// 100 if servers are processes, and 10,000 otherwise.
        #[meant_by("max_sessions")]
        sessions: Count,

        /// How large a message of a host may be, in KiB.
        #[meant_by("body", "max_body", "message_limit", "body_size")]
        body_kib: Count = ServeLimits::BODY_KIB,
    }
}
