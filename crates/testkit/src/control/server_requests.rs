//! The [`Control`] methods that send server requests to a legacy client.

use serde_json::Value;
use tokio::sync::oneshot;

use super::{Control, WAIT_TIMEOUT};
use crate::engine::{ServerRequestInfo, StreamKind};
use crate::rpc;

impl Control {
    /// Sends the client a request and returns its whole response, `result` or `error`.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        self.send_request(method, params).await.answer().await
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
    pub async fn send_request(&self, method: &str, params: Value) -> PendingServerRequest {
        let id = self.engine.next_request_id();
        let message = rpc::request(id.as_str(), method, params);
        let send = || self.engine.send_request(StreamKind::Any, &message);
        match self.engine.message_log.wait_for(send, WAIT_TIMEOUT).await {
            Some(answer) => {
                PendingServerRequest { control: self.clone(), id: id.into(), method: method.into(), answer }
            }
            None => panic!("no channel opened; {}", self.engine.message_log.summary()),
        }
    }

    /// Returns the server requests, including those of tools, that the client has not answered.
    pub fn pending_server_requests(&self) -> Vec<ServerRequestInfo> {
        self.engine.pending_requests()
    }

    /// Cancels a server request with `notifications/cancelled`, on the stream it was sent on. A
    /// tool then gets `{"cancelled": reason}` as its response; a response that arrives all the same
    /// is a [violation](Self::violations). Returns false if the request is no longer pending.
    pub fn cancel_server_request(&self, id: &Value, reason: &str) -> bool {
        self.engine.cancel_server_request(id, reason)
    }
}

/// A server request that the client has not answered yet.
pub struct PendingServerRequest {
    control: Control,
    id: Value,
    method: String,
    answer: oneshot::Receiver<Value>,
}

impl PendingServerRequest {
    /// Returns the id of the request.
    pub fn id(&self) -> &Value {
        &self.id
    }

    /// Waits for the client's whole response, `result` or `error`. Panics if none arrives within
    /// ten seconds.
    pub async fn answer(self) -> Value {
        match tokio::time::timeout(WAIT_TIMEOUT, self.answer).await {
            Ok(Ok(answer)) => answer,
            _ => panic!("no answer to {}; {}", self.method, self.control.engine.message_log.summary()),
        }
    }

    /// Cancels the request, see [`Control::cancel_server_request`].
    pub fn cancel(self, reason: &str) -> bool {
        self.control.cancel_server_request(&self.id, reason)
    }
}
