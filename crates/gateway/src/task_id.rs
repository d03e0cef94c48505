//! [`TaskKey`]: the ids by which hosts know tasks.
//!
//! An id holds everything that is needed to find the task: its server, the server's own id, and the
//! dialect. It is encrypted and authenticated, and bound to the host that it was issued to, so it needs no
//! record here, and finds its task after a restart, also after a sudden one.
// GW-14, SE-09, TN-09

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bowline::TaskHandle;
use bowline::types::{Task, TaskDialect};
use bowline_store::{Key, SealKey, StoreError};

/// The key that the ids of tasks are sealed with. An id that was sealed with another key is unknown.
#[derive(Clone)]
pub struct TaskKey(SealKey);

/// What an id says about its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskRecord {
    /// The configured name of the server.
    pub(crate) server: Box<str>,
    pub(crate) place: TaskPlace,
    /// When the task was created, in milliseconds since the epoch, by our clock.
    created_ms: u64,
    /// For how long the server keeps the task, in milliseconds, if it said so.
    ttl_ms: Option<u64>,
    /// The interval between polls that the server asked for, in milliseconds, if it did.
    poll_ms: Option<u64>,
}

/// Where a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskPlace {
    /// On the server, which knows it by this id.
    Server { id: Box<str>, dialect: TaskDialect },
    /// Here: the server answered the call at once, and the result is kept under this number.
    Kept(u64),
}

impl TaskKey {
    /// Uses this key.
    pub fn new(key: SealKey) -> Self {
        Self(key)
    }

    /// Generates a key, for ids that do not outlive the process.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> Result<Self, StoreError> {
        SealKey::generate().map(Self)
    }

    /// Writes the id of a task for the hosts of an audience. `None` if the record is too long.
    pub(crate) fn seal(&self, audience: &str, record: &TaskRecord) -> Option<Box<str>> {
        let sealed = self.0.seal(&binding(audience), &record.to_bytes()?).ok()?;
        Some(URL_SAFE_NO_PAD.encode(sealed).into())
    }

    /// Reads the id of a task. `None` if it is none, was issued to another audience, or has expired.
    /// These are not told apart, also not to the host.
    pub(crate) fn open(&self, audience: &str, id: &str, now: SystemTime) -> Option<TaskRecord> {
        if id.len() > MAX_ID_LEN {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(id).ok()?;
        let record = TaskRecord::from_bytes(&self.0.open(&binding(audience), &sealed).ok()?)?;
        (now < record.expires_at()).then_some(record)
    }
}

impl fmt::Debug for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TaskKey").finish_non_exhaustive()
    }
}

impl TaskRecord {
    /// A task that a server has created just now.
    pub(crate) fn of_server(server: &str, task: &Task, now: SystemTime) -> Self {
        let place = TaskPlace::Server { id: task.id.clone(), dialect: task.dialect };
        Self {
            server: server.into(),
            place,
            created_ms: millis(now.duration_since(UNIX_EPOCH).unwrap_or_default()),
            ttl_ms: task.ttl.map(millis),
            poll_ms: task.poll_interval.map(millis),
        }
    }

    /// A task whose result is kept here for a time.
    pub(crate) fn kept(server: &str, number: u64, ttl: Duration, now: SystemTime) -> Self {
        Self {
            server: server.into(),
            place: TaskPlace::Kept(number),
            created_ms: millis(now.duration_since(UNIX_EPOCH).unwrap_or_default()),
            ttl_ms: Some(millis(ttl)),
            poll_ms: None,
        }
    }

    /// The handle of a task that is on its server.
    pub(crate) fn handle(&self) -> Option<TaskHandle> {
        let TaskPlace::Server { id, dialect } = &self.place else { return None };
        let created = UNIX_EPOCH.checked_add(Duration::from_millis(self.created_ms)).unwrap_or(UNIX_EPOCH);
        let mut handle = TaskHandle::from_id(id, *dialect, created);
        handle.ttl = self.ttl_ms.map(Duration::from_millis);
        handle.poll_interval = self.poll_ms.map(Duration::from_millis);
        Some(handle)
    }

    /// When the id is no longer valid: some time after the task, whose lifetime a server may extend.
    fn expires_at(&self) -> SystemTime {
        let lifetime = self
            .ttl_ms
            .map_or(DEFAULT_LIFETIME, |ttl| Duration::from_millis(ttl).saturating_add(LIFETIME_GRACE));
        let created = UNIX_EPOCH.checked_add(Duration::from_millis(self.created_ms)).unwrap_or(UNIX_EPOCH);
        created.checked_add(lifetime.min(MAX_LIFETIME)).unwrap_or(UNIX_EPOCH)
    }

