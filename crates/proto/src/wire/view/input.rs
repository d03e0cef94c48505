//! What a modern server wants to know before it goes on (group MR).

use std::fmt;

use super::ViewError;
use super::read::Object;
use crate::wire::Json;

/// A result of type `input_required`. It lasts for one retry of one request (MR-05).
#[derive(Clone, PartialEq, Eq)]
pub struct InputRequired {
    /// What is asked. Every one must be answered, under its key (MR-02).
    pub requests: InputRequests,
    /// To be sent back exactly as it is (MR-04). Not to be shown or logged.
    pub state: Option<Json>,
}

/// What is asked, by key, in the server's order.
pub type InputRequests = Vec<(Box<str>, InputRequest)>;

/// One thing that is asked: a request of the server without an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest {
    /// `elicitation/create`, `sampling/createMessage`, `roots/list`, or one that must be refused (MR-07).
    pub method: Box<str>,
    /// Its parameters, if any.
    pub params: Option<Json>,
}

impl InputRequired {
    /// Decodes the result. It must ask something or carry a state (MR-01).
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let object = Object::of(json)?;
        let requests = requests(&object)?;
        let state = object.json("requestState");
        if requests.is_empty() && state.is_none() {
            return Err(object.misfit("inputRequests", "an object, or a `requestState`"));
        }
        Ok(Self { requests, state })
    }
}

impl fmt::Debug for InputRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The state is the server's own and may hold anything.
        let state = self.state.as_ref().map(|_| "…");
        f.debug_struct("InputRequired").field("requests", &self.requests).field("state", &state).finish()
    }
}

/// The `inputRequests` of a result or task. One that cannot be read fails them all, since an answer to
/// the others alone would be refused.
pub(super) fn requests(object: &Object<'_>) -> Result<InputRequests, ViewError> {
    const NAME: &str = "inputRequests";
    let Some(map) = object.json(NAME) else { return Ok(Vec::new()) };
    let map = Object::of(&map).map_err(|error| error.under(NAME))?;
    map.iter()
        .map(|(key, json)| match InputRequest::decode(&json) {
            Ok(request) => Ok((key.into(), request)),
            Err(error) => Err(error.under(key).under(NAME)),
        })
        .collect()
}

impl InputRequest {
    fn decode(json: &Json) -> Result<Self, ViewError> {
        let object = Object::of(json)?;
        Ok(Self { method: object.required("method")?, params: object.json("params") })
    }
}
