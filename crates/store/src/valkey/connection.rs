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
const OPERATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of one attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);

/// The wait between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// A connection with the description of its server.
pub(super) struct ValkeyConnection {
    client: Client,
    manager: ConnectionManager,
    location: String,
}

impl ValkeyConnection {
    /// Prepares a connection, which is opened on first use.
    pub(super) fn open(url: &Secret) -> Result<Self, StoreError> {
        let invalid =
            |_| StoreError::Unusable("the URL of the store is not one of a Valkey or Redis server".into());
        let info = url.expose().into_connection_info().map_err(invalid)?;
        let place = describe_address(info.addr(), info.redis_settings().db());
        if matches!(info.addr(), ConnectionAddr::TcpTls { .. })
            && rustls::crypto::CryptoProvider::get_default().is_none()
        {
            // The client uses the provider of the process, which is ambiguous if several are
            // compiled in.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let client = Client::open(info).map_err(|error| to_store_error(&place, &error))?;
        let manager = new_manager(&client).map_err(|error| to_store_error(&place, &error))?;
        Ok(Self { client, manager, location: place })
    }

    /// Prepares a second connection to the same server, for commands that block.
    pub(super) fn open_another(&self) -> Result<ConnectionManager, StoreError> {
        new_manager(&self.client).map_err(|error| to_store_error(&self.location, &error))
    }

    /// Describes the server, for people and without secrets.
    pub(super) fn describe(&self) -> &str {
        &self.location
    }

    /// Contacts the server. Returns messages for the user.
    pub(super) async fn check_server(&self) -> Result<Vec<String>, StoreError> {
        let mut ask = redis::cmd("INFO");
        let about: Result<String, _> = self.query(&ask).await;
        let about = match about {
            Ok(about) => about,
            // The user may lack the permission for `INFO`. Whether other commands work shows later.
            Err(StoreError::Unusable(_)) => {
                ask = redis::cmd("PING");
                self.query::<String>(&ask).await?;
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let says = |what: &str| about.lines().any(|line| line.trim_end() == what);
        let mut notes = Vec::new();
        if says("aof_enabled:0") {
            notes.push(format!(
                "{} writes no log of changes (appendonly): what it was told last is lost when it stops suddenly",
                self.location
            ));
        }
        if about.lines().any(|line| line.starts_with("maxmemory_policy:allkeys")) && !says("maxmemory:0") {
            notes.push(format!(
                "{} forgets what it likes when it is full (maxmemory-policy): it may forget logins",
                self.location
            ));
        }
        Ok(notes)
    }

    /// Runs a read-only command, with retries.
    pub(super) async fn query<T: FromRedisValue>(&self, ask: &Cmd) -> Result<T, StoreError> {
        let mut tries = self.attempts();
        loop {
            let attempt = timeout_at(tries.deadline, ask.query_async(&mut tries.manager)).await;
            // The connection was refused: a read need not wait for the server to start.
            if let Ok(Err(error)) = &attempt
                && error.is_connection_refusal()
            {
                return Err(to_store_error(&self.location, error));
            }
            if let AttemptOutcome::Done(answer) = tries.classify(attempt).await? {
                return Ok(answer);
            }
        }
    }

    /// Runs an idempotent script, with retries.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, StoreError> {
        let mut tries = self.attempts();
        loop {
            if let AttemptOutcome::Done(answer) = tries.run(script).await? {
                return Ok(answer);
            }
        }
    }

    /// Starts the attempts at one operation.
    pub(super) fn attempts(&self) -> Attempts<'_> {
        Attempts {
            manager: self.manager.clone(),
            location: &self.location,
            deadline: Instant::now() + OPERATION_TIMEOUT,
        }
    }
}

/// The attempts at one operation, which share its timeout.
pub(super) struct Attempts<'a> {
    manager: ConnectionManager,
    location: &'a str,
    deadline: Instant,
}

/// The outcome of one attempt.
pub(super) enum AttemptOutcome<T> {
    /// The server responded.
    Done(T),
    /// The response was lost; the operation may or may not have run. There is time for another
    /// attempt.
    Lost,
}

impl Attempts<'_> {
    /// Runs a script once.
    pub(super) async fn run<T: FromRedisValue>(
        &mut self,
        script: &ScriptInvocation<'_>,
    ) -> Result<AttemptOutcome<T>, StoreError> {
        let attempt = timeout_at(self.deadline, script.invoke_async(&mut self.manager)).await;
        self.classify(attempt).await
    }

    async fn classify<T>(
        &self,
        attempt: Result<Result<T, RedisError>, Elapsed>,
    ) -> Result<AttemptOutcome<T>, StoreError> {
        let error = match attempt {
            Ok(Ok(answer)) => return Ok(AttemptOutcome::Done(answer)),
            Ok(Err(error)) => error,
            Err(_) => {
                return Err(StoreError::Unavailable(format!(
                    "{} did not answer within {} seconds",
                    self.location,
                    OPERATION_TIMEOUT.as_secs()
                )));
            }
        };
        if !is_temporary(&error) || Instant::now() + RETRY_INTERVAL >= self.deadline {
            return Err(to_store_error(self.location, &error));
        }
        sleep(RETRY_INTERVAL).await;
        Ok(AttemptOutcome::Lost)
    }
}

fn new_manager(client: &Client) -> Result<ConnectionManager, RedisError> {
    let settings = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(ATTEMPT_TIMEOUT))
        .set_response_timeout(Some(ATTEMPT_TIMEOUT))
        .set_number_of_retries(1)
        .set_min_delay(RETRY_INTERVAL)
        .set_max_delay(RETRY_INTERVAL);
    ConnectionManager::new_lazy_with_config(client.clone(), settings)
}

/// Whether a failure is likely temporary.
fn is_temporary(error: &RedisError) -> bool {
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
fn to_store_error(place: &str, error: &RedisError) -> StoreError {
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
fn describe_address(address: &ConnectionAddr, db: i64) -> String {
    let server = match address {
        ConnectionAddr::Unix(path) => path.display().to_string(),
        other => other.to_string(),
    };
    let db = if db == 0 { String::new() } else { format!(", database {db}") };
    format!("the Valkey server {server}{db}")
}

impl fmt::Debug for ValkeyConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.location).finish()
    }
}
