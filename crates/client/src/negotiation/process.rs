//! The cache of negotiation records of one process.

use std::collections::HashMap;
use std::time::Instant;

use parking_lot::Mutex;

use super::{MAX_AGE, MAX_SERVERS, NegotiationCache, NegotiationRecord, ServerKey};

/// The records of all connections of this process that use no other cache.
#[derive(Debug, Default)]
pub(crate) struct ProcessCache(Mutex<Option<HashMap<ServerKey, (NegotiationRecord, Instant)>>>);

/// The shared instance.
static SHARED: ProcessCache = ProcessCache(Mutex::new(None));

impl ProcessCache {
    pub(crate) fn shared() -> &'static Self {
        &SHARED
    }
}

impl NegotiationCache for ProcessCache {
    fn recall(&self, server: &ServerKey) -> Option<NegotiationRecord> {
        let findings = self.0.lock();
        let (finding, asked) = findings.as_ref()?.get(server)?;
        (asked.elapsed() < MAX_AGE).then_some(*finding)
    }

    fn record(&self, server: &ServerKey, finding: NegotiationRecord) {
        let mut findings = self.0.lock();
        let findings = findings.get_or_insert_default();
        if findings.len() >= MAX_SERVERS && !findings.contains_key(server) {
            let oldest = findings.iter().min_by_key(|(_, (_, asked))| *asked).map(|(server, _)| *server);
            oldest.map(|oldest| findings.remove(&oldest));
        }
        findings.insert(*server, (finding, Instant::now()));
    }

    fn forget(&self, server: &ServerKey) {
        self.0.lock().as_mut().map(|findings| findings.remove(server));
    }
}

#[cfg(test)]
mod tests {
    use bowline_config::Server;
    use bowline_proto::revision::Revision;

    use super::super::TransportKind;
    use super::*;

    #[test]
    fn the_oldest_record_makes_room_for_a_new_one() {
        let cache = ProcessCache::default();
        let key =
            |n: usize| ServerKey::from_server(&Server::http("s", format!("http://h/{n}")).build().unwrap());
        let finding = NegotiationRecord::new(Revision::V2025_11_25, TransportKind::Http);
        for n in 0..=MAX_SERVERS {
            cache.record(&key(n), finding);
        }
        assert_eq!(cache.0.lock().as_ref().unwrap().len(), MAX_SERVERS);
        assert_eq!((cache.recall(&key(0)), cache.recall(&key(MAX_SERVERS))), (None, Some(finding)));
        cache.forget(&key(1));
        assert_eq!(cache.recall(&key(1)), None);
    }
}
