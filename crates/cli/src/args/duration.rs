//! Parses durations in arguments, in the format of the configuration file.

use std::time::Duration;

use bowline_config::{InvalidDuration, ZeroMeaning, parse_duration};

/// Parses a duration greater than zero.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    parse_duration(text, ZeroMeaning::Invalid).map_err(describe)
}

/// Parses a duration that may be zero.
pub(super) fn parse_any(text: &str) -> Result<Duration, String> {
    parse_duration(text, ZeroMeaning::Off).map_err(describe)
}

/// Formats a duration in the form that [`parse`] reads, in the largest unit that it is a multiple of.
pub(crate) fn format_duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.as_millis());
    match seconds {
        _ if duration.subsec_nanos() > 0 => format!("{}ms", millis.max(1)),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

fn describe(invalid: InvalidDuration) -> String {
    match invalid.hint() {
        // An argument needs no quotation marks.
        Some(hint) => format!("{invalid}; {}", hint.replace('"', "")),
        None => invalid.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        for (text, millis) in
            [("20", 20_000), ("20s", 20_000), ("500ms", 500), ("1.5m", 90_000), ("24h", 86_400_000)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "s", "1 week", "-1s", "25h", "0", "nan", "1e3"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_any("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn formatted_duration_is_parsed_as_it_was() {
        for text in ["90s", "500ms", "2m", "60m", "1500ms"] {
            assert_eq!(parse(text).map(format_duration).as_deref(), Ok(text));
        }
        assert_eq!(format_duration(Duration::from_nanos(1)), "1ms");
    }
}
