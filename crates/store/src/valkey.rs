//! A store in a Valkey or Redis server, which any number of machines share.
//!
//! All records of a kind form one hash, each value prefixed with its version; a lease is a key with
//! an expiry. Every read-and-write is a script, which the server runs atomically.

mod link;

use std::sync::LazyLock;
use std::time::Duration;

use bowline_config::Secret;
use link::{Link, Tried};
use redis::Script;

use crate::lease::{self, bounded_ms};
use crate::{Doing, Entry, Expect, Key, Lease, Store, StoreError, Version};

/// The prefix of all keys.
const PREFIX: &str = "bowline:";

static PUT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/put.lua")));
static REMOVE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/remove.lua")));
static ACQUIRE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/acquire.lua")));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/renew.lua")));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("valkey/release.lua")));

/// A store in a Valkey or Redis server.
///
/// A lost connection is reopened, and an interrupted operation is retried within its timeout, after
/// checking whether it took effect. Durability depends on the server's settings.
#[derive(Debug)]
pub struct Valkey {
    link: Link,
}

impl Valkey {
    /// Connects to a URL: `redis://`, `valkey://`, each with an `s` for TLS, or `unix://`. `notes`
    /// receives messages for the user.
    pub async fn open(url: &Secret, notes: &mut Vec<String>) -> Result<Self, StoreError> {
        let link = Link::open(url)?;
        notes.extend(link.look().await?);
        Ok(Self { link })
    }

    async fn fetch(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        let mut ask = redis::cmd("HGET");
        ask.arg(kind_key(key.kind)).arg(&key.id);
        let kept: Option<Vec<u8>> = self.link.ask(&ask).await?;
        kept.map(|kept| self.entry(&kept)).transpose()
    }

    fn version(&self, text: &str) -> Result<Version, StoreError> {
        text.parse().map(Version).map_err(|_| {
            StoreError::Unusable(format!("{} answers with a version that is none", self.link.place()))
        })
    }

    fn entry(&self, kept: &[u8]) -> Result<Entry, StoreError> {
        parse(kept)
            .ok_or_else(|| StoreError::Unusable(format!("{} holds what is not ours", self.link.place())))
    }
}

impl Store for Valkey {
    fn get<'a>(&'a self, key: &'a Key) -> Doing<'a, Option<Entry>> {
        Box::pin(self.fetch(key))
    }

    fn put<'a>(&'a self, key: &'a Key, value: &'a [u8], expect: Expect) -> Doing<'a, Option<Version>> {
        Box::pin(async move {
            let mut script = PUT.key(kind_key(key.kind));
            script.key(version_key()).arg(&key.id).arg(expected(expect)).arg(value);
            let mut tries = self.link.tries();
            loop {
                match tries.run::<Option<String>>(&script).await? {
                    Tried::Done(None) => return Ok(None),
                    Tried::Done(Some(version)) => return self.version(&version).map(Some),
                    Tried::Lost => {}
                }
                // The stored value may be ours. If it cannot be read, the next attempt reports the
                // error.
                if let Ok(Some(entry)) = self.fetch(key).await
                    && entry.value == value
                    && expect != Expect::At(entry.version)
                {
                    return Ok(Some(entry.version));
                }
            }
        })
    }

    fn remove<'a>(&'a self, key: &'a Key, expect: Expect) -> Doing<'a, bool> {
        Box::pin(async move {
            let mut script = REMOVE.key(kind_key(key.kind));
            script.arg(&key.id).arg(expected(expect));
            let mut tries = self.link.tries();
            loop {
                if let Tried::Done(removed) = tries.run::<u64>(&script).await? {
                    return Ok(removed > 0);
                }
                // The record was there and is gone, so it was removed, most likely by us.
                if matches!(expect, Expect::At(_)) && matches!(self.fetch(key).await, Ok(None)) {
                    return Ok(true);
                }
            }
        })
    }

    fn list(&self, kind: &'static str) -> Doing<'_, Vec<(Key, Entry)>> {
        Box::pin(async move {
            let mut ask = redis::cmd("HGETALL");
            ask.arg(kind_key(kind));
            let kept: Vec<(String, Vec<u8>)> = self.link.ask(&ask).await?;
            let mut found: Vec<(Key, Entry)> = kept
                .into_iter()
                .map(|(id, kept)| Ok((Key::new(kind, id), self.entry(&kept)?)))
                .collect::<Result<_, StoreError>>()?;
            found.sort_by(|(one, _), (other, _)| one.id.cmp(&other.id));
            Ok(found)
        })
    }

    fn acquire<'a>(&'a self, name: &'a str, ttl: Duration) -> Doing<'a, Option<Lease>> {
        Box::pin(async move {
            let lease = Lease { name: name.to_owned(), token: lease::token()? };
            let mut script = ACQUIRE.key(lease_key(name));
            script.arg(&lease.token).arg(bounded_ms(ttl));
            let granted: u64 = self.link.run(&script).await?;
            Ok((granted == 1).then_some(lease))
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, ttl: Duration) -> Doing<'a, bool> {
        Box::pin(async move {
            let mut script = RENEW.key(lease_key(&lease.name));
            script.arg(&lease.token).arg(bounded_ms(ttl));
            let renewed: u64 = self.link.run(&script).await?;
            Ok(renewed == 1)
        })
    }

    fn release(&self, lease: Lease) -> Doing<'_, ()> {
        Box::pin(async move {
            let mut script = RELEASE.key(lease_key(&lease.name));
            script.arg(&lease.token);
            let _: u64 = self.link.run(&script).await?;
            Ok(())
        })
    }

    fn place(&self) -> String {
        self.link.place().to_owned()
    }
}

fn kind_key(kind: &str) -> String {
    format!("{PREFIX}entries:{kind}")
}

fn version_key() -> String {
    format!("{PREFIX}version")
}

fn lease_key(name: &str) -> String {
    format!("{PREFIX}lease:{name}")
}

/// The precondition as an argument of the scripts.
fn expected(expect: Expect) -> String {
    match expect {
        Expect::Anything => "*".into(),
        Expect::Nothing => "-".into(),
        Expect::At(Version(version)) => version.to_string(),
    }
}

/// Parses a value that is prefixed with its version.
fn parse(kept: &[u8]) -> Option<Entry> {
    let colon = kept.iter().take(21).position(|it| *it == b':')?;
    let version = std::str::from_utf8(&kept[..colon]).ok()?.parse().ok()?;
    Some(Entry { value: kept[colon + 1..].to_vec(), version: Version(version) })
}
