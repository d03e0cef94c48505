//! Owns headers that a program makes: how they are read, for how long they are good, and when it is run again.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use bowline_config::HeadersCommand;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::error::{AuthError, AuthErrorKind, said};
use crate::program;

/// A program that prints headers, and what it printed last.
pub(crate) struct Headers {
    command: HeadersCommand,
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    printed: HeaderMap,
    at: Option<Instant>,
}

/// The most headers that a program may make.
const MOST: usize = 64;

impl Headers {
    pub(crate) fn new(command: HeadersCommand) -> Self {
        Self { command, last: Mutex::default() }
    }

    /// Whether it is time to run the program: it was not run yet, or what it printed is too old.
    pub(crate) fn are_due(&self) -> bool {
        self.last().at.is_none_or(|at| at.elapsed() >= self.command.ttl)
    }

    /// Whether there are any yet.
    pub(crate) fn are_there(&self) -> bool {
        self.last().at.is_some()
    }

    /// Runs the program. `Some`: it printed something else than before.
    ///
    /// Dropping the future kills the program.
    pub(crate) async fn run(&self) -> Result<Option<HeaderMap>, AuthError> {
        let printed = program::run(&self.command.program, self.command.timeout).await.map_err(failed)?;
        let printed = read(&printed).map_err(failed)?;
        let mut last = self.last();
        let changed = last.at.is_none() || last.printed != printed;
        last.at = Some(Instant::now());
        if !changed {
            return Ok(None);
        }
        last.printed = printed.clone();
        Ok(Some(printed))
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whatever is wrong with it, no login helps.
fn failed(error: AuthError) -> AuthError {
    AuthError { kind: AuthErrorKind::Command, ..error }
}

/// What a program printed: a JSON object of texts. Nothing of it is in an error but names.
fn read(printed: &[u8]) -> Result<HeaderMap, AuthError> {
    let wrong = |what: String| {
        AuthError::new(AuthErrorKind::Setup, format!("the headers command {what}"))
            .hint("it has to print one JSON object, such as {\"Authorization\": \"Bearer ...\"}")
    };
    let object: Map<String, Value> =
        serde_json::from_slice(printed).map_err(|_| wrong("did not print a JSON object".to_owned()))?;
    if object.len() > MOST {
        return Err(wrong(format!("printed more than {MOST} headers")));
    }
    let mut headers = HeaderMap::with_capacity(object.len());
    for (name, value) in object {
        let shown = said(&name);
        let Value::String(value) = value else {
            return Err(wrong(format!("printed {shown:?}, whose value is not a text")));
        };
        let known = HeaderName::from_bytes(name.as_bytes());
        let known = known.map_err(|_| wrong(format!("printed {shown:?}, which is no name of a header")))?;
        if is_ours(&known) {
            return Err(wrong(format!("printed {shown:?}, which is not its to set")));
        }
        let mut value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| wrong(format!("printed {shown:?} with a value that cannot be sent")))?;
        value.set_sensitive(true);
        if headers.insert(known, value).is_some() {
            return Err(wrong(format!("printed {shown:?} twice")));
        }
    }
    Ok(headers)
}

/// Headers that say what a request is. They are the transport's, as they are where headers are configured.
fn is_ours(name: &HeaderName) -> bool {
    const OURS: [&str; 10] = [
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "dpop",
        "last-event-id",
        "te",
        "transfer-encoding",
        "upgrade",
    ];
    OURS.contains(&name.as_str()) || name.as_str().starts_with("mcp-")
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Headers").field("command", &self.command).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
