//! JSON-RPC messages of the fake server.

use serde_json::{Value, json};

use crate::tool::ToolReply;

/// The outcome of a request: a result, or an error.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RequestOutcome {
    Result(Value),
    Error { code: i64, message: String, data: Option<Value> },
}

impl RequestOutcome {
    pub(crate) fn error(code: i64, message: impl Into<String>) -> Self {
        Self::Error { code, message: message.into(), data: None }
    }

    pub(crate) fn into_message(self, id: &Value) -> Value {
        match self {
            Self::Result(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Self::Error { code, message, data } => {
                let mut error = json!({ "code": code, "message": message });
                if let Some(data) = data {
                    error["data"] = data;
                }
                json!({ "jsonrpc": "2.0", "id": id, "error": error })
            }
        }
    }
}

impl From<ToolReply> for RequestOutcome {
    fn from(result: ToolReply) -> Self {
        match result.outcome {
            Ok(result) => Self::Result(result),
            Err(error) => match error.code {
                Some(code) => Self::error(code, error.message),
                None => Self::Result(json!({
                    "content": [{ "type": "text", "text": error.message }],
                    "isError": true,
                })),
            },
        }
    }
}

pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

pub(crate) fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const INTERNAL_ERROR: i64 = -32603;
pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
