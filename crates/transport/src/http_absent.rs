//! What is left of HTTP in a build without the feature `http`: types that have no values.
//!
//! Opening a link to a URL fails with a fault that says why. Code that uses an open link compiles
//! unchanged, and the compiler removes it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bowline_config::Http;
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::frame::sse::Event;
use bytes::Bytes;
use http::HeaderMap;

/// Signs requests. There are none to sign.
pub trait Credentials: Send + Sync {}

/// The limits of a link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// How long a connection may take to be established.
    pub connect: Duration,
    /// Maximum size of a body, in bytes.
    pub body: usize,
    /// Maximum size of one event, in bytes.
    pub event: usize,
}

/// A link to a URL, which cannot be opened.
#[derive(Clone, Debug)]
pub struct HttpLink(Infallible);

/// A response, which never arrives.
#[derive(Debug)]
pub struct HttpResponse {
    /// The HTTP status.
    pub status: u16,
    /// All headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: ResponseBody,
    /// Whether the body was not read to its end.
    pub is_body_truncated: bool,
    never: Infallible,
}

/// The body of a response.
#[derive(Debug)]
#[expect(missing_docs, reason = "no value of this type exists in this build")]
pub enum ResponseBody {
    Empty,
    Json(Bytes),
    Events(EventStream),
    Other(Bytes),
}

/// A stream of events, which cannot be opened.
#[derive(Debug)]
pub struct EventStream(Infallible);

/// A link of HTTP+SSE, which cannot be opened.
#[derive(Debug)]
#[expect(missing_docs, reason = "no value of this type exists in this build")]
pub struct SseLegacy {
    pub post: HttpLink,
    pub events: EventStream,
}

/// An address that was not contacted. Only a server with a URL is judged by it.
#[derive(Debug)]
#[expect(missing_docs, reason = "no value of this type exists in this build")]
pub struct AddressRefusal {
    pub host: String,
    pub reason: Infallible,
}

/// Fails: there is no HTTP in this build.
#[expect(clippy::unused_async, reason = "it has the signature of the function that it replaces")]
pub async fn open_sse(link: &HttpLink, _headers: &HeaderMap) -> Result<SseLegacy, Fault> {
    match link.0 {}
}

#[expect(missing_docs, reason = "none of these functions can be called in this build")]
#[expect(clippy::unused_async, reason = "the signatures are those of the functions that they replace")]
impl HttpLink {
    /// Fails: there is no HTTP in this build.
    pub fn new(_config: &Http, _limits: Limits) -> Result<Self, Fault> {
        Err(Fault::before_sending(Cause::NotBuilt { feature: "http" }))
    }

    #[must_use]
    pub fn with_credentials(&self, _credentials: Arc<dyn Credentials>) -> Self {
        match self.0 {}
    }

    pub async fn post(&self, _body: Bytes, _headers: &HeaderMap) -> Result<HttpResponse, Fault> {
        match self.0 {}
    }

    pub async fn get(&self, _headers: &HeaderMap) -> Result<HttpResponse, Fault> {
        match self.0 {}
    }

    pub async fn delete(&self, _headers: &HeaderMap) -> Result<u16, Fault> {
        match self.0 {}
    }

    pub fn forget_connections(&self) {
        match self.0 {}
    }

    pub fn abort_in_flight(&self) {
        match self.0 {}
    }

    pub async fn wait_for_idle_close(&self) {
        match self.0 {}
    }

    pub fn clear_cookies(&self) {
        match self.0 {}
    }
}

#[expect(missing_docs, reason = "none of these functions can be called in this build")]
impl HttpResponse {
    pub fn header(&self, _name: &str) -> Option<&str> {
        match self.never {}
    }

    pub fn status_fault(&self) -> Fault {
        match self.never {}
    }
}

#[expect(missing_docs, reason = "none of these functions can be called in this build")]
#[expect(clippy::unused_async, reason = "the signatures are those of the functions that they replace")]
impl EventStream {
    pub async fn next(&mut self) -> Result<Option<Event>, Fault> {
        match self.0 {}
    }

    pub fn release(self) {
        match self.0 {}
    }

    pub fn last_event_id(&self) -> Option<&str> {
        match self.0 {}
    }
}
