//! A host's side of a conversation: answers what servers ask, and remembers what that was.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bowline::wire::Json;
use bowline::{Answer, Handler, ServerRequest};
use serde_json::{Value, json};

/// Answers every request with the same result. Clones share what was asked.
#[derive(Clone)]
pub(crate) struct Person {
    capabilities: Value,
    result: Value,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Person {
    pub(crate) fn new(capabilities: Value, result: Value) -> Self {
        Self { capabilities, result, asked: Arc::default() }
    }

    /// One who fills in forms, always with the same words.
    pub(crate) fn filling_in(content: &Value) -> Self {
        Self::new(json!({ "elicitation": { "form": {} } }), json!({ "action": "accept", "content": content }))
    }

    /// What was asked so far: methods and params, in order.
    pub(crate) fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().expect("no holder panics").clone()
    }
}

impl Handler for Person {
    fn capabilities(&self) -> Json {
        Json::of(&self.capabilities).expect("a value is JSON")
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>> {
        let params = request.params.decode().expect("params are JSON");
        self.asked.lock().expect("no holder panics").push((request.method.into(), params));
        Box::pin(async move { Ok(Json::of(&self.result).expect("a value is JSON")) })
    }
}
