//! The [`Control`] methods that send server requests to a legacy client.

use serde_json::Value;
use tokio::sync::oneshot;

use super::{Control, PATIENCE};
use crate::engine::{Asked, Via};
use crate::rpc;

impl Control {
    /// Sends the client a request and returns its whole response, `result` or `error`.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        self.ask(method, params).await.answer().await
    }

    /// Sends the client a request outside of any call, as soon as a stream is open: the GET stream
    /// (stdio: stdout), else the stream of a POST that is still being answered. Panics if none
    /// opens within ten seconds.
    ///
    /// ```
    /// # async fn example(server: bowline_testkit::HttpServer) {
    /// let roots = server.send_request("roots/list", serde_json::json!({})).await;
    /// roots.cancel("never mind");
    /// # }
    /// ```
    pub async fn ask(&self, method: &str, params: Value) -> Request {
        self.ask_via(Via::Any, method, params).await
    }

    /// Like [`send_request`](Self::send_request), on this kind of stream.
    pub async fn ask_via(&self, via: Via, method: &str, params: Value) -> Request {
        let id = self.engine.next_ask_id();
        let message = rpc::request(id.as_str(), method, params);
        match self.engine.ledger.until(|| self.engine.ask(via, &message), PATIENCE).await {
            Some(answer) => Request { control: self.clone(), id: id.into(), method: method.into(), answer },
            None => panic!("no channel for {via:?} opened; {}", self.engine.ledger.summary()),
        }
    }

    /// Returns the server requests, including those of tools, that the client has not answered.
    pub fn asking(&self) -> Vec<Asked> {
        self.engine.asking()
    }

    /// Cancels a server request with `notifications/cancelled`, on the stream it was sent on. A
    /// tool then gets `{"cancelled": reason}` as its response; a response that arrives all the same
    /// is a [violation](Self::violations). Returns false if the request is no longer pending.
    pub fn cancel_asked(&self, id: &Value, reason: &str) -> bool {
        self.engine.withdraw(id, reason)
    }
}

/// A server request that the client has not answered yet.
pub struct Request {
    control: Control,
    id: Value,
    method: String,
    answer: oneshot::Receiver<Value>,
}

impl Request {
    /// Returns the id of the request.
    pub fn id(&self) -> &Value {
        &self.id
    }

    /// Waits for the client's whole response, `result` or `error`. Panics if none arrives within
    /// ten seconds.
    pub async fn answer(self) -> Value {
        match tokio::time::timeout(PATIENCE, self.answer).await {
            Ok(Ok(answer)) => answer,
            _ => panic!("no answer to {}; {}", self.method, self.control.engine.ledger.summary()),
        }
    }

    /// Cancels the request, see [`Control::cancel_server_request`].
    pub fn cancel(self, reason: &str) -> bool {
        self.control.cancel_asked(&self.id, reason)
    }
}
