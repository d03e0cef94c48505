//! Owns when a token is refreshed: how long before it expires, and the backoff after a failure.

use std::time::{Duration, SystemTime};

use crate::record::LoginRecord;

/// How long before its expiry a token is refreshed: a tenth of its lifetime, within bounds, and at
/// most half of it, so that a token that lives for seconds is not refreshed continuously.
pub(crate) fn skew(lifetime: Duration) -> Duration {
    (lifetime / 10).clamp(SKEW_MIN, SKEW_MAX).min(lifetime / 2)
}

/// When a token is due for a refresh; `None` means only when it is refused.
///
/// The lifetime is computed from the stored record, so that adjusting the clock does not change it.
pub(crate) fn due_at(record: &LoginRecord) -> Option<SystemTime> {
    let end = record.expires_at?;
    end.checked_sub(record_skew(record, end))
}

/// When an idle process refreshes a token: slightly before it is due, and each process at another
/// moment, so that usually one has finished before the next starts. `share` is the jitter, from 0
/// to 1.
pub(crate) fn idle_refresh_at(record: &LoginRecord, share: f64) -> Option<SystemTime> {
    let end = record.expires_at?;
    let skew = record_skew(record, end);
    end.checked_sub(skew + skew.mul_f64(share.clamp(0.0, 1.0) / 2.0))
}

/// Whether a token has to be refreshed before use.
pub(crate) fn is_due(record: &LoginRecord, now: SystemTime) -> bool {
    due_at(record).is_some_and(|due| now >= due)
}

/// The remaining life of a token; `None` if its expiry is unknown.
pub(crate) fn time_left(record: &LoginRecord, now: SystemTime) -> Option<Duration> {
    record.expires_at.map(|end| end.duration_since(now).unwrap_or_default())
}

/// The wait after so many consecutive failures (from 1): one second, doubled each time up to one
/// minute, reduced by up to a quarter. `share` is the jitter, from 0 to 1.
pub(crate) fn backoff(failures: u32, share: f64) -> Duration {
    let doubled = BACKOFF_MIN.saturating_mul(1 << failures.saturating_sub(1).min(6));
    doubled.min(BACKOFF_MAX).mul_f64(1.0 - share.clamp(0.0, 1.0) / 4.0)
}

const SKEW_MIN: Duration = Duration::from_secs(5);
const SKEW_MAX: Duration = Duration::from_secs(5 * 60);
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

fn record_skew(record: &LoginRecord, end: SystemTime) -> Duration {
    skew(end.duration_since(record.obtained_at()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::tests::record;

    #[test]
    fn an_hour_is_renewed_five_minutes_early_and_a_minute_six_seconds() {
        assert_eq!(skew(Duration::from_secs(3600)), Duration::from_secs(5 * 60));
        assert_eq!(skew(Duration::from_secs(60)), Duration::from_secs(6));
        assert_eq!(skew(Duration::from_secs(20)), Duration::from_secs(5));
        assert_eq!(skew(Duration::from_secs(4)), Duration::from_secs(2), "at most half of its life");
        assert_eq!(skew(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn an_end_that_is_not_known_is_never_due() {
        let record = record("a", Some("r"), None);
        assert_eq!(due_at(&record), None);
        assert!(!is_due(&record, SystemTime::now() + Duration::from_secs(10_000 * 3600)));
    }

    #[test]
    fn waits_grow_from_a_second_to_a_minute() {
        let waits: Vec<u64> = (1..=8).map(|failures| backoff(failures, 0.0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff(u32::MAX, 1.0), Duration::from_secs(45));
    }

    proptest! {
        #[test]
        fn a_token_is_renewed_in_the_second_half_of_its_life_and_idle_processes_come_first(
            life in 0_u64..1_000_000, share in 0.0_f64..=1.0, obtained in 0_u64..4_000_000_000,
        ) {
            let start = SystemTime::UNIX_EPOCH + Duration::from_secs(obtained);
            let mut record = record("a", Some("r"), None);
            record.refreshed_at = Some(start);
            record.expires_at = Some(start + Duration::from_secs(life));
            let (due, early) = (due_at(&record).unwrap(), idle_refresh_at(&record, share).unwrap());
            prop_assert!(due >= start + Duration::from_secs(life) / 2);
            prop_assert!(due <= start + Duration::from_secs(life));
            prop_assert!(early <= due && early >= start);
        }
    }
}
