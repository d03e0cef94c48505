//! Removes our secrets from everything a server sends back: bodies, events, challenges and
//! evidence.

use std::sync::Arc;

use bowline_config::Secret;
use bowline_proto::fault::{Cause, Fault};
use bytes::Bytes;
use http::HeaderValue;
use http::header::WWW_AUTHENTICATE;

use super::credentials::Credentials;
use super::headers::is_credential;
use super::response::{HttpResponse, ResponseBody};
use crate::redact::Redactor;

/// Redacts one response.
#[derive(Clone, Debug)]
pub(super) struct ResponseRedactor {
    /// Secrets of the configuration.
    pub(super) configured: Arc<Redactor>,
    /// Source of the current token: an event stream outlives a token.
    pub(super) credentials: Option<Arc<dyn Credentials>>,
}

/// A redactor for the configured headers that carry credentials.
pub(super) fn redactor_for_headers(headers: &[(String, Secret)]) -> Redactor {
    let credentials = headers.iter().filter(|(name, _)| is_credential(name));
    Redactor::new(credentials.map(|(_, value)| Redactor::secret_in_header(value.expose())))
}

impl ResponseRedactor {
    pub(super) fn is_empty(&self) -> bool {
        self.configured.is_empty() && self.credentials.is_none()
    }

    fn current_redactor(&self) -> Option<Arc<Redactor>> {
        self.credentials.as_ref()?.redactor()
    }

    /// Redacts a message of the server.
    pub(super) fn redact_json(&self, message: Bytes) -> Bytes {
        let message = self.configured.redact_json(message);
        match self.current_redactor() {
            Some(current) => current.redact_json(message),
            None => message,
        }
    }

    fn redact_text(&self, text: &str) -> String {
        let text = self.configured.redact_text(text);
        match self.current_redactor() {
            Some(current) => current.redact_text(&text).into_owned(),
            None => text.into_owned(),
        }
    }

    /// Redacts a text that may have been truncated.
    fn redact_truncated(&self, text: &str) -> String {
        let text = self.configured.redact_truncated(text);
        match self.current_redactor() {
            Some(current) => current.redact_truncated(&text).into_owned(),
            None => text.into_owned(),
        }
    }

    /// Redacts every part of a response that is passed on. Events are redacted as they arrive.
    pub(super) fn redact_response(self, answer: &mut HttpResponse) {
        if self.is_empty() {
            return;
        }
        for value in challenges_mut(answer) {
            if let Ok(text) = value.to_str()
                && let Ok(shown) = HeaderValue::try_from(self.redact_text(text))
            {
                *value = shown;
            }
        }
        match &mut answer.body {
            ResponseBody::Json(body) => *body = self.redact_json(std::mem::take(body)),
            ResponseBody::Other(body) => {
                let text = String::from_utf8_lossy(body);
                let shown = self.redact_text(&text);
                if shown != text {
                    *body = Bytes::from(shown);
                }
            }
            ResponseBody::Events(events) => events.redact(self),
            ResponseBody::Empty => {}
        }
    }

    /// Redacts a fault, which can hold the beginning of a response.
    pub(super) fn redact_fault(&self, mut fault: Fault) -> Fault {
        if let Some(body) = &fault.evidence.body {
            fault.evidence.body = Some(self.redact_truncated(body));
        }
        if let Cause::Redirect { location } = &mut fault.cause {
            *location = self.redact_truncated(location);
        }
        fault
    }
}

fn challenges_mut(answer: &mut HttpResponse) -> impl Iterator<Item = &mut HeaderValue> {
    let values = answer.headers.iter_mut().filter(|(name, _)| **name == WWW_AUTHENTICATE);
    values.map(|(_, value)| value)
}
