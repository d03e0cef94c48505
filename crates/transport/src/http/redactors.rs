//! Removes our secrets from everything a server sends back: bodies, events, challenges and
//! evidence.

use std::sync::Arc;

use bowline_config::Secret;
use bowline_proto::fault::{Cause, Fault};
use bytes::Bytes;
use http::HeaderValue;
use http::header::WWW_AUTHENTICATE;

use super::answer::{Answer, Body};
use super::credentials::Credentials;
use super::headers::is_credential;
use crate::redact::Redactor;

/// Redacts one response.
#[derive(Clone, Debug)]
pub(super) struct Redactors {
    /// Secrets of the configuration.
    pub(super) fixed: Arc<Redactor>,
    /// Source of the current token: an event stream outlives a token.
    pub(super) credentials: Option<Arc<dyn Credentials>>,
}

/// A redactor for the configured headers that carry credentials.
pub(super) fn of_headers(headers: &[(String, Secret)]) -> Redactor {
    let credentials = headers.iter().filter(|(name, _)| is_credential(name));
    Redactor::new(credentials.map(|(_, value)| Redactor::of_header(value.expose())))
}

impl Redactors {
    pub(super) fn is_empty(&self) -> bool {
        self.fixed.is_empty() && self.credentials.is_none()
    }

    fn current(&self) -> Option<Arc<Redactor>> {
        self.credentials.as_ref()?.redactor()
    }

    /// Redacts a message of the server.
    pub(super) fn json(&self, message: Bytes) -> Bytes {
        let message = self.fixed.json(message);
        match self.current() {
            Some(current) => current.json(message),
            None => message,
        }
    }

    fn text(&self, text: &str) -> String {
        let text = self.fixed.text(text);
        match self.current() {
            Some(current) => current.text(&text).into_owned(),
            None => text.into_owned(),
        }
    }

    /// Redacts a text that may have been truncated.
    fn beginning(&self, text: &str) -> String {
        let text = self.fixed.beginning(text);
        match self.current() {
            Some(current) => current.beginning(&text).into_owned(),
            None => text.into_owned(),
        }
    }

    /// Redacts every part of a response that is passed on. Events are redacted as they arrive.
    pub(super) fn answer(self, answer: &mut Answer) {
        if self.is_empty() {
            return;
        }
        for value in challenges(answer) {
            if let Ok(text) = value.to_str()
                && let Ok(shown) = HeaderValue::try_from(self.text(text))
            {
                *value = shown;
            }
        }
        match &mut answer.body {
            Body::Json(body) => *body = self.json(std::mem::take(body)),
            Body::Other(body) => {
                let text = String::from_utf8_lossy(body);
                let shown = self.text(&text);
                if shown != text {
                    *body = Bytes::from(shown);
                }
            }
            Body::Events(events) => events.redact(self),
            Body::Empty => {}
        }
    }

    /// Redacts a fault, which can hold the beginning of a response.
    pub(super) fn fault(&self, mut fault: Fault) -> Fault {
        if let Some(body) = &fault.evidence.body {
            fault.evidence.body = Some(self.beginning(body));
        }
        if let Cause::Redirect { location } = &mut fault.cause {
            *location = self.beginning(location);
        }
        fault
    }
}

fn challenges(answer: &mut Answer) -> impl Iterator<Item = &mut HeaderValue> {
    let values = answer.headers.iter_mut().filter(|(name, _)| **name == WWW_AUTHENTICATE);
    values.map(|(_, value)| value)
}
