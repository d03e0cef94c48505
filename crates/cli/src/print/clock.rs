//! Formats points in time and longer spans.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Formats a time in UTC with milliseconds, for machines.
pub(crate) fn utc(at: SystemTime) -> String {
    format!("{:.3}", stamp(at))
}

/// Formats a time of day in the local time zone: `14:03:07`.
pub(crate) fn local(at: SystemTime) -> String {
    stamp(at).to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// Formats a span: `42s`, `3m 07s`, `5h 02m`, `12d 3h`.
pub(crate) fn format_span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m {:02}s", seconds % 60),
        3600..86_400 => format!("{hours}h {minutes:02}m"),
        _ => format!("{days}d {hours}h"),
    }
}

/// Returns the time since `at`, or zero if the clock was set back.
pub(crate) fn since(now: SystemTime, at: SystemTime) -> Duration {
    now.duration_since(at).unwrap_or_default()
}

fn stamp(at: SystemTime) -> Timestamp {
    Timestamp::try_from(at).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        for (seconds, shown) in
            [(0, "0s"), (59, "59s"), (187, "3m 07s"), (18_121, "5h 02m"), (1_047_600, "12d 3h")]
        {
            assert_eq!(format_span(Duration::from_secs(seconds)), shown);
        }
    }

    #[test]
    fn machines_get_utc() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_792_043_445_007);
        assert_eq!(utc(at), "2026-10-15T05:50:45.007Z");
    }
}
