//! Owns where our secrets are taken out of what a server answers: bodies, events, challenges and evidence.

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

/// What is looked for in one answer.
#[derive(Clone, Debug)]
pub(super) struct Redactors {
    /// The credentials of the configuration.
    pub(super) fixed: Arc<Redactor>,
    /// Who knows what proves who we are at the moment: a stream of events outlives a token.
    pub(super) credentials: Option<Arc<dyn Credentials>>,
}

/// The configured headers that prove who we are.
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

    /// A message of the server.
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

    /// A text that may have been cut.
    fn beginning(&self, text: &str) -> String {
        let text = self.fixed.beginning(text);
        match self.current() {
            Some(current) => current.beginning(&text).into_owned(),
            None => text.into_owned(),
        }
    }

    /// Everything of an answer that goes on to others. Events are redacted as they come.
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

    /// A failure, with the beginning of what the server said.
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
