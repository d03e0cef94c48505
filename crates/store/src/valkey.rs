//! A store in a Valkey or Redis server, which any number of machines share.
//!
//! All records of a kind form one hash, each value prefixed with its version. A lease, a counter and a
//! record with a lifetime are keys with an expiry. Every read-and-write is a script, which the server
//! runs atomically. A script that must not take effect twice keeps its result for as long as it may
//! be retried.

mod connection;
mod log;
mod waiting;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bowline_config::Secret;
use connection::{AttemptOutcome, ValkeyConnection};
use redis::Script;
use waiting::LogWaiting;

use crate::lease::{self, clamp_ttl_ms};
use crate::lifetime::clamp_ms;
use crate::{Key, Lease, Precondition, Store, StoreError, StoreFuture, StoreRecord, Version};

/// The prefix of all keys.
const KEY_PREFIX: &str = "bowline:";

/// How long the result of an operation is kept for its retries, in milliseconds. It is longer than the
/// timeout of an operation, because a server that was suspended may run an attempt late.
const OPERATION_RESULT_TTL_MS: i64 = 60_000;

const GET_SCRIPT: &str = include_str!("valkey/get.lua");
static PUT_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/put.lua")));
static REMOVE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/remove.lua")));
static TOUCH_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/touch.lua")));
static ADD_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/add.lua")));
static ACQUIRE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/acquire.lua")));
static RENEW_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/renew.lua")));
static RELEASE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/release.lua")));

/// A store in a Valkey or Redis server.
///
/// A lost connection is reopened, and an interrupted operation is retried within its timeout, after
/// checking whether it took effect. Durability depends on the server's settings; an append has no
/// other durability than a record.
///
/// Who waits for a log is woken by a blocking read, on a second connection that all waits of the store
/// share. A wait for a log that nobody waited for before may notice an append of another process 100
/// milliseconds late.
#[derive(Debug)]
pub struct ValkeyStore {
    connection: ValkeyConnection,
    waiting: Arc<LogWaiting>,
}

impl ValkeyStore {
    /// Connects to a URL: `redis://`, `valkey://`, each with an `s` for TLS, or `unix://`. `notes`
    /// receives messages for the user. Dropping the future changes nothing on the server.
    pub async fn open(url: &Secret, notes: &mut Vec<String>) -> Result<Self, StoreError> {
        let link = ValkeyConnection::open(url)?;
        notes.extend(link.check_server().await?);
        let waiting = Arc::new(LogWaiting::new(link.open_another()?));
        Ok(Self { connection: link, waiting })
    }

    async fn fetch(&self, key: &Key) -> Result<Option<StoreRecord>, StoreError> {
        let mut ask = redis::cmd("EVAL");
        ask.arg(GET_SCRIPT).arg(2).arg(kind_key(key.kind)).arg(value_key(key)).arg(&key.id);
        let kept: Option<Vec<u8>> = self.connection.query(&ask).await?;
        kept.map(|kept| self.parse_record(&kept)).transpose()
    }

    fn parse_version(&self, text: &str) -> Result<Version, StoreError> {
        text.parse().map(Version).map_err(|_| {
            StoreError::Unusable(format!(
                "{} answers with a version that is none",
                self.connection.describe()
            ))
        })
    }

    fn parse_record(&self, kept: &[u8]) -> Result<StoreRecord, StoreError> {
        parse_versioned(kept).ok_or_else(|| self.foreign_error())
    }

    fn foreign_error(&self) -> StoreError {
        StoreError::Unusable(format!("{} holds what is not ours", self.connection.describe()))
    }

    async fn put_record(
        &self,
        key: &Key,
        value: &[u8],
        ttl: Option<Duration>,
        expect: Precondition,
    ) -> Result<Option<Version>, StoreError> {
        let mut script = PUT_SCRIPT.key(kind_key(key.kind));
        script.key(version_key()).key(value_key(key)).key(value_ids_key(key.kind));
        script.arg(&key.id).arg(precondition_arg(expect)).arg(value);
        script.arg(ttl.map(|ttl| clamp_ms(ttl).to_string()).unwrap_or_default());
        let mut tries = self.connection.attempts();
        loop {
            match tries.run::<Option<String>>(&script).await? {
                AttemptOutcome::Done(None) => return Ok(None),
                AttemptOutcome::Done(Some(version)) => return self.parse_version(&version).map(Some),
                AttemptOutcome::Lost => {}
            }
            // The stored value may be ours. If it cannot be read, the next attempt reports the
            // error.
            if let Ok(Some(entry)) = self.fetch(key).await
                && entry.value == value
                && expect != Precondition::AtVersion(entry.version)
            {
                return Ok(Some(entry.version));
            }
        }
    }

    /// The records of a kind that have a lifetime, by id.
    async fn list_values(&self, kind: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let mut ask = redis::cmd("ZRANGE");
        ask.arg(value_ids_key(kind)).arg(0).arg(-1);
        let ids: Vec<String> = self.connection.query(&ask).await?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut ask = redis::cmd("MGET");
        for id in &ids {
            ask.arg(value_key_of(kind, id));
        }
        let kept: Vec<Option<Vec<u8>>> = self.connection.query(&ask).await?;
        Ok(ids.into_iter().zip(kept).filter_map(|(id, kept)| Some((id, kept?))).collect())
    }
}

