//! A scripted [`Handler`]: answers server requests and records them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bowline::{Handler, HandlerResult, Json, ServerRequest};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Answers requests with prepared results in order, then repeats the last one. Clones share the
/// recorded requests.
#[derive(Clone)]
pub(crate) struct ScriptedHandler {
    capabilities: Value,
    results: Vec<Value>,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl ScriptedHandler {
    pub(crate) fn new(capabilities: Value, results: impl Into<Vec<Value>>) -> Self {
        Self { capabilities, results: results.into(), asked: Arc::default() }
    }

    /// Accepts the first form with this content and declines all others.
    pub(crate) fn accepting(content: &Value) -> Self {
        let answers = [json!({ "action": "accept", "content": content }), json!({ "action": "decline" })];
        Self::new(json!({ "elicitation": { "form": {} } }), answers)
    }

    /// Returns the recorded requests in order: methods and params.
    pub(crate) fn requests(&self) -> Vec<(String, Value)> {
        self.asked.lock().clone()
    }
}

impl Handler for ScriptedHandler {
    fn capabilities(&self) -> Json {
        Json::encode(&self.capabilities).expect("a value is JSON")
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        let params = request.params.decode().expect("params are JSON");
        let mut asked = self.asked.lock();
        let result = Json::encode(&self.results[asked.len().min(self.results.len() - 1)]);
        asked.push((request.method.into(), params));
        Box::pin(async move { Ok(result.expect("a value is JSON")) })
    }
}
