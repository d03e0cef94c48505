//! Defines the ways in which the server reports that it no longer knows a session. Each is what
//! some real server sends.

use serde_json::{Value, json};

/// One way to report a lost session.
pub(crate) struct Signature {
    /// Name for display: the status and the text.
    pub(crate) name: &'static str,
    pub(super) status: u16,
    form: Form,
}

/// Form of the response body.
#[derive(Clone, Copy)]
enum Form {
    Nothing,
    Text(&'static str),
    /// JSON that is not JSON-RPC.
    Plain(&'static str),
    Rpc(Error),
    /// A JSON-RPC error as an event, whatever the status.
    Event(Error),
}

/// A JSON-RPC error.
#[derive(Clone, Copy)]
struct Error {
    id: Of,
    code: i64,
    message: &'static str,
}

/// Which id an error carries.
#[derive(Clone, Copy)]
enum Of {
    Request,
    Nobody,
    /// Some servers invent an id.
    Server,
}

/// All signatures.
pub(crate) const SIGNATURES: [Signature; 10] = [
    Signature {
        name: "404 Session not found, as JSON",
        status: 404,
        form: Form::Rpc(Error { id: Of::Nobody, code: -32001, message: "Session not found" }),
    },
    Signature {
        name: "404 Session not found, as text",
        status: 404,
        form: Form::Text("Not Found: Session not found"),
    },
    Signature {
        name: "400 No valid session ID provided, as text",
        status: 400,
        form: Form::Text("Bad Request: No valid session ID provided"),
    },
    Signature {
        name: "400 Missing session ID, code -32600",
        status: 400,
        form: Form::Rpc(Error { id: Of::Server, code: -32600, message: "Bad Request: Missing session ID" }),
    },
    Signature {
        name: "400 Server not initialized, as an event",
        status: 400,
        form: Form::Event(Error {
            id: Of::Nobody,
            code: -32000,
            message: "Bad Request: Server not initialized",
        }),
    },
    Signature {
        name: "401 Session not found, as text",
        status: 401,
        form: Form::Text("Unauthorized: Session not found"),
    },
    Signature { name: "410 without a word", status: 410, form: Form::Nothing },
    Signature {
        name: "500 around No valid session ID provided",
        status: 500,
        form: Form::Plain("Error POSTing to endpoint (HTTP 400): Bad Request: No valid session ID provided"),
    },
    Signature {
        name: "200 with the error session not found",
        status: 200,
        form: Form::Rpc(Error { id: Of::Request, code: -32001, message: "session not found" }),
    },
    Signature {
        name: "200 stream, Server not initialized",
        status: 200,
        form: Form::Event(Error { id: Of::Request, code: -32002, message: "Server not initialized" }),
    },
];

impl Signature {
    /// Returns the media type and the body, for the request with this id.
    pub(super) fn body(&self, id: &Value) -> (&'static str, String) {
        match self.form {
            Form::Nothing => ("text/plain", String::new()),
            Form::Text(text) => ("text/plain", text.to_owned()),
            Form::Plain(text) => ("application/json", json!({ "error": text }).to_string()),
            Form::Rpc(error) => ("application/json", error.message(id).to_string()),
            Form::Event(error) => {
                ("text/event-stream", format!("event: message\ndata: {}\n\n", error.message(id)))
            }
        }
    }
}

impl Error {
    fn message(self, id: &Value) -> Value {
        let id = match self.id {
            Of::Request => id.clone(),
            Of::Nobody => Value::Null,
            Of::Server => "server-error".into(),
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
