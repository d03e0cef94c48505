//! Computes the figures of one client from how each call ended.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::job::{CallLog, CallTiming};

/// A time in which the server was down, in seconds since 1970.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Outage {
    pub(crate) killed: f64,
    /// When it accepted connections again.
    pub(crate) back: f64,
}

/// The figures of one client with one server.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figures {
    pub(crate) revision: Option<String>,
    pub(crate) calls: usize,
    pub(crate) failed: usize,
    pub(crate) causes: BTreeMap<String, usize>,
    /// The longest time without a success, in seconds.
    pub(crate) longest_gap: f64,
    pub(crate) outages: Vec<Outage>,
    /// For each return of the server, seconds to the first success. `None` if there was none before
    /// the server went away again or the calls ended.
    pub(crate) back_to_success: Vec<Option<f64>>,
    /// `initialize` requests that the server saw, if it logs them.
    pub(crate) handshakes: Option<usize>,
}

impl Figures {
    pub(crate) fn from_log(account: &CallLog, outages: Vec<Outage>, handshakes: Option<usize>) -> Self {
        let calls = &account.calls;
        let mut causes = BTreeMap::new();
        for cause in calls.iter().filter_map(|CallTiming(_, _, failure)| failure.as_deref()) {
            *causes.entry(truncate_cause(cause)).or_default() += 1;
        }
        let mut successes: Vec<f64> = calls
            .iter()
            .filter(|CallTiming(_, _, failure)| failure.is_none())
            .map(|CallTiming(_, end, _)| *end)
            .collect();
        successes.sort_by(f64::total_cmp);
        let begun = calls.iter().map(|CallTiming(start, ..)| *start).fold(f64::INFINITY, f64::min);
        let over = calls.iter().map(|CallTiming(start, ..)| *start).fold(begun, f64::max);
        let bounds = std::iter::once(begun).chain(successes.iter().copied()).chain(std::iter::once(over));
        let bounds: Vec<f64> = bounds.collect();
        let longest_gap = bounds.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
        let back_to_success = outages.iter().enumerate().map(|(number, outage)| {
            let next = outages.get(number + 1).map_or(f64::INFINITY, |next| next.killed);
            let first = successes.iter().find(|end| **end >= outage.back && **end < next)?;
            Some(first - outage.back)
        });
        Self {
            revision: account.revision.clone(),
            calls: calls.len(),
            failed: calls.len() - successes.len(),
            causes,
            longest_gap,
            back_to_success: back_to_success.collect(),
            outages,
            handshakes,
        }
    }
}

/// Truncates a failure, so that failures of one kind are counted together.
fn truncate_cause(cause: &str) -> String {
    let line = cause.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().chars().take(MAX_CAUSE_CHARS).collect()
}

const MAX_CAUSE_CHARS: usize = 90;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_returns_are_measured_between_successes() {
        let call =
            |start: f64, end: f64, failure: Option<&str>| CallTiming(start, end, failure.map(str::to_owned));
        let account = CallLog {
            revision: None,
            calls: vec![
                call(0.0, 0.1, None),
                call(1.0, 1.5, Some("gone\nfor ever")),
                call(2.0, 3.2, None),
                call(3.0, 3.3, None),
                call(4.0, 4.1, Some("gone\nagain")),
                call(9.0, 9.1, Some("other")),
            ],
        };
        let outages = vec![Outage { killed: 1.0, back: 3.0 }, Outage { killed: 4.0, back: 5.0 }];
        let figures = Figures::from_log(&account, outages, Some(2));
        assert_eq!((figures.calls, figures.failed), (6, 3));
        assert_eq!(figures.causes, BTreeMap::from([("gone".to_owned(), 2), ("other".to_owned(), 1)]));
        // Measured from the last success to the last call, so that a client that never recovers has
        // no short gap.
        assert!((figures.longest_gap - 5.7).abs() < 1e-9, "{}", figures.longest_gap);
        assert!(matches!(&*figures.back_to_success, [Some(first), None] if (first - 0.2).abs() < 1e-9));
    }
}
