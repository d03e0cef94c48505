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

pub(crate) const SIGNATURES: [LossSignature; 10] = {
    use BodyForm::{Event, Nothing, PlainJson, Rpc, Text};
    use ErrorId::{Nobody, Request, Server};

    const WRAPPED: &str = "Error POSTing to endpoint (HTTP 400): Bad Request: No valid session ID provided";
    const fn signature(name: &'static str, status: u16, form: BodyForm) -> LossSignature {
        LossSignature { name, status, form }
    }
    const fn error(id: ErrorId, code: i64, message: &'static str) -> RpcError {
        RpcError { id, code, message }
    }
    [
        signature("404 Session not found, as JSON", 404, Rpc(error(Nobody, -32001, "Session not found"))),
        signature("404 Session not found, as text", 404, Text("Not Found: Session not found")),
        signature(
            "400 No valid session ID provided, as text",
            400,
            Text("Bad Request: No valid session ID provided"),
        ),
        signature(
            "400 Missing session ID, code -32600",
            400,
            Rpc(error(Server, -32600, "Bad Request: Missing session ID")),
        ),
        signature(
            "400 Server not initialized, as an event",
            400,
            Event(error(Nobody, -32000, "Bad Request: Server not initialized")),
        ),
        signature("401 Session not found, as text", 401, Text("Unauthorized: Session not found")),
        signature("410 without a word", 410, Nothing),
        signature("500 around No valid session ID provided", 500, PlainJson(WRAPPED)),
        signature(
            "200 with the error session not found",
            200,
            Rpc(error(Request, -32001, "session not found")),
        ),
        signature(
            "200 stream, Server not initialized",
            200,
            Event(error(Request, -32002, "Server not initialized")),
        ),
    ]
};

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
