//! A call of a tool and its only right results.

use bowline::Client;
use serde_json::{Value, json};

use crate::limit::within;

/// A call of a tool, and what its result must be, apart from `_meta`.
#[derive(Clone)]
pub(crate) struct ExpectedCall {
    tool: &'static str,
    arguments: Value,
    /// There are several if a result depends on the time.
    results: Vec<Value>,
}

impl ExpectedCall {
    /// A call whose result is one text.
    pub(crate) fn with_text(tool: &'static str, arguments: Value, text: impl Into<String>) -> Self {
        let content = json!([{"type": "text", "text": text.into()}]);
        Self { tool, arguments, results: vec![json!({ "content": content })] }
    }

    /// A call whose result has structured content besides its text.
    pub(crate) fn with_structure(
        tool: &'static str,
        arguments: Value,
        text: impl Into<String>,
        structure: Value,
    ) -> Self {
        let mut call = Self::with_text(tool, arguments, text);
        call.results[0]["structuredContent"] = structure;
        call
    }

    /// Accepts the result of the other call as well, which has the same tool and arguments.
    pub(crate) fn or(mut self, other: Self) -> Self {
        self.results.extend(other.results);
        self
    }

    /// Makes the call, which succeeds at its first attempt.
    pub(crate) async fn check(&self, client: &Client, server: &str) {
        let name = format!("{server}__{}", self.tool);
        let result = within(&name, client.call_tool(&name, &self.arguments)).await;
        let result = result.unwrap_or_else(|error| panic!("{name}: {error}"));
        let sent = (result.report.attempts, result.report.recoveries);
        assert_eq!(sent, (1, 0), "{name}: the host notices nothing of a fault");
        let mut found: Value = result.json.decode().expect("JSON");
        let members = found.as_object_mut().expect("an object");
        // Added for the era of the host, or by the SDK of the server.
        members.retain(|name, value| match &**name {
            "_meta" | "resultType" => false,
            "isError" => *value != json!(false),
            _ => true,
        });
        assert!(self.results.contains(&found), "{name}: {found:#}\nexpected: {:#}", json!(self.results));
    }
}
