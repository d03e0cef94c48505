//! Owns headers that a command prints: how they are parsed, how long they are valid, and when it
//! runs again.

use std::fmt;

use bowline_config::HeadersCommand;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::error::{AuthError, AuthErrorKind, sanitize};
use crate::program;

/// A command that prints headers, and its last output.
pub(crate) struct CommandHeaders {
    command: HeadersCommand,
    last: Mutex<LastOutput>,
}

#[derive(Default)]
struct LastOutput {
    printed: HeaderMap,
    at: Option<Instant>,
}

/// How many headers the command may print.
const MAX_HEADERS: usize = 64;

impl CommandHeaders {
    pub(crate) fn new(command: HeadersCommand) -> Self {
        Self { command, last: Mutex::default() }
    }

    /// Whether the command has to run: it has not run yet, or its output is too old.
    pub(crate) fn is_due(&self) -> bool {
        self.last().at.is_none_or(|at| at.elapsed() >= self.command.ttl)
    }

    /// Whether the command has printed headers yet.
    pub(crate) fn has_output(&self) -> bool {
        self.last().at.is_some()
    }

    /// Runs the command. Returns its headers if they differ from the last ones.
    ///
    /// Dropping the future kills the command.
    pub(crate) async fn run(&self) -> Result<Option<HeaderMap>, AuthError> {
        let printed =
            program::run(&self.command.program, self.command.timeout).await.map_err(command_error)?;
        let printed = parse_headers(&printed).map_err(command_error)?;
        let mut last = self.last();
        let changed = last.at.is_none() || last.printed != printed;
        last.at = Some(Instant::now());
        if !changed {
            return Ok(None);
        }
        last.printed = printed.clone();
        Ok(Some(printed))
    }

    fn last(&self) -> parking_lot::MutexGuard<'_, LastOutput> {
        self.last.lock()
    }
}

/// A failure of the command is never solved by a login.
fn command_error(error: AuthError) -> AuthError {
    AuthError { kind: AuthErrorKind::Command, ..error }
}

/// Parses the output: a JSON object of strings. Errors contain header names only.
fn parse_headers(printed: &[u8]) -> Result<HeaderMap, AuthError> {
    let wrong = |what: String| {
        AuthError::new(AuthErrorKind::Setup, format!("the headers command {what}"))
            .hint("it has to print one JSON object, such as {\"Authorization\": \"Bearer ...\"}")
    };
    let object: Map<String, Value> =
        serde_json::from_slice(printed).map_err(|_| wrong("did not print a JSON object".to_owned()))?;
    if object.len() > MAX_HEADERS {
        return Err(wrong(format!("printed more than {MAX_HEADERS} headers")));
    }
    let mut headers = HeaderMap::with_capacity(object.len());
    for (name, value) in object {
        let shown = sanitize(&name);
        let Value::String(value) = value else {
            return Err(wrong(format!("printed {shown:?}, whose value is not a string")));
        };
        let known = HeaderName::from_bytes(name.as_bytes());
        let known =
            known.map_err(|_| wrong(format!("printed {shown:?}, which is not a valid header name")))?;
        if is_reserved(&known) {
            return Err(wrong(format!("printed {shown:?}, which a command may not set")));
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

/// Whether the transport sets this header itself, as for configured headers.
fn is_reserved(name: &HeaderName) -> bool {
    const RESERVED: [&str; 10] = [
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
    RESERVED.contains(&name.as_str()) || name.as_str().starts_with("mcp-")
}

impl fmt::Debug for CommandHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandHeaders").field("command", &self.command).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
