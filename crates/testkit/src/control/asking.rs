//! What a test asks of a legacy client on the server's behalf.

use serde_json::Value;
use tokio::sync::oneshot;

use super::{Control, PATIENCE};
use crate::engine::{Asked, Via};
use crate::rpc;

impl Control {
    /// Sends the client a request and gives its whole answer, `result` or `error`.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        self.ask(method, params).await.answer().await
    }

    /// Sends the client a request out of the blue, as soon as a channel is open: the GET stream (stdio:
    /// stdout), else the stream of a POST under way. Panics if none opens within ten seconds.
    ///
    /// ```
    /// # async fn example(server: bowline_testkit::HttpServer) {
    /// let roots = server.ask("roots/list", serde_json::json!({})).await;
    /// roots.cancel("never mind");
    /// # }
    /// ```
    pub async fn ask(&self, method: &str, params: Value) -> Request {
        self.ask_via(Via::Any, method, params).await
    }

    /// Like [`ask`](Self::ask), on this kind of channel.
    pub async fn ask_via(&self, via: Via, method: &str, params: Value) -> Request {
        let id = self.engine.next_ask_id();
        let message = rpc::request(id.as_str(), method, params);
        match self.engine.ledger.until(|| self.engine.ask(via, &message), PATIENCE).await {
            Some(answer) => Request { control: self.clone(), id: id.into(), method: method.into(), answer },
            None => panic!("no channel for {via:?} opened; {}", self.engine.ledger.summary()),
        }
    }

    /// The requests of the server, from tools as well, that the client has not answered.
    pub fn asking(&self) -> Vec<Asked> {
        self.engine.asking()
    }

    /// Takes a request of the server back with `notifications/cancelled`, on the channel it was sent on.
    /// A tool then sees `{"cancelled": reason}` as its answer; an answer that comes all the same is a
    /// [violation](Self::violations). False if it does not wait any more.
    pub fn cancel_asked(&self, id: &Value, reason: &str) -> bool {
        self.engine.withdraw(id, reason)
    }
}

/// A request of the server that is under way.
pub struct Request {
    control: Control,
    id: Value,
    method: String,
    answer: oneshot::Receiver<Value>,
}

impl Request {
    /// Its id.
    pub fn id(&self) -> &Value {
        &self.id
    }

    /// The client's whole answer, `result` or `error`. Panics if none comes within ten seconds.
    pub async fn answer(self) -> Value {
        match tokio::time::timeout(PATIENCE, self.answer).await {
            Ok(Ok(answer)) => answer,
            _ => panic!("no answer to {}; {}", self.method, self.control.engine.ledger.summary()),
        }
    }

    /// Takes it back, see [`Control::cancel_asked`].
    pub fn cancel(self, reason: &str) -> bool {
        self.control.cancel_asked(&self.id, reason)
    }
}
