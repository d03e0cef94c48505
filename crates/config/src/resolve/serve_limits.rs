//! Resolves `[serve.limits]`.

use super::{Resolver, set_if_given};
use crate::problem::ProblemKind;
use crate::raw::RawServeLimits;
use crate::report::{Finding, LocatedValue};
use crate::serve::{ServeLimits, ServeRate};

impl Resolver<'_, '_> {
    /// Resolves `[serve.limits]`. Whatever is wrong with it is reported.
    pub(crate) fn resolve_serve_limits(&mut self, table: LocatedValue<RawServeLimits>) -> ServeLimits {
        let RawServeLimits { requests_in_flight, requests_per_second, burst, sessions, body_kib, garbled } =
            table.value;
        if let (None, Some(burst)) = (&requests_per_second, &burst)
            && !garbled.contains(&"requests_per_second")
        {
            let finding = Finding::new(ProblemKind::Conflict, "belongs to `requests_per_second`")
                .hint("without it requests may come as fast as they are answered");
            self.report.error(&burst.place, finding);
        }
        let mut limits = ServeLimits::default();
        set_if_given(&mut limits.requests_in_flight, requests_in_flight);
        set_if_given(&mut limits.body_kib, body_kib);
        limits.sessions = sessions.map(|sessions| sessions.value);
        limits.rate = requests_per_second.map(|LocatedValue { value: per_second, .. }| {
            let burst = burst.map(|burst| burst.value);
            ServeRate::new(per_second, burst.unwrap_or_else(|| per_second.saturating_mul(BURST_SECONDS)))
        });
        limits
    }
}

/// How many seconds of the rate a burst has that is not set.
const BURST_SECONDS: u32 = 10;
