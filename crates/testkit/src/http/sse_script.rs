//! Settings of the HTTP+SSE transport, and the [`Script`] methods that change them.

use serde::{Deserialize, Serialize};

use crate::canned_response::CannedResponse;
use crate::script::Script;

/// HTTP+SSE settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SseScript {
    /// The data of the `endpoint` event.
    pub(crate) endpoint: String,
    /// The response to a POST to the URL of the stream.
    pub(crate) refusal: CannedResponse,
}

impl Script {
    /// Speaks only the HTTP+SSE transport of 2024-11-05: GET on the URL opens the stream, POST
    /// there is answered with 405. An unknown session is answered with 404
    /// `Could not find session`; see
    /// [`unknown_session_response`](Script::unknown_session_response).
    pub fn http_sse(mut self) -> Self {
        self.http.sse_legacy = true;
        self.http.session_gone = CannedResponse::new(404).text("Could not find session");
        self.legacy()
    }

    /// HTTP+SSE: sets the data of the `endpoint` event. `$session` stands for the session, and
    /// `$origin` for the origin the client used. Any query on the URL of the stream is accepted,
    /// and any path under `/messages`; the session is found as `session_id`, as `sessionId`, or at
    /// the end of the path.
    pub fn sse_endpoint(mut self, endpoint: &str) -> Self {
        self.http.sse.endpoint = endpoint.into();
        self
    }

    /// HTTP+SSE: sets the response to a POST to the URL of the stream, which a client sees that
    /// tries Streamable HTTP first. The default is 405.
    pub fn sse_stream_post_response(mut self, answer: CannedResponse) -> Self {
        self.http.sse.refusal = answer;
        self
    }
}

impl Default for SseScript {
    fn default() -> Self {
        Self {
            endpoint: "/messages?session_id=$session".into(),
            refusal: CannedResponse::new(405).header("allow", "GET"),
        }
    }
}
