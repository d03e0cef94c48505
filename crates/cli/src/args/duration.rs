//! Parses durations in arguments, in the format of the configuration file.

use std::time::Duration;

/// Parses a duration greater than zero.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    match parse_any(text)? {
        Duration::ZERO => Err("must be more than 0".to_owned()),
        duration => Ok(duration),
    }
}

/// Parses `20s`, `500ms`, `1.5m`, `1h`, or a number of seconds; zero is allowed.
pub(super) fn parse_any(text: &str) -> Result<Duration, String> {
    let wrong = || "not a length of time; for example 20s, 500ms or 2m".to_owned();
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit.trim_start() {
        "ms" => number / 1000.0,
        "" | "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if duration <= MAX_DURATION => Ok(duration),
        _ => Err("must be at most 24 hours".to_owned()),
    }
}

const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

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
}
