//! Owns how durations are written, and which of them are accepted.

use std::time::Duration;

use crate::problem::ProblemKind;
use crate::report::Finding;

/// The unit of a bare number. It depends on the dialect: ours counts seconds, hosts count
/// milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
}

/// What a duration of zero means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZeroMeaning {
    /// It is refused: it would fail every call.
    Invalid,
    /// It turns something off.
    Off,
}

/// Parses a bare number.
pub(crate) fn from_number(number: &str, unit: Unit, zero: ZeroMeaning) -> Result<Duration, Finding> {
    let per_second = match unit {
        Unit::Seconds => 1.0,
        Unit::Milliseconds => 1000.0,
    };
    let number = number.parse::<f64>().map_err(|_| invalid_duration())?;
    check_bounds(number / per_second, zero)
}

/// Parses a number with its unit, such as `20s`, `500ms`, `1.5m` or `1h`.
pub(crate) fn from_text(text: &str, zero: ZeroMeaning) -> Result<Duration, Finding> {
    let text = text.trim();
    // Zero is the only number that needs no unit.
    if zero == ZeroMeaning::Off && text == "0" {
        return Ok(Duration::ZERO);
    }
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid_duration)?;
    let (number, unit) = text.split_at(unit_at);
    let number = number.parse::<f64>().map_err(|_| invalid_duration())?;
    let seconds = match unit.trim_start() {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(invalid_duration()),
    };
    check_bounds(seconds, zero)
}

/// Refuses what is probably a mistake of unit: more than a day, or zero where it has no meaning. A
/// value above zero that rounds to zero is always refused, and never taken for zero.
fn check_bounds(seconds: f64, zero: ZeroMeaning) -> Result<Duration, Finding> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() && duration <= MAX_DURATION => Ok(duration),
        Ok(duration) if zero == ZeroMeaning::Off && duration.is_zero() && seconds <= 0.0 => Ok(duration),
        _ => Err(Finding::new(
            ProblemKind::InvalidValue,
            match zero {
                ZeroMeaning::Invalid => "must be more than 0 and at most 24 hours",
                ZeroMeaning::Off => "must be at least 0 and at most 24 hours",
            },
        )),
    }
}

fn invalid_duration() -> Finding {
    Finding::new(ProblemKind::InvalidValue, "not a length of time")
        .hint("for example \"20s\", \"500ms\" or \"2m\"")
}

const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_the_unit_of_the_dialect() {
        let from_number = |number, unit| from_number(number, unit, ZeroMeaning::Invalid);
        assert_eq!(from_number("20", Unit::Seconds), Ok(Duration::from_secs(20)));
        assert_eq!(from_number("0.5", Unit::Seconds), Ok(Duration::from_millis(500)));
        assert_eq!(from_number("30000", Unit::Milliseconds), Ok(Duration::from_secs(30)));
    }

    #[test]
    fn texts_carry_their_unit() {
        for (text, millis) in [
            ("20s", 20_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("1.5m", 90_000),
            ("24h", 86_400_000),
            (" 3 s ", 3_000),
        ] {
            assert_eq!(from_text(text, ZeroMeaning::Invalid), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn zero_is_read_where_it_has_a_meaning() {
        for number in ["0", "0.0", "-0.0", "+0"] {
            assert_eq!(from_number(number, Unit::Seconds, ZeroMeaning::Off), Ok(Duration::ZERO), "{number}");
        }
        for text in ["0", "0s", "0ms", "0.0h"] {
            assert_eq!(from_text(text, ZeroMeaning::Off), Ok(Duration::ZERO), "{text}");
        }
        for number in ["-1", "inf", "nan", "-nan", "1e99", "1e-300", "1e-10"] {
            assert!(from_number(number, Unit::Seconds, ZeroMeaning::Off).is_err(), "{number}");
        }
        assert!(from_text("0.0000000001s", ZeroMeaning::Off).is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        let from_text = |text| from_text(text, ZeroMeaning::Invalid);
        for text in ["", "20", "s", "1m30s", "1.2.3s", "-1s", "5 days", "1e3s", "é"] {
            assert_eq!(from_text(text), Err(invalid_duration()), "{text}");
        }
        for text in ["0s", "0.0000000001s", "25h", "99999999999999999999h"] {
            assert_ne!(from_text(text), Err(invalid_duration()), "{text}");
            assert!(from_text(text).is_err(), "{text}");
        }
        for number in ["0", "-1", "inf", "nan", "1e300", "0xF"] {
            assert!(from_number(number, Unit::Seconds, ZeroMeaning::Invalid).is_err(), "{number}");
        }
    }
}
