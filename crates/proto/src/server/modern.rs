//! The server's half of revision 2026-07-28: pure decisions about self-contained requests.
//!
//! A modern host has no session. Each of its requests names its revision and capabilities, and is
//! decided on its own; only a subscription has a state.
//!
//! - [`era`]: whether a message belongs to this half or to the legacy one
//! - [`methods`]: which methods exist, and the errors for those that do not
//! - [`request`]: the `_meta` of a request
//! - [`headers`]: the mirrored headers of a request over HTTP
//! - [`discover`]: the result of `server/discover`
//! - [`results`]: results for modern hosts
//! - [`legacy_results`]: results of modern servers for legacy hosts
//! - [`input`]: results that request input, and the retries that bring it
//! - [`request_state`]: the protected `requestState` of such results
//! - [`parked_calls`]: calls that wait for such retries
//! - [`listen`]: one `subscriptions/listen` stream

pub mod discover;
pub mod era;
pub mod headers;
pub mod input;
pub mod legacy_results;
pub mod listen;
pub mod methods;
pub mod parked_calls;
pub mod request;
pub mod request_state;
pub mod results;

use std::fmt;

use crate::revision::Revision;
use crate::wire::object::Edit;
use crate::wire::outgoing::{self, Frame};
use crate::wire::{Defect, Id, Json, RpcError, code, extension};

/// The modern revisions that are served.
pub const SERVED_REVISIONS: [Revision; 1] = [Revision::V2026_07_28];

/// A refused request: the JSON-RPC error, and the HTTP status that goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status of the response. It has no meaning on a pipe.
    pub status: u16,
    /// The error of the response.
    pub error: RpcError,
}

impl Refusal {
    /// A refusal of a request that the protocol forbids, with status 400.
    pub(crate) fn bad_request(code: i64, message: impl Into<String>) -> Self {
        Self { status: STATUS_BAD_REQUEST, error: RpcError::new(code, message) }
    }

    /// A refusal of params that the protocol allows and the request cannot be served with, with
    /// status 200.
    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self { status: STATUS_OK, error: RpcError::new(code::INVALID_PARAMS, message) }
    }

    /// Adds data to the error.
    pub(crate) fn with_data(mut self, data: Json) -> Self {
        self.error.data = Some(data);
        self
    }

    /// The refusal of a revision that is not served, with the revisions that are.
    // GW-01
    pub(crate) fn unsupported_version(requested: &str, supported: &[Revision]) -> Self {
        let names: Vec<&str> = supported.iter().map(|revision| revision.as_str()).collect();
        let message = format!("unsupported protocol version; supported: {}", names.join(", "));
        let supported = Json::encode(&names).expect("a list is JSON");
        let data = Edit::new().set("supported", &supported).set_str("requested", requested).apply(None);
        Self::bad_request(code::UNSUPPORTED_VERSION, message).with_data(data.expect("a new object is one"))
    }

    /// The refusal of a request that requires these client capabilities, which the host did not
    /// declare.
    // GW-04
    pub fn missing_capability(required: &Json) -> Self {
        let data = Edit::new().set("requiredCapabilities", required).apply(None);
        let message = "the request requires client capabilities that were not declared";
        Self::bad_request(code::MISSING_CLIENT_CAPABILITY, message)
            .with_data(data.expect("a new object is one"))
    }

    /// The refusal of a request about tasks of a host that does not declare the tasks extension.
    // TN-08
    pub fn undeclared_tasks() -> Self {
        let tasks = Edit::new().set(extension::TASKS, &Json::empty_object()).apply(None);
        let required = tasks.and_then(|tasks| Edit::new().set("extensions", &tasks).apply(None));
        Self::missing_capability(&required.expect("a new object is one"))
    }

    /// The refusal of a body that is not a JSON-RPC message.
    pub fn malformed(defect: Defect) -> Self {
        Self { status: STATUS_BAD_REQUEST, error: defect.to_error() }
    }

    /// The error of a server, with the status that its code has.
    // HM-11
    pub fn from_error(error: RpcError) -> Self {
        Self { status: error_status(error.code), error }
    }

    /// Writes the response to the request with this id. `None`: its id could not be read.
    pub fn to_frame(&self, id: Option<&Id>) -> Frame {
        match id {
            Some(id) => outgoing::response(id, Err(&self.error)),
            None => outgoing::error_without_id(&self.error),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Refusal {}

/// The HTTP status of a response with an error of this code.
// HM-11
pub fn error_status(code: i64) -> u16 {
    match code {
        code::METHOD_NOT_FOUND => STATUS_NOT_FOUND,
        code::PARSE_ERROR
        | code::INVALID_REQUEST
        | code::HEADER_MISMATCH
        | code::MISSING_CLIENT_CAPABILITY
        | code::UNSUPPORTED_VERSION => STATUS_BAD_REQUEST,
        _ => STATUS_OK,
    }
}

pub(crate) const STATUS_OK: u16 = 200;
pub(crate) const STATUS_BAD_REQUEST: u16 = 400;
pub(crate) const STATUS_NOT_FOUND: u16 = 404;

/// Whether client capabilities have a value at a path of names that is not missing, `null` or
/// `false`.
// EL-01: some hosts write `true` for `{}`.
pub(crate) fn declares(capabilities: &Json, path: &[&str]) -> bool {
    let value = path.iter().try_fold(capabilities.clone(), |json, name| json.member(name));
    value.is_some_and(|value| !value.is_null() && value.as_bytes() != b"false")
}

#[cfg(test)]
mod tests;
