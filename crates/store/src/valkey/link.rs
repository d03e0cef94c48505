//! Owns the connection to the server: timeouts, reconnects, and the meaning of errors. No error
//! contains the password.

use std::fmt;
use std::time::Duration;

use bowline_config::Secret;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, IntoConnectionInfo as _, RedisError};
use redis::{ScriptInvocation, ServerErrorKind};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout_at};

use crate::StoreError;

/// Timeout of an operation, including retries.
const PATIENCE: Duration = Duration::from_secs(10);

/// Timeout of one attempt.
const ATTEMPT: Duration = Duration::from_secs(3);

/// The wait between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// A connection with the description of its server.
pub(super) struct Link {
    manager: ConnectionManager,
    place: String,
}

impl Link {
    /// Prepares a connection, which is opened on first use.
    pub(super) fn open(url: &Secret) -> Result<Self, StoreError> {
        let invalid =
            |_| StoreError::Unusable("the URL of the store is not one of a Valkey or Redis server".into());
        let info = url.expose().into_connection_info().map_err(invalid)?;
        let place = place(info.addr(), info.redis_settings().db());
        if matches!(info.addr(), ConnectionAddr::TcpTls { .. })
            && rustls::crypto::CryptoProvider::get_default().is_none()
        {
            // The client uses the provider of the process, which is ambiguous if several are
            // compiled in.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let settings = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(ATTEMPT))
            .set_response_timeout(Some(ATTEMPT))
            .set_number_of_retries(1)
            .set_min_delay(PAUSE)
            .set_max_delay(PAUSE);
        let manager = Client::open(info)
            .and_then(|client| ConnectionManager::new_lazy_with_config(client, settings))
            .map_err(|error| meaning(&place, &error))?;
        Ok(Self { manager, place })
    }

    /// Describes the server, for people and without secrets.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Contacts the server. Returns messages for the user.
    pub(super) async fn look(&self) -> Result<Vec<String>, StoreError> {
        let mut ask = redis::cmd("INFO");
        let about: Result<String, _> = self.ask(&ask).await;
        let about = match about {
            Ok(about) => about,
            // The user may lack the permission for `INFO`. Whether other commands work shows later.
            Err(StoreError::Unusable(_)) => {
                ask = redis::cmd("PING");
                self.ask::<String>(&ask).await?;
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let says = |what: &str| about.lines().any(|line| line.trim_end() == what);
        let mut notes = Vec::new();
        if says("aof_enabled:0") {
            notes.push(format!(
                "{} writes no log of changes (appendonly): what it was told last is lost when it stops suddenly",
                self.place
            ));
        }
        if about.lines().any(|line| line.starts_with("maxmemory_policy:allkeys")) && !says("maxmemory:0") {
            notes.push(format!(
                "{} forgets what it likes when it is full (maxmemory-policy): it may forget logins",
                self.place
            ));
        }
        Ok(notes)
    }

    /// Runs a read-only command, with retries.
    pub(super) async fn ask<T: FromRedisValue>(&self, ask: &Cmd) -> Result<T, StoreError> {
        let mut tries = self.tries();
        loop {
            let attempt = timeout_at(tries.deadline, ask.query_async(&mut tries.manager)).await;
            // The connection was refused: a read need not wait for the server to start.
            if let Ok(Err(error)) = &attempt
                && error.is_connection_refusal()
            {
                return Err(meaning(&self.place, error));
            }
            if let Tried::Done(answer) = tries.judge(attempt).await? {
                return Ok(answer);
            }
        }
    }

    /// Runs an idempotent script, with retries.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, StoreError> {
        let mut tries = self.tries();
        loop {
            if let Tried::Done(answer) = tries.run(script).await? {
                return Ok(answer);
            }
        }
    }

    /// Starts the attempts at one operation.
    pub(super) fn tries(&self) -> Tries<'_> {
        Tries { manager: self.manager.clone(), place: &self.place, deadline: Instant::now() + PATIENCE }
    }
}

/// The attempts at one operation, which share its timeout.
pub(super) struct Tries<'a> {
    manager: ConnectionManager,
    place: &'a str,
    deadline: Instant,
}

/// The outcome of one attempt.
pub(super) enum Tried<T> {
    /// The server responded.
    Done(T),
    /// The response was lost; the operation may or may not have run. There is time for another
    /// attempt.
    Lost,
}

impl Tries<'_> {
    /// Runs a script once.
    pub(super) async fn run<T: FromRedisValue>(
        &mut self,
        script: &ScriptInvocation<'_>,
    ) -> Result<Tried<T>, StoreError> {
        let attempt = timeout_at(self.deadline, script.invoke_async(&mut self.manager)).await;
        self.judge(attempt).await
    }

    async fn judge<T>(
        &self,
        attempt: Result<Result<T, RedisError>, Elapsed>,
    ) -> Result<Tried<T>, StoreError> {
        let error = match attempt {
            Ok(Ok(answer)) => return Ok(Tried::Done(answer)),
            Ok(Err(error)) => error,
            Err(_) => {
                return Err(StoreError::Unavailable(format!(
                    "{} did not answer within {} seconds",
                    self.place,
                    PATIENCE.as_secs()
                )));
            }
        };
        if !passes(&error) || Instant::now() + PAUSE >= self.deadline {
            return Err(meaning(self.place, &error));
        }
        sleep(PAUSE).await;
        Ok(Tried::Lost)
    }
}

/// Whether a failure is likely temporary.
fn passes(error: &RedisError) -> bool {
    match error.kind() {
        // A bad certificate, for example, will not improve.
        ErrorKind::Io => error.is_connection_dropped() || error.is_timeout(),
        ErrorKind::Server(
            ServerErrorKind::BusyLoading | ServerErrorKind::TryAgain | ServerErrorKind::MasterDown,
        ) => true,
        _ => false,
    }
}

/// Maps an error of the server or connection.
fn meaning(place: &str, error: &RedisError) -> StoreError {
    // Bound the server's text, and remove control characters.
    let why: String = error.to_string().chars().filter(|it| !it.is_control()).take(200).collect();
    let text = format!("{place}: {why}");
    match error.kind() {
        ErrorKind::Io => StoreError::Unavailable(text),
        ErrorKind::Server(
            ServerErrorKind::BusyLoading
            | ServerErrorKind::TryAgain
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ReadOnly
            | ServerErrorKind::ClusterDown,
        ) => StoreError::Unavailable(text),
        _ => StoreError::Unusable(text),
    }
}

/// Describes the address, without user and password.
fn place(address: &ConnectionAddr, db: i64) -> String {
    let server = match address {
        ConnectionAddr::Unix(path) => path.display().to_string(),
        other => other.to_string(),
    };
    let db = if db == 0 { String::new() } else { format!(", database {db}") };
    format!("the Valkey server {server}{db}")
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.place).finish()
    }
}