    fn to_bytes(&self) -> Option<Vec<u8>> {
        let Self { server, place, created_ms, ttl_ms, poll_ms } = self;
        let (kind, id) = match place {
            TaskPlace::Server { id, dialect } => {
                let kind = match dialect {
                    TaskDialect::Experiment => EXPERIMENT,
                    TaskDialect::Extension => EXTENSION,
                };
                match pack(id) {
                    Some(packed) => (kind | PACKED, packed),
                    None => (kind, id.as_bytes().to_vec()),
                }
            }
            TaskPlace::Kept(number) => (KEPT, number.to_be_bytes().to_vec()),
        };
        let mut bytes = vec![VERSION, kind];
        for number in [*created_ms, ttl_ms.unwrap_or(u64::MAX), poll_ms.unwrap_or(u64::MAX)] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(&u16::try_from(server.len()).ok()?.to_be_bytes());
        bytes.extend_from_slice(server.as_bytes());
        bytes.extend_from_slice(&id);
        (bytes.len() <= MAX_RECORD_LEN).then_some(bytes)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&[version, kind], rest) = bytes.split_first_chunk()?;
        let (created, rest) = rest.split_first_chunk()?;
        let (ttl, rest) = rest.split_first_chunk()?;
        let (poll, rest) = rest.split_first_chunk()?;
        let (server_len, rest) = rest.split_first_chunk()?;
        let (server, id) = rest.split_at_checked(u16::from_be_bytes(*server_len).into())?;
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(Box::from);
        let server_id =
            || if kind & PACKED == 0 { text(id) } else { Some(URL_SAFE_NO_PAD.encode(id).into()) };
        let place = match kind & !PACKED {
            EXPERIMENT => TaskPlace::Server { id: server_id()?, dialect: TaskDialect::Experiment },
            EXTENSION => TaskPlace::Server { id: server_id()?, dialect: TaskDialect::Extension },
            KEPT => TaskPlace::Kept(u64::from_be_bytes(id.try_into().ok()?)),
            _ => return None,
        };
        let optional =
            |number: &[u8; 8]| Some(u64::from_be_bytes(*number)).filter(|number| *number != u64::MAX);
        let record = Self {
            server: text(server)?,
            place,
            created_ms: u64::from_be_bytes(*created),
            ttl_ms: optional(ttl),
            poll_ms: optional(poll),
        };
        (version == VERSION).then_some(record)
    }
}

/// The bytes of an id that is Base64 itself, as that of another gateway is. So the ids of a chain of gateways grow
/// by a fixed length with each of them, and not by a third as well.
fn pack(id: &str) -> Option<Vec<u8>> {
    // It has to come back as it is, which padding and spare bits would not.
    URL_SAFE_NO_PAD.decode(id).ok().filter(|bytes| URL_SAFE_NO_PAD.encode(bytes) == id)
}

