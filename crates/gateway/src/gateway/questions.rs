//! What a server asks because of a call of a host without a session.

use std::future::Future;
use std::pin::Pin;

use bowline::types::{code, method};
use bowline::{Handler, HandlerResult, Json, RpcError, ServerRequest};
use bowline_proto::server::modern::input::question_from_request;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::InputRequest;
use tokio::sync::{mpsc, oneshot};

use crate::error_response;

/// A question of a server that has no answer yet. Dropping it answers it with an error.
pub(super) struct Question {
    /// The question, as a host is asked it.
    pub(super) request: InputRequest,
    /// The key under which a modern server asks it.
    pub(super) key: Option<Box<str>>,
    answer: oneshot::Sender<HandlerResult>,
}

/// Takes the questions that are asked because of one call. Clones share everything.
#[derive(Clone)]
pub(super) struct CallQuestions {
    questions: mpsc::Sender<Question>,
    /// Whether a result of the method of the call may require input.
    may_ask: bool,
}

/// Most questions of one call that may be open.
pub(super) const MAX_OPEN_QUESTIONS: usize = 64;

impl Question {
    /// Whether the server still waits for the answer.
    pub(super) fn is_open(&self) -> bool {
        !self.answer.is_closed()
    }

    /// Gives the server its answer.
    pub(super) fn answer(self, answer: HandlerResult) {
        // The server may have canceled the question at this moment.
        let _ = self.answer.send(answer);
    }

    /// Tells the server that the host gives no answer. A modern server waits for none: an answer would begin
    /// its call again, for nobody.
    pub(super) fn give_up(self) {
        let answer = if self.key.is_none() && *self.request.method == *method::ELICIT {
            Ok(Edit::new().set_str("action", "cancel").apply(None).expect("a new object is one"))
        } else {
            Err(error_response::host_timeout())
        };
        self.answer(answer);
    }
}

impl CallQuestions {
    /// The questions of one call, and where they arrive.
    pub(super) fn new(may_ask: bool) -> (Self, mpsc::Receiver<Question>) {
        let (questions, receiver) = mpsc::channel(MAX_OPEN_QUESTIONS);
        (Self { questions, may_ask }, receiver)
    }

    async fn ask(&self, request: ServerRequest) -> HandlerResult {
        if !self.may_ask {
            return Err(RpcError::new(
                code::INVALID_REQUEST,
                "the open request of the host cannot require input",
            ));
        }
        let (answer, answered) = oneshot::channel();
        let ServerRequest { method, params, key, .. } = request;
        let request = question_from_request(&method, Some(&params));
        self.questions.try_send(Question { request, key, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => error_response::too_many_questions(),
            mpsc::error::TrySendError::Closed(_) => error_response::host_left(),
        })?;
        answered.await.unwrap_or_else(|_| Err(error_response::host_left()))
    }
}

impl Handler for CallQuestions {
    fn capabilities(&self) -> Json {
        // Those of the connection count.
        Json::empty_object()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        Box::pin(self.ask(request))
    }
}
