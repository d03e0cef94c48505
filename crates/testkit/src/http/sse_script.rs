//! Settings of the HTTP+SSE transport, and the [`Script`] methods that change them.

use serde::{Deserialize, Serialize};

use crate::canned_response::CannedResponse;
use crate::script::Script;

/// HTTP+SSE settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SseScript {
    /// The data of the `endpoint` event; `None` leaves the event out.
    pub(crate) endpoint: Option<String>,
    /// The response to a POST to the URL of the stream.
    pub(crate) refusal: CannedResponse,
    /// The response to a POST whose message was accepted.
    pub(crate) taken: CannedResponse,
    /// Whether JSON-RPC responses go into the response of the POST.
    pub(crate) in_post: bool,
    /// Whether a POST to an unknown session gets no response.
    pub(crate) gone_silent: bool,
}

impl Script {
    /// Speaks only the HTTP+SSE transport of 2024-11-05: GET on the URL opens the stream, POST
    /// there is answered with 405. An unknown session is answered with 404
    /// `Could not find session`; see
    /// [`unknown_session_response`](Script::unknown_session_response).
    #[must_use]
    pub fn http_sse(mut self) -> Self {
        self.http.sse_legacy = true;
        self.http.session_gone = CannedResponse::new(404).text("Could not find session");
        self.legacy()
    }

    /// HTTP+SSE: sets the data of the `endpoint` event. `$session` stands for the session, and
    /// `$origin` for the origin the client used. Any query on the URL of the stream is accepted,
    /// and any path under `/messages`; the session is found as `session_id`, as `sessionId`, or at
    /// the end of the path.
    #[must_use]
    pub fn sse_endpoint(mut self, endpoint: &str) -> Self {
        self.http.sse.endpoint = Some(endpoint.into());
        self
    }

    /// HTTP+SSE: opens the stream without an `endpoint` event.
    #[must_use]
    pub fn no_sse_endpoint(mut self) -> Self {
        self.http.sse.endpoint = None;
        self
    }

    /// HTTP+SSE: sets the response to a POST to the URL of the stream, which a client sees that
    /// tries Streamable HTTP first. The default is 405.
    #[must_use]
    pub fn sse_stream_post_response(mut self, answer: CannedResponse) -> Self {
        self.http.sse.refusal = answer;
        self
    }

    /// HTTP+SSE: sets the response to a POST whose message was accepted. The default is 202
    /// `Accepted`.
    #[must_use]
    pub fn sse_accepted_response(mut self, answer: CannedResponse) -> Self {
        self.http.sse.taken = answer;
        self
    }

    /// HTTP+SSE: sends the JSON-RPC response in the response of its POST (200, JSON), and not on
    /// the stream.
    #[must_use]
    pub fn sse_responds_in_post(mut self) -> Self {
        self.http.sse.in_post = true;
        self
    }

    /// HTTP+SSE: never responds to a POST to an unknown session, whatever
    /// [`unknown_session_response`](Script::unknown_session_response) says.
    #[must_use]
    pub fn sse_ignores_unknown_sessions(mut self) -> Self {
        self.http.sse.gone_silent = true;
        self
    }
}

impl Default for SseScript {
    fn default() -> Self {
        Self {
            endpoint: Some("/messages?session_id=$session".into()),
            refusal: CannedResponse::new(405).header("allow", "GET"),
            taken: CannedResponse::new(202).text("Accepted"),
            in_post: false,
            gone_silent: false,
        }
    }
}
