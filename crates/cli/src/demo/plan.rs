//! Decides which failure comes next, and after which pause. A seed always gives the same order.

use std::time::Duration;

use fastrand::Rng;

use super::signature::SIGNATURES;

/// A failure that the server causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Forgets all sessions, and reports that with this signature.
    Expire(usize),
    /// Stops listening for this long, then listens on the same port again, without its sessions.
    Restart(Duration),
    /// Cuts this many connections, each with a call that may be repeated.
    Cut(usize),
    /// Cuts the streams of this many calls, and the stream for notifications.
    CutStreams(usize),
}

/// The endless sequence of failures.
pub(crate) struct Plan {
    rng: Rng,
    kinds: Vec<Kind>,
    signatures: Vec<usize>,
}

#[derive(Clone, Copy)]
enum Kind {
    Expire,
    Restart,
    Cut,
    CutStreams,
}

/// Each kind, with the most common one several times. In this order, a run of a few seconds shows
/// what matters.
const FIRST_ROUND: [Kind; 6] =
    [Kind::Expire, Kind::Expire, Kind::Restart, Kind::Expire, Kind::Cut, Kind::CutStreams];

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut kinds = FIRST_ROUND.to_vec();
        kinds.reverse();
        Self { rng: Rng::with_seed(seed), kinds, signatures: Vec::new() }
    }

    /// Returns the next signature. Each is used once before any is used again.
    fn next_signature(&mut self) -> usize {
        if self.signatures.is_empty() {
            self.signatures = (0..SIGNATURES.len()).collect();
            self.rng.shuffle(&mut self.signatures);
        }
        self.signatures.pop().unwrap_or_default()
    }
}

/// Yields the pause before each failure, and the failure.
impl Iterator for Plan {
    type Item = (Duration, Trouble);

    fn next(&mut self) -> Option<Self::Item> {
        if self.kinds.is_empty() {
            self.kinds = FIRST_ROUND.to_vec();
            self.rng.shuffle(&mut self.kinds);
        }
        let trouble = match self.kinds.pop()? {
            Kind::Expire => Trouble::Expire(self.next_signature()),
            Kind::Restart => Trouble::Restart(Duration::from_millis(self.rng.u64(300..900))),
            Kind::Cut => Trouble::Cut(self.rng.usize(2..=4)),
            Kind::CutStreams => Trouble::CutStreams(self.rng.usize(1..=3)),
        };
        Some((Duration::from_millis(self.rng.u64(100..300)), trouble))
    }
}

impl Trouble {
    /// Returns how long the failure may last: one that would outlast the demo is skipped.
    pub(super) fn max_duration(self) -> Duration {
        match self {
            Self::Restart(down) => down + Duration::from_millis(700),
            Self::Expire(_) => Duration::from_millis(200),
            Self::Cut(_) | Self::CutStreams(_) => Duration::from_millis(500),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn seed_determines_the_order() {
        let plan = |seed| Plan::new(seed).take(60).collect::<Vec<_>>();
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7), plan(8));
    }

    #[test]
    fn first_round_has_every_failure() {
        for seed in 0..100 {
            let round: Vec<Trouble> = Plan::new(seed).map(|(_, trouble)| trouble).take(6).collect();
            let signatures: HashSet<usize> = round
                .iter()
                .filter_map(|trouble| match trouble {
                    Trouble::Expire(signature) => Some(*signature),
                    _ => None,
                })
                .collect();
            assert_eq!(signatures.len(), 3, "{round:?}");
            assert_eq!(round.iter().filter(|trouble| matches!(trouble, Trouble::Restart(_))).count(), 1);
        }
    }

    #[test]
    fn every_signature_gets_its_turn() {
        let expired = Plan::new(1).filter_map(|(_, trouble)| match trouble {
            Trouble::Expire(signature) => Some(signature),
            _ => None,
        });
        let first: HashSet<usize> = expired.take(SIGNATURES.len()).collect();
        assert_eq!(first.len(), SIGNATURES.len());
    }
}
