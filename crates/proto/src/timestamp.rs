//! Reads and writes the timestamps of the protocol: `date-time` of RFC 3339.
//!
//! A date library does more than this, and takes longer to compile than the rest of this crate. The
//! tests compare with one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Parses a timestamp such as `2026-07-28T09:30:00.5+02:00`. `None` if it is not one, or if it is
/// before the year 1970, where no server of the protocol ran.
pub fn parse(text: &str) -> Option<SystemTime> {
    let (whole, rest) = text.split_at_checked("0000-00-00T00:00:00".len())?;
    let number = |from: usize, length: usize| -> Option<u64> {
        let digits = whole.get(from..from + length)?;
        if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
    };
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !separators.iter().all(|&(at, byte)| whole.as_bytes()[at].eq_ignore_ascii_case(&byte)) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=days_of_month(year, month)).contains(&day) {
        return None;
    }
    // A leap second counts as the one before it.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let zone = rest.find(['Z', 'z', '+', '-'])?;
    let nanos = parse_fraction(&rest[..zone])?;
    let offset = parse_offset(&rest[zone..])?;
    let seconds = days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second.min(59);
    let seconds = seconds.checked_add_signed(-offset)?;
    Some(UNIX_EPOCH + Duration::new(seconds, nanos))
}

/// Writes a time in UTC, to the millisecond. A time before 1970 counts as its beginning.
pub fn format(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // The year and the month whose first day is the last that is not after the day.
    let mut year = 1970 + days / 366;
    while days_since_epoch(year + 1, 1, 1) <= days {
        year += 1;
    }
    let month = (1..=12).rev().find(|month| days_since_epoch(year, *month, 1) <= days).unwrap_or(1);
    let day = days - days_since_epoch(year, month, 1) + 1;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

fn parse_fraction(text: &str) -> Option<u32> {
    if text.is_empty() {
        return Some(0);
    }
    let digits = text.strip_prefix('.')?;
    if !(1..=9).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{digits:0<9}").parse().ok()
}

/// Parses the offset from UTC, in seconds.
fn parse_offset(text: &str) -> Option<i64> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let number = |digits: &str, limit: i64| -> Option<i64> {
        if digits.len() != 2 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok().filter(|value| *value < limit)
    };
    let seconds = number(hours, 24)? * 3600 + number(minutes, 60)? * 60;
    Some(if text.starts_with('-') { -seconds } else { seconds })
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_epoch(year: u64, month: u64, day: u64) -> u64 {
    let before = year - 1;
    let leap_days = (before / 4 - before / 100 + before / 400) - (1969 / 4 - 1969 / 100 + 1969 / 400);
    let months: u64 = (1..month).map(|month| days_of_month(year, month)).sum();
    (year - 1970) * 365 + leap_days + months + day - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_servers_write() {
        let expected = UNIX_EPOCH + Duration::new(1_785_231_000, 500_000_000);
        for text in [
            "2026-07-28T09:30:00.5Z",
            "2026-07-28t09:30:00.500z",
            "2026-07-28T11:30:00.500000000+02:00",
            "2026-07-28T04:00:00.5-05:30",
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_timestamp() {
        for text in [
            "",
            "2026-07-28",
            "2026-07-28T09:30:00",
            "2026-07-28 09:30:00Z",
            "2026-07-28T09:30Z",
            "20260728T093000Z",
            "2026-02-29T00:00:00Z",
            "2026-00-10T00:00:00Z",
            "2026-13-10T00:00:00Z",
            "2026-07-00T00:00:00Z",
            "2026-07-28T24:00:00Z",
            "2026-07-28T09:60:00Z",
            "2026-07-28T09:30:00.Z",
            "2026-07-28T09:30:00.0000000001Z",
            "2026-07-28T09:30:00+0200",
            "2026-07-28T09:30:00+2:00",
            "2026-07-28T09:30:00+24:00",
            "+026-07-28T09:30:00Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+01:00",
            "2026-07-28T09:30:00é",
            "é026-07-28T09:30:0Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_date_library(seconds in 0_i64..253_402_300_799, nanos in 0_i32..1_000_000_000) {
            let stamp = jiff::Timestamp::new(seconds, nanos).unwrap();
            prop_assert_eq!(parse(&stamp.to_string()), Some(SystemTime::from(stamp)));
        }

        #[test]
        fn what_is_written_is_read(seconds in 0_u64..253_402_300_799, millis in 0_u64..1000) {
            let time = UNIX_EPOCH + Duration::from_millis(seconds * 1000 + millis);
            prop_assert_eq!(parse(&format(time)), Some(time));
        }

        #[test]
        fn never_panics(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
