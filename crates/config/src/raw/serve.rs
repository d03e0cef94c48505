//! Owns the keys of `[serve]` and its tables: how `bowline serve` serves hosts.

use crate::dialect::Unread;
use crate::keys::{Count, keys};
use crate::serve::ServeLimits;

keys! {
    /// How `bowline serve` serves hosts. Only the user's own file sets it; in a project's file the table
    /// has no effect.
    pub(crate) struct RawServe {
        /// What one host may use.
        #[meant_by("limit")]
        limits: Unread<RawServeLimits>,
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