fn binding(audience: &str) -> Key {
    Key { kind: "task", id: audience.to_owned() }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The format of the bytes.
const VERSION: u8 = 1;
const EXPERIMENT: u8 = 0;
const EXTENSION: u8 = 1;
const KEPT: u8 = 2;
/// Added to the place of a task whose id is packed.
const PACKED: u8 = 0x80;
/// Longest record: an id of a server has at most 4,096 bytes, and its name, generously, 1,024.
const MAX_RECORD_LEN: usize = 6 * 1024;
/// Longest id of ours that is looked at.
const MAX_ID_LEN: usize = 9 * 1024;
/// For how long an id is valid if the server does not say how long it keeps the task.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// For how much longer than its task an id is valid.
const LIFETIME_GRACE: Duration = Duration::from_secs(24 * 60 * 60);
/// For how long an id is valid at most.
const MAX_LIFETIME: Duration = Duration::from_secs(400 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use bowline::Json;
    use proptest::prelude::*;

    use super::*;

    fn key() -> TaskKey {
        TaskKey::new(SealKey::from_bytes([7; 32]))
    }

    fn record(id: &str) -> TaskRecord {
        let state = format!(r#"{{"taskId":{id:?},"status":"working","ttlMs":60000,"pollIntervalMs":50}}"#);
        let task = Task::decode(&Json::parse(state).unwrap(), TaskDialect::Extension).unwrap();
        TaskRecord::of_server("docs", &task, UNIX_EPOCH + Duration::from_secs(1_000))
    }

    const NOW: Duration = Duration::from_secs(1_001);

    /// GW-14, SE-09: an id leads back to its task, for its own audience only, and does not show it.
    #[test]
    fn se_09_an_id_is_of_use_to_its_audience_only() {
        let id = key().seal("user:a/", &record("up-1")).unwrap();
        let now = UNIX_EPOCH + NOW;
        assert_eq!(key().open("user:a/", &id, now), Some(record("up-1")));
        for other in ["user:b/", "user:a/view", "/", ""] {
            assert_eq!(key().open(other, &id, now), None, "{other}");
        }
        let other_key = TaskKey::new(SealKey::from_bytes([8; 32]));
        assert_eq!(other_key.open("user:a/", &id, now), None);
        let again = key().seal("user:a/", &record("up-1")).unwrap();
        assert_ne!(id, again, "two ids of one task differ");
        let bytes = URL_SAFE_NO_PAD.decode(&*id).unwrap();
        assert!(!bytes.windows(4).any(|window| window == b"up-1"), "the id of the server is readable");
        for odd in ["", "up-1", "task-1", "\u{0}", &"A".repeat(MAX_ID_LEN + 1), &"A".repeat(80)] {
            assert_eq!(key().open("user:a/", odd, now), None, "{odd}");
        }
    }

    /// TN-09: the id of a task that its server has dropped long ago is unknown.
    #[test]
    fn tn_09_ids_expire_after_their_tasks() {
        let id = key().seal("/", &record("up-1")).unwrap();
        let at =
            |time: Duration| key().open("/", &id, UNIX_EPOCH + Duration::from_secs(1_000) + time).is_some();
        assert!(at(Duration::from_secs(60)));
        assert!(at(LIFETIME_GRACE + Duration::from_secs(59)));
        assert!(!at(LIFETIME_GRACE + Duration::from_secs(60)));
    }

    #[test]
    fn a_handle_is_as_the_server_said() {
        let handle = record("up-1").handle().unwrap();
        assert_eq!((&*handle.id, handle.dialect), ("up-1", TaskDialect::Extension));
        assert_eq!(handle.ttl, Some(Duration::from_secs(60)));
        assert_eq!(handle.poll_interval, Some(Duration::from_millis(50)));
        assert_eq!(handle.created_at, UNIX_EPOCH + Duration::from_secs(1_000));
        let kept = TaskRecord::kept("docs", 9, Duration::from_secs(1), UNIX_EPOCH);
        assert_eq!(kept.handle(), None);
    }

    #[test]
    fn a_record_that_is_too_long_has_no_id() {
        let mut long = record("up-1");
        long.server = "s".repeat(MAX_RECORD_LEN).into();
        assert_eq!(key().seal("/", &long), None);
    }

    /// GW-14: through as many gateways as a host may come, each finds the task of the next one.
    #[test]
    fn gw_14_ids_stay_short_through_a_chain_of_gateways() {
        let now = UNIX_EPOCH + NOW;
        let mut ids: Vec<Box<str>> = vec!["786512e2-9e0d-44bd-8f29-789f320fe840".into()];
        for _ in 0..bowline_proto::via::MAX_HOPS {
            let id =
                key().seal("user:[\"https://issuer.example\",\"me\"]/view", &record(&ids[ids.len() - 1]));
            ids.push(id.unwrap());
        }
        for pair in ids.windows(2) {
            let found = key().open("user:[\"https://issuer.example\",\"me\"]/view", &pair[1], now).unwrap();
            assert_eq!(found.handle().unwrap().id, pair[0]);
            assert!(pair[1].len() <= pair[0].len() + 120, "{} {}", pair[0].len(), pair[1].len());
        }
        assert!(ids[ids.len() - 1].len() < 2048);
    }

    /// Whatever an id looks like, it comes back as it is.
    #[test]
    fn ids_that_are_almost_base64_are_kept_as_they_are() {
        for id in ["AAAA", "AAA", "AAB", "AA", "A", "AA==", "a+b/", "\u{e9}", "----"] {
            let sealed = key().seal("/", &record(id)).unwrap();
            assert_eq!(&*key().open("/", &sealed, UNIX_EPOCH + NOW).unwrap().handle().unwrap().id, id);
        }
    }

    fn places() -> impl Strategy<Value = TaskPlace> {
        prop_oneof![
            (".{1,40}|[A-Za-z0-9_-]{1,40}", any::<bool>()).prop_map(|(id, is_modern)| TaskPlace::Server {
                id: id.into(),
                dialect: if is_modern { TaskDialect::Extension } else { TaskDialect::Experiment },
            }),
            any::<u64>().prop_map(TaskPlace::Kept),
        ]
    }

    proptest! {
        #[test]
        fn records_survive_their_way_through_the_host(
            server in ".{0,30}",
            place in places(),
            created_ms in 0_u64..1 << 45,
            ttl_ms in prop::option::of(0_u64..1 << 45),
            poll_ms in prop::option::of(0_u64..1 << 45),
            audience in ".{0,20}",
        ) {
            let record = TaskRecord { server: server.into(), place, created_ms, ttl_ms, poll_ms };
            let id = key().seal(&audience, &record).unwrap();
            let now = UNIX_EPOCH + Duration::from_millis(created_ms);
            prop_assert_eq!(key().open(&audience, &id, now), Some(record));
        }

        /// SE-09: an id that was changed anywhere is unknown.
        #[test]
        fn se_09_changed_ids_are_unknown(at in any::<prop::sample::Index>(), flip in 1_u8..=255) {
            let id = key().seal("/", &record("up-1")).unwrap();
            let mut bytes = URL_SAFE_NO_PAD.decode(&*id).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let changed = URL_SAFE_NO_PAD.encode(bytes);
            prop_assert_eq!(key().open("/", &changed, UNIX_EPOCH + NOW), None);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = TaskRecord::from_bytes(&bytes);
        }
    }
}
