//! How the server behaves over HTTP+SSE, and the words of a [`Script`] for it.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::script::Script;

/// HTTP+SSE settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SseScript {
    /// `None` leaves the event out.
    pub(crate) endpoint: Option<String>,
    /// What a POST to the URL of the stream gets.
    pub(crate) refusal: Answer,
    /// What a POST gets whose message was taken.
    pub(crate) taken: Answer,
    /// Whether answers go into the response of the POST.
    pub(crate) in_post: bool,
    /// Whether a POST to an unknown session is left without an answer.
    pub(crate) gone_silent: bool,
}

impl Script {
    /// Speaks the HTTP+SSE transport of 2024-11-05 and nothing else: GET on the URL opens the
    /// stream, POST there is answered with 405. An unknown session is answered with 404 `Could not
    /// find session`; see [`session_gone`](Script::session_gone).
    #[must_use]
    pub fn http_sse(mut self) -> Self {
        self.http.sse_legacy = true;
        self.http.session_gone = Answer::new(404).text("Could not find session");
        self.legacy()
    }

    /// HTTP+SSE: what the `endpoint` event says. `$session` stands for the session, and `$origin` for
    /// the origin that the client asked. Any query on the URL of the stream will do, and any path
    /// under `/messages`; the session is found as `session_id`, as `sessionId`, or at the end of the
    /// path.
    #[must_use]
    pub fn sse_endpoint(mut self, endpoint: &str) -> Self {
        self.http.sse.endpoint = Some(endpoint.into());
        self
    }

    /// HTTP+SSE: the stream opens, and no `endpoint` event comes.
    #[must_use]
    pub fn no_sse_endpoint(mut self) -> Self {
        self.http.sse.endpoint = None;
        self
    }

    /// HTTP+SSE: what a POST to the URL of the stream is answered with, which is what a client sees
    /// that tries Streamable HTTP first. The default is 405.
    #[must_use]
    pub fn sse_refusal(mut self, answer: Answer) -> Self {
        self.http.sse.refusal = answer;
        self
    }

    /// HTTP+SSE: what a POST is answered with whose message was taken. The default is 202 `Accepted`.
    #[must_use]
    pub fn sse_taken(mut self, answer: Answer) -> Self {
        self.http.sse.taken = answer;
        self
    }

    /// HTTP+SSE: the answer to a request comes in the response of its POST (200, JSON), and not on the
    /// stream.
    #[must_use]
    pub fn sse_answers_in_post(mut self) -> Self {
        self.http.sse.in_post = true;
        self
    }

    /// HTTP+SSE: a POST to an unknown session is never answered, whatever
    /// [`session_gone`](Script::session_gone) says.
    #[must_use]
    pub fn sse_gone_silent(mut self) -> Self {
        self.http.sse.gone_silent = true;
        self
    }
}

impl Default for SseScript {
    fn default() -> Self {
        Self {
            endpoint: Some("/messages?session_id=$session".into()),
            refusal: Answer::new(405).header("allow", "GET"),
            taken: Answer::new(202).text("Accepted"),
            in_post: false,
            gone_silent: false,
        }
    }
}
