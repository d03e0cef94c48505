//! A store in a Valkey or Redis server, which any number of machines share.
//!
//! All records of a kind form one hash, each value prefixed with its version; a lease is a key with
//! an expiry. Every read-and-write is a script, which the server runs atomically.

mod connection;

use std::sync::LazyLock;
use std::time::Duration;

use bowline_config::Secret;
use connection::{AttemptOutcome, ValkeyConnection};
use redis::Script;

use crate::lease::{self, clamp_ttl_ms};
use crate::{Key, Lease, Precondition, Store, StoreError, StoreFuture, StoreRecord, Version};

/// The prefix of all keys.
const KEY_PREFIX: &str = "bowline:";

static PUT_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/put.lua")));
static REMOVE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/remove.lua")));
static ACQUIRE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/acquire.lua")));
static RENEW_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/renew.lua")));
static RELEASE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/release.lua")));

/// A store in a Valkey or Redis server.
///
/// A lost connection is reopened, and an interrupted operation is retried within its timeout, after
/// checking whether it took effect. Durability depends on the server's settings.
#[derive(Debug)]
pub struct ValkeyStore {
    connection: ValkeyConnection,
}

impl ValkeyStore {
    /// Connects to a URL: `redis://`, `valkey://`, each with an `s` for TLS, or `unix://`. `notes`
    /// receives messages for the user.
    pub async fn open(url: &Secret, notes: &mut Vec<String>) -> Result<Self, StoreError> {
        let link = ValkeyConnection::open(url)?;
        notes.extend(link.check_server().await?);
        Ok(Self { connection: link })
    }

    async fn fetch(&self, key: &Key) -> Result<Option<StoreRecord>, StoreError> {
        let mut ask = redis::cmd("HGET");
        ask.arg(kind_key(key.kind)).arg(&key.id);
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
        parse_versioned(kept).ok_or_else(|| {
            StoreError::Unusable(format!("{} holds what is not ours", self.connection.describe()))
        })
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
        Box::pin(async move {
            let mut script = PUT_SCRIPT.key(kind_key(key.kind));
            script.key(version_key()).arg(&key.id).arg(precondition_arg(expect)).arg(value);
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
        })
    }

    fn remove<'a>(&'a self, key: &'a Key, expect: Precondition) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut script = REMOVE_SCRIPT.key(kind_key(key.kind));
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
            let mut ask = redis::cmd("HGETALL");
            ask.arg(kind_key(kind));
            let kept: Vec<(String, Vec<u8>)> = self.connection.query(&ask).await?;
            let mut found: Vec<(Key, StoreRecord)> = kept
                .into_iter()
                .map(|(id, kept)| Ok((Key::new(kind, id), self.parse_record(&kept)?)))
                .collect::<Result<_, StoreError>>()?;
            found.sort_by(|(one, _), (other, _)| one.id.cmp(&other.id));
            Ok(found)
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
