//! [`InputRequired`]: the result with which a modern server requests inputs before it continues.
// Group MR

use std::fmt;

use super::ViewError;
use super::read::Object;
use crate::wire::Json;

/// A result of type `input_required`. It is valid for one retry of one request.
// MR-02, MR-04, MR-05
#[derive(Clone, PartialEq, Eq)]
pub struct InputRequired {
    /// The requested inputs. All of them must be answered, under their keys.
    pub requests: InputRequests,
    /// Opaque state to send back unchanged. It must not be shown or logged.
    pub state: Option<Json>,
}

/// Requested inputs by key, in the server's order.
pub type InputRequests = Vec<(Box<str>, InputRequest)>;

/// One requested input: a server request without an id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputRequest {
    // MR-07
    /// `elicitation/create`, `sampling/createMessage`, `roots/list`, or a method that must be
    /// refused.
    pub method: Box<str>,
    /// Its parameters, if any.
    pub params: Option<Json>,
}

impl InputRequest {
    /// Creates a request. The parameters are an object, if there are any.
    pub fn new(method: impl Into<Box<str>>, params: Option<Json>) -> Self {
        Self { method: method.into(), params }
    }
}

impl InputRequired {
    /// Decodes the result. It must request an input or carry a state.
    // MR-01
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let object = Object::parse(json)?;
        let requests = decode_requests(&object)?;
        let state = object.json("requestState");
        if requests.is_empty() && state.is_none() {
            return Err(object.misfit("inputRequests", "an object, or a `requestState`"));
        }
        Ok(Self { requests, state })
    }
}

impl fmt::Debug for InputRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The state is opaque and may hold secrets.
        let state = self.state.as_ref().map(|_| "…");
        f.debug_struct("InputRequired").field("requests", &self.requests).field("state", &state).finish()
    }
}

/// Decodes the `inputRequests` of a result or task. An invalid one fails them all, since a server
/// refuses the inputs unless they are complete.
pub(super) fn decode_requests(object: &Object<'_>) -> Result<InputRequests, ViewError> {
    const NAME: &str = "inputRequests";
    let Some(map) = object.json(NAME) else { return Ok(Vec::new()) };
    let map = Object::parse(&map).map_err(|error| error.in_member(NAME))?;
    map.iter()
        .map(|(key, json)| match InputRequest::decode(&json) {
            Ok(request) => Ok((key.into(), request)),
            Err(error) => Err(error.in_member(key).in_member(NAME)),
        })
        .collect()
}

impl InputRequest {
    fn decode(json: &Json) -> Result<Self, ViewError> {
        let object = Object::parse(json)?;
        Ok(Self { method: object.required("method")?, params: object.json("params") })
    }
}