impl Store for ValkeyStore {
    fn get<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<StoreRecord>> {
        Box::pin(self.fetch(key))
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        value: &'a [u8],
        expect: Precondition,
    ) -> StoreFuture<'a, Option<Version>> {
        Box::pin(self.put_record(key, value, None, expect))
    }

    fn put_for<'a>(
        &'a self,
        key: &'a Key,
        value: &'a [u8],
        ttl: Duration,
        expect: Precondition,
    ) -> StoreFuture<'a, Option<Version>> {
        Box::pin(self.put_record(key, value, Some(ttl), expect))
    }

    fn touch<'a>(&'a self, key: &'a Key, ttl: Duration) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut script = TOUCH_SCRIPT.key(value_key(key));
            script.key(value_ids_key(key.kind)).arg(&key.id).arg(clamp_ms(ttl));
            let touched: u64 = self.connection.run(&script).await?;
            Ok(touched == 1)
        })
    }

    fn add<'a>(&'a self, counter: &'a str, delta: i64, ttl: Duration) -> StoreFuture<'a, i64> {
        Box::pin(async move {
            let key = counter_key(counter);
            let mut script = ADD_SCRIPT.key(&key);
            script.key(format!("{key}:once:{}", lease::new_token()?));
            script.arg(delta).arg(clamp_ms(ttl)).arg(OPERATION_RESULT_TTL_MS);
            let value: String = self.connection.run(&script).await?;
            value.parse().map_err(|_| self.foreign_error())
        })
    }

    fn remove<'a>(&'a self, key: &'a Key, expect: Precondition) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut script = REMOVE_SCRIPT.key(kind_key(key.kind));
            script.key(value_key(key)).key(value_ids_key(key.kind));
            script.arg(&key.id).arg(precondition_arg(expect));
            let mut tries = self.connection.attempts();
            loop {
                if let AttemptOutcome::Done(removed) = tries.run::<u64>(&script).await? {
                    return Ok(removed > 0);
                }
                // The record was there and is gone, so it was removed, most likely by us.
                if matches!(expect, Precondition::AtVersion(_)) && matches!(self.fetch(key).await, Ok(None)) {
                    return Ok(true);
                }
            }
        })
    }

    fn list(&self, kind: &'static str) -> StoreFuture<'_, Vec<(Key, StoreRecord)>> {
        Box::pin(async move {
            let mut kept: BTreeMap<String, Vec<u8>> = self.list_values(kind).await?.into_iter().collect();
            let mut ask = redis::cmd("HGETALL");
            ask.arg(kind_key(kind));
            // A record that lost its lifetime between the two reads is listed once.
            kept.extend(self.connection.query::<Vec<(String, Vec<u8>)>>(&ask).await?);
            kept.into_iter().map(|(id, kept)| Ok((Key::new(kind, id), self.parse_record(&kept)?))).collect()
        })
    }

    fn acquire<'a>(&'a self, name: &'a str, ttl: Duration) -> StoreFuture<'a, Option<Lease>> {
        Box::pin(async move {
            let lease = Lease { name: name.to_owned(), token: lease::new_token()? };
            let mut script = ACQUIRE_SCRIPT.key(lease_key(name));
            script.arg(&lease.token).arg(clamp_ttl_ms(ttl));
            let granted: u64 = self.connection.run(&script).await?;
            Ok((granted == 1).then_some(lease))
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, ttl: Duration) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut script = RENEW_SCRIPT.key(lease_key(&lease.name));
            script.arg(&lease.token).arg(clamp_ttl_ms(ttl));
            let renewed: u64 = self.connection.run(&script).await?;
            Ok(renewed == 1)
        })
    }

    fn release(&self, lease: Lease) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut script = RELEASE_SCRIPT.key(lease_key(&lease.name));
            script.arg(&lease.token);
            let _: u64 = self.connection.run(&script).await?;
            Ok(())
        })
    }

    fn location(&self) -> String {
        self.connection.describe().to_owned()
    }
}

fn kind_key(kind: &str) -> String {
    format!("{KEY_PREFIX}entries:{kind}")
}

fn version_key() -> String {
    format!("{KEY_PREFIX}version")
}

/// The key of a record with a lifetime.
fn value_key(key: &Key) -> String {
    value_key_of(key.kind, &key.id)
}

fn value_key_of(kind: &str, id: &str) -> String {
    format!("{KEY_PREFIX}value:{kind}:{id}")
}

/// The key of the ids of all records of a kind that have a lifetime.
fn value_ids_key(kind: &str) -> String {
    format!("{KEY_PREFIX}values:{kind}")
}

fn counter_key(name: &str) -> String {
    format!("{KEY_PREFIX}counter:{{{}}}", escape_tag(name))
}

/// Escapes a name that is a hash tag, because the tag ends at the first closing brace and an empty one
/// does not count.
fn escape_tag(name: &str) -> String {
    if name.is_empty() { "%".to_owned() } else { name.replace('%', "%25").replace('}', "%7D") }
}

fn lease_key(name: &str) -> String {
    format!("{KEY_PREFIX}lease:{name}")
}

/// The precondition as an argument of the scripts.
fn precondition_arg(expect: Precondition) -> String {
    match expect {
        Precondition::Any => "*".into(),
        Precondition::Absent => "-".into(),
        Precondition::AtVersion(Version(version)) => version.to_string(),
    }
}

/// Parses a value that is prefixed with its version.
fn parse_versioned(kept: &[u8]) -> Option<StoreRecord> {
    let colon = kept.iter().take(21).position(|it| *it == b':')?;
    let version = std::str::from_utf8(&kept[..colon]).ok()?.parse().ok()?;
    Some(StoreRecord { value: kept[colon + 1..].to_vec(), version: Version(version) })
}
