//! [`ParkedCalls`]: calls that wait for the answers of their hosts between two requests.
//!
//! A call is found again by the nonce of the `requestState` that the host was given, once. The table
//! keeps a `T` for whatever runs the call.

use std::collections::{HashMap, HashSet, VecDeque};

use super::request_state::NONCE_LEN;

/// The nonce of a `requestState`.
pub type Nonce = [u8; NONCE_LEN];

/// Most calls that may be parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkLimits {
    /// Of all hosts together.
    pub total: usize,
    /// Of hosts that declare the same name.
    pub per_client: usize,
}

/// The parked calls.
#[derive(Debug)]
pub struct ParkedCalls<T> {
    limits: ParkLimits,
    calls: HashMap<Nonce, (Box<str>, T)>,
    by_client: HashMap<Box<str>, usize>,
    /// Calls that were given up, the latest last: as many as may be parked.
    given_up: VecDeque<Nonce>,
    given_up_set: HashSet<Nonce>,
}

/// Why there is no parked call for a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkRefusal {
    /// Its state was used before.
    Used,
    /// The host took too long to answer, and the call was given up.
    GivenUp,
}

impl<T> ParkedCalls<T> {
    /// An empty table.
    pub fn new(limits: ParkLimits) -> Self {
        Self {
            limits,
            calls: HashMap::new(),
            by_client: HashMap::new(),
            given_up: VecDeque::new(),
            given_up_set: HashSet::new(),
        }
    }

    /// Parks a call of this client under a new nonce. Returns the call if there is no room.
    pub fn park(&mut self, nonce: Nonce, client: &str, call: T) -> Result<(), T> {
        let of_client = self.by_client.get(client).copied().unwrap_or_default();
        if self.calls.len() >= self.limits.total || of_client >= self.limits.per_client {
            return Err(call);
        }
        *self.by_client.entry(client.into()).or_default() += 1;
        self.calls.insert(nonce, (client.into(), call));
        Ok(())
    }

    /// The call with this nonce, which stays parked.
    pub fn get(&self, nonce: &Nonce) -> Result<&T, ParkRefusal> {
        self.calls.get(nonce).map(|(_, call)| call).ok_or_else(|| {
            if self.given_up_set.contains(nonce) { ParkRefusal::GivenUp } else { ParkRefusal::Used }
        })
    }

    /// Takes the call with this nonce, which is then used.
    // GW-07
    pub fn take(&mut self, nonce: &Nonce) -> Option<T> {
        let (client, call) = self.calls.remove(nonce)?;
        if let Some(count) = self.by_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.by_client.remove(&client);
            }
        }
        Some(call)
    }

    /// Takes the call with this nonce because its host took too long to answer.
    pub fn give_up(&mut self, nonce: &Nonce) -> Option<T> {
        let call = self.take(nonce)?;
        if self.given_up.len() >= self.limits.total
            && let Some(oldest) = self.given_up.pop_front()
        {
            self.given_up_set.remove(&oldest);
        }
        self.given_up.push_back(*nonce);
        self.given_up_set.insert(*nonce);
        Some(call)
    }

    /// Takes all calls.
    pub fn take_all(&mut self) -> Vec<T> {
        self.by_client.clear();
        self.calls.drain().map(|(_, (_, call))| call).collect()
    }

    /// Number of parked calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether no call is parked.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce(number: u8) -> Nonce {
        [number; NONCE_LEN]
    }

    fn table() -> ParkedCalls<&'static str> {
        ParkedCalls::new(ParkLimits { total: 3, per_client: 2 })
    }

    // GW-07
    #[test]
    fn a_call_is_found_once() {
        let mut table = table();
        table.park(nonce(1), "a", "one").unwrap();
        assert_eq!(table.get(&nonce(1)), Ok(&"one"));
        assert_eq!(table.take(&nonce(1)), Some("one"));
        assert_eq!(table.get(&nonce(1)), Err(ParkRefusal::Used));
        assert_eq!(table.take(&nonce(1)), None);
        assert!(table.is_empty() && table.by_client.is_empty());
    }

    #[test]
    fn calls_are_bounded_in_all_and_for_each_client() {
        let mut table = table();
        table.park(nonce(1), "a", "one").unwrap();
        table.park(nonce(2), "a", "two").unwrap();
        assert_eq!(table.park(nonce(3), "a", "three"), Err("three"));
        table.park(nonce(3), "b", "three").unwrap();
        assert_eq!(table.park(nonce(4), "c", "four"), Err("four"));
        table.take(&nonce(1));
        table.park(nonce(4), "a", "four").unwrap();
        assert_eq!(table.len(), 3);
        let mut all = table.take_all();
        all.sort_unstable();
        assert_eq!(all, ["four", "three", "two"]);
        table.park(nonce(5), "a", "five").unwrap();
    }

    #[test]
    fn a_bounded_number_of_calls_is_remembered_as_given_up() {
        let mut table = table();
        for number in 0..4 {
            table.park(nonce(number), "a", "call").unwrap();
            assert_eq!(table.give_up(&nonce(number)), Some("call"));
            assert_eq!(table.get(&nonce(number)), Err(ParkRefusal::GivenUp));
        }
        assert_eq!(table.give_up(&nonce(3)), None);
        assert_eq!(table.get(&nonce(0)), Err(ParkRefusal::Used));
        assert_eq!((table.given_up.len(), table.given_up_set.len()), (3, 3));
    }
}
