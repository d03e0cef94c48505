//! [`Completion`]: the scripted completions of an argument.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The maximum number of values in a completion result, by the specification.
const MAX_VALUES: usize = 100;

/// The values of one argument, for [`Script::completes`](crate::Script::completes). The server
/// returns those that start with the typed text, at most a hundred.
///
/// ```
/// use bowline_testkit::Completion;
///
/// Completion::prompt("greet", "language", &["fr", "en"]);
/// Completion::prompt("greet", "word", &["bonjour"]).given("language", "fr");
/// Completion::resource("db://{table}", "table", &["users", "orders"]);
/// ```
#[must_use]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    pub(crate) of: Value,
    pub(crate) argument: String,
    pub(crate) values: Vec<String>,
    #[serde(default)]
    pub(crate) given: Vec<(String, String)>,
}

impl Completion {
    /// Returns completions for an argument of a prompt.
    pub fn prompt(name: &str, argument: &str, values: &[&str]) -> Self {
        Self::new(json!({"type": "ref/prompt", "name": name}), argument, values)
    }

    /// Returns completions for a variable of a resource template.
    pub fn resource(uri_template: &str, variable: &str, values: &[&str]) -> Self {
        Self::new(json!({"type": "ref/resource", "uri": uri_template}), variable, values)
    }

    fn new(of: Value, argument: &str, values: &[&str]) -> Self {
        let values = values.iter().map(ToString::to_string).collect();
        Self { of, argument: argument.into(), values, given: Vec::new() }
    }

    /// Applies only if `context.arguments` holds this value. Of several matching completions the
    /// one with the most such conditions wins.
    pub fn given(mut self, argument: &str, value: &str) -> Self {
        self.given.push((argument.into(), value.into()));
        self
    }

    pub(crate) fn matches(&self, params: &Value) -> bool {
        let chosen = &params["context"]["arguments"];
        self.is_for_reference(&params["ref"])
            && self.argument == params["argument"]["name"]
            && self.given.iter().all(|(name, value)| chosen[name.as_str()] == value.as_str())
    }

    pub(crate) fn is_for_reference(&self, of: &Value) -> bool {
        ["type", "name", "uri"].iter().all(|member| self.of[member] == of[member])
    }

    pub(crate) fn complete(&self, typed: &str) -> Value {
        let fitting = self.values.iter().filter(|value| value.starts_with(typed));
        let mut values: Vec<&String> = fitting.collect();
        let total = values.len();
        values.truncate(MAX_VALUES);
        json!({"completion": {"values": values, "total": total, "hasMore": total > MAX_VALUES}})
    }
}
