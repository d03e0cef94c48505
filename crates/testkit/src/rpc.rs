//! JSON-RPC messages as plain values: the few shapes a scripted server needs.

use serde_json::{Map, Value, json};

/// Returns a request with this id.
pub fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    with_params(json!({"jsonrpc": "2.0", "id": id.into(), "method": method}), params)
}

/// Returns a notification. `Value::Null` as params leaves the member out.
pub fn notification(method: &str, params: Value) -> Value {
    with_params(json!({"jsonrpc": "2.0", "method": method}), params)
}

/// Returns a successful response.
pub fn result(id: &Value, result: Value) -> Value {
    let mut message = Map::new();
    message.insert("jsonrpc".into(), "2.0".into());
    message.insert("id".into(), id.clone());
    message.insert("result".into(), result);
    Value::Object(message)
}

/// Returns an error response.
pub fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn with_params(mut message: Value, params: Value) -> Value {
    if !params.is_null() {
        message["params"] = params;
    }
    message
}

/// The error with which the server refuses a request.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The HTTP status of the response, 200 by default. Stdio ignores it.
    pub(crate) status: u16,
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl Refusal {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { status: 200, code, message: message.into(), data: None }
    }

    pub(crate) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    pub(crate) fn message(self, id: &Value) -> Value {
        let mut message = error(id, self.code, &self.message);
        if let Some(data) = self.data {
            message["error"]["data"] = data;
        }
        message
    }
}

pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const INTERNAL_ERROR: i64 = -32603;
pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;
pub(crate) const URL_ELICITATION_REQUIRED: i64 = -32042;
pub(crate) const HEADER_MISMATCH: i64 = -32020;
pub(crate) const MISSING_CAPABILITY: i64 = -32021;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
