//! Owns how durations are written, in files and on the command line, and which of them are accepted.
//!
//! A duration is a number with its unit: `500ms`, `20s`, `1.5m`, `24h`. A bare number, quoted or
//! not, counts seconds. In a host's file, `timeout` and `ttl` count milliseconds, as hosts do.

use std::fmt;

use std::time::Duration;

/// The unit of a bare number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
}

/// What a duration of zero means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZeroMeaning {
    /// It is refused: it would fail every call.
    Invalid,
    /// It turns something off.
    Off,
}

/// Why a text is not accepted as a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidDuration {
    /// It is not a number with or without a unit.
    Form,
    /// It is zero, or more than a day.
    NotPositive,
    /// It is negative, or more than a day.
    OutOfRange,
}

impl fmt::Display for InvalidDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "not a length of time",
            Self::NotPositive => "must be more than 0 and at most 24 hours",
            Self::OutOfRange => "must be at least 0 and at most 24 hours",
        })
    }
}

impl std::error::Error for InvalidDuration {}

/// Parses a duration as the command line writes it: `20s`, `500ms`, `1.5m`, `1h`, or a number of
/// seconds.
pub fn parse_duration(text: &str, zero: ZeroMeaning) -> Result<Duration, InvalidDuration> {
    from_text(text, Unit::Seconds, zero)
}

/// Parses a number of a file, in any form that TOML and JSON have.
pub(crate) fn from_number(number: &str, unit: Unit, zero: ZeroMeaning) -> Result<Duration, InvalidDuration> {
    let number = number.parse::<f64>().map_err(|_| InvalidDuration::Form)?;
    check_bounds(in_seconds(number, unit), zero)
}

/// Parses a number with its unit, or a bare one in `bare`.
pub(crate) fn from_text(text: &str, bare: Unit, zero: ZeroMeaning) -> Result<Duration, InvalidDuration> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let number = number.parse::<f64>().map_err(|_| InvalidDuration::Form)?;
    let seconds = match unit.trim_start() {
        "" => in_seconds(number, bare),
        "ms" => in_seconds(number, Unit::Milliseconds),
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(InvalidDuration::Form),
    };
    check_bounds(seconds, zero)
}

fn in_seconds(number: f64, unit: Unit) -> f64 {
    match unit {
        Unit::Seconds => number,
        Unit::Milliseconds => number / 1000.0,
    }
}

/// Refuses what is probably a mistake of unit: more than a day, or zero where it has no meaning. A
/// value above zero that rounds to zero is always refused, and never taken for zero.
fn check_bounds(seconds: f64, zero: ZeroMeaning) -> Result<Duration, InvalidDuration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() && duration <= MAX_DURATION => Ok(duration),
        Ok(duration) if zero == ZeroMeaning::Off && duration.is_zero() && seconds <= 0.0 => Ok(duration),
        _ => Err(match zero {
            ZeroMeaning::Invalid => InvalidDuration::NotPositive,
            ZeroMeaning::Off => InvalidDuration::OutOfRange,
        }),
    }
}

impl InvalidDuration {
    /// Returns what to write instead, if the message does not say.
    pub fn hint(self) -> Option<&'static str> {
        (self == Self::Form).then_some("for example \"20s\", \"500ms\" or \"2m\"")
    }
}

/// Longest duration of a file or argument.
pub(crate) const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_the_unit_of_the_dialect() {
        let from_number = |number, unit| from_number(number, unit, ZeroMeaning::Invalid);
        assert_eq!(from_number("20", Unit::Seconds), Ok(Duration::from_secs(20)));
        assert_eq!(from_number("0.5", Unit::Seconds), Ok(Duration::from_millis(500)));
        assert_eq!(from_number("30000", Unit::Milliseconds), Ok(Duration::from_secs(30)));
        let quoted = from_text("30000", Unit::Milliseconds, ZeroMeaning::Invalid);
        assert_eq!(quoted, Ok(Duration::from_secs(30)));
    }

    #[test]
    fn texts_carry_their_unit() {
        for (text, millis) in [
            ("20", 20_000),
            ("20s", 20_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("1.5m", 90_000),
            ("24h", 86_400_000),
            (" 3 s ", 3_000),
        ] {
            assert_eq!(
                parse_duration(text, ZeroMeaning::Invalid),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
    }

    #[test]
    fn zero_is_read_where_it_has_a_meaning() {
        for number in ["0", "0.0", "-0.0", "+0"] {
            assert_eq!(from_number(number, Unit::Seconds, ZeroMeaning::Off), Ok(Duration::ZERO), "{number}");
        }
        for text in ["0", "0s", "0ms", "0.0h"] {
            assert_eq!(parse_duration(text, ZeroMeaning::Off), Ok(Duration::ZERO), "{text}");
        }
        for number in ["-1", "inf", "nan", "-nan", "1e99", "1e-300", "1e-10"] {
            assert!(from_number(number, Unit::Seconds, ZeroMeaning::Off).is_err(), "{number}");
        }
        assert!(parse_duration("0.0000000001s", ZeroMeaning::Off).is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        let from_text = |text| parse_duration(text, ZeroMeaning::Invalid);
        for text in ["", "nan", "1e3", "s", "1m30s", "1.2.3s", "-1s", "5 days", "1e3s", "é"] {
            assert_eq!(from_text(text), Err(InvalidDuration::Form), "{text}");
        }
        for text in ["0s", "0.0000000001s", "25h", "99999999999999999999h"] {
            assert_ne!(from_text(text), Err(InvalidDuration::Form), "{text}");
            assert!(from_text(text).is_err(), "{text}");
        }
        for number in ["0", "-1", "inf", "nan", "1e300", "0xF"] {
            assert!(from_number(number, Unit::Seconds, ZeroMeaning::Invalid).is_err(), "{number}");
        }
    }
}
