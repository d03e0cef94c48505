//! Formats sizes, short times and counts.

use std::time::Duration;

/// Formats a size: `512 B`, `1.5 kB`, `12 MB`.
pub(crate) fn bytes(count: usize) -> String {
    const UNITS: [&str; 4] = ["B", "kB", "MB", "GB"];
    let mut unit = 0;
    #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
    let mut size = count as f64;
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && size < 9.95);
    format!("{size:.digits$} {}", UNITS[unit])
}

/// Formats a short time: `0.84 ms`, `12.3 ms`, `1.52 s`.
pub(crate) fn time(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1000.0;
    match millis {
        ..9.995 => format!("{millis:.2} ms"),
        ..999.95 => format!("{millis:.1} ms"),
        _ => format!("{:.2} s", millis / 1000.0),
    }
}

/// Formats a count with its noun: `1 tool`, `2 tools`, `2 processes`.
pub(crate) fn count(count: usize, noun: &str) -> String {
    let plural = match count {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (count, shown) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (1499, "1.5 kB"),
            (12_345, "12 kB"),
            (999_900, "1.0 MB"),
        ] {
            assert_eq!(bytes(count), shown);
        }
    }

    #[test]
    fn counts() {
        assert_eq!(
            [count(1, "tool"), count(2, "tool"), count(2, "process")],
            ["1 tool", "2 tools", "2 processes"]
        );
    }

    #[test]
    fn times() {
        for (micros, shown) in [(840, "0.84 ms"), (12_340, "12.3 ms"), (1_520_000, "1.52 s")] {
            assert_eq!(time(Duration::from_micros(micros)), shown);
        }
    }
}
