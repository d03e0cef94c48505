//! Defines the ways in which the server reports that it no longer knows a session. Each is what
//! some real server sends.

use serde_json::{Value, json};

/// One way to report a lost session.
pub(crate) struct LossSignature {
    /// Name for display: the status and the text.
    pub(crate) name: &'static str,
    pub(super) status: u16,
    form: BodyForm,
}

#[derive(Clone, Copy)]
enum BodyForm {
    Nothing,
    Text(&'static str),
    /// JSON that is not JSON-RPC.
    PlainJson(&'static str),
    Rpc(RpcError),
    /// A JSON-RPC error as an event, whatever the status.
    Event(RpcError),
}

#[derive(Clone, Copy)]
struct RpcError {
    id: ErrorId,
    code: i64,
    message: &'static str,
}

/// Which id an error carries.
#[derive(Clone, Copy)]
enum ErrorId {
    Request,
    Nobody,
    /// Some servers invent an id.
    Server,
}

pub(crate) const SIGNATURES: [LossSignature; 10] = [
    LossSignature {
        name: "404 Session not found, as JSON",
        status: 404,
        form: BodyForm::Rpc(RpcError { id: ErrorId::Nobody, code: -32001, message: "Session not found" }),
    },
    LossSignature {
        name: "404 Session not found, as text",
        status: 404,
        form: BodyForm::Text("Not Found: Session not found"),
    },
    LossSignature {
        name: "400 No valid session ID provided, as text",
        status: 400,
        form: BodyForm::Text("Bad Request: No valid session ID provided"),
    },
    LossSignature {
        name: "400 Missing session ID, code -32600",
        status: 400,
        form: BodyForm::Rpc(RpcError {
            id: ErrorId::Server,
            code: -32600,
            message: "Bad Request: Missing session ID",
        }),
    },
    LossSignature {
        name: "400 Server not initialized, as an event",
        status: 400,
        form: BodyForm::Event(RpcError {
            id: ErrorId::Nobody,
            code: -32000,
            message: "Bad Request: Server not initialized",
        }),
    },
    LossSignature {
        name: "401 Session not found, as text",
        status: 401,
        form: BodyForm::Text("Unauthorized: Session not found"),
    },
    LossSignature { name: "410 without a word", status: 410, form: BodyForm::Nothing },
    LossSignature {
        name: "500 around No valid session ID provided",
        status: 500,
        form: BodyForm::PlainJson(
            "Error POSTing to endpoint (HTTP 400): Bad Request: No valid session ID provided",
        ),
    },
    LossSignature {
        name: "200 with the error session not found",
        status: 200,
        form: BodyForm::Rpc(RpcError { id: ErrorId::Request, code: -32001, message: "session not found" }),
    },
    LossSignature {
        name: "200 stream, Server not initialized",
        status: 200,
        form: BodyForm::Event(RpcError {
            id: ErrorId::Request,
            code: -32002,
            message: "Server not initialized",
        }),
    },
];

impl LossSignature {
    /// Returns the media type and the body, for the request with this id.
    pub(super) fn body(&self, id: &Value) -> (&'static str, String) {
        match self.form {
            BodyForm::Nothing => ("text/plain", String::new()),
            BodyForm::Text(text) => ("text/plain", text.to_owned()),
            BodyForm::PlainJson(text) => ("application/json", json!({ "error": text }).to_string()),
            BodyForm::Rpc(error) => ("application/json", error.message(id).to_string()),
            BodyForm::Event(error) => {
                ("text/event-stream", format!("event: message\ndata: {}\n\n", error.message(id)))
            }
        }
    }
}

impl RpcError {
    fn message(self, id: &Value) -> Value {
        let id = match self.id {
            ErrorId::Request => id.clone(),
            ErrorId::Nobody => Value::Null,
            ErrorId::Server => "server-error".into(),
        };
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": self.code, "message": self.message}})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_them_apart_and_fit() {
        for (at, signature) in SIGNATURES.iter().enumerate() {
            assert!(signature.name.starts_with(&signature.status.to_string()));
            assert!(signature.name.len() <= 42, "{}", signature.name);
            assert!(SIGNATURES[..at].iter().all(|other| other.name != signature.name));
        }
    }

    #[test]
    fn an_event_is_framed() {
        let event = &SIGNATURES[4];
        let (media, body) = event.body(&json!(7));
        assert_eq!(media, "text/event-stream");
        assert!(body.starts_with("event: message\ndata: {") && body.ends_with("}\n\n"), "{body}");
    }
}
