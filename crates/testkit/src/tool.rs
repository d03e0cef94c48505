//! [`Tool`]: a tool's definition, and the behavior of a call.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::scripted_request::{InputScript, ScriptedRequest};
use crate::task_plan::TaskPlan;

/// A tool of a [`Script`](crate::Script).
///
/// ```
/// use bowline_testkit::Tool;
///
/// Tool::named("search").read_only();
/// Tool::like("charge_card", "counter");
/// Tool::like("lookup", "structured").annotation("idempotentHint", true);
/// ```
#[must_use]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "ToolJson")]
pub struct Tool {
    pub(crate) behavior: Behavior,
    pub(crate) definition: Value,
    /// The plan of the tasks its calls become, if they become tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) task: Option<TaskPlan>,
}

/// The behavior of a call.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Behavior {
    Echo,
    Add,
    Slow,
    Fail,
    Big,
    Counter,
    Structured,
    Ask,
    Asks(InputScript),
    Result(Value),
    Logs(Vec<(String, Value)>),
    Pages(Vec<(String, String)>),
    #[serde(skip)]
    Closure(ToolFn),
}

pub(crate) type ToolFn = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

impl Tool {
    /// Returns the built-in tool of this name, or an echo under any other name.
    pub fn named(name: &str) -> Self {
        Self::like(name, name)
    }

    /// Returns a tool of any name that behaves like a built-in one.
    pub fn like(name: &str, builtin: &str) -> Self {
        let behavior = match builtin {
            "add" => Behavior::Add,
            "slow" => Behavior::Slow,
            "fail" => Behavior::Fail,
            "big" => Behavior::Big,
            "counter" => Behavior::Counter,
            "structured" => Behavior::Structured,
            "ask" => Behavior::Ask,
            "gallery" => Behavior::Result(gallery()),
            _ => Behavior::Echo,
        };
        let mut tool = Self::with_behavior(name, behavior);
        if let Behavior::Structured = tool.behavior {
            tool.definition["outputSchema"] = json!({
                "type": "object",
                "properties": {"arguments": {"type": "object"}, "size": {"type": "integer"}},
                "required": ["arguments", "size"],
            });
        }
        tool
    }

    fn with_behavior(name: &str, behavior: Behavior) -> Self {
        let definition = json!({
            "name": name,
            "description": behavior.description(),
            "inputSchema": behavior.schema(),
        });
        Self { behavior, definition, task: None }
    }

    /// Returns a tool that sends the client all of these requests, and returns the responses as a
    /// JSON text, by key.
    ///
    /// Legacy: the tool sends server requests on the stream of the call, whatever the client
    /// declared; an error appears under its key as `{"error": …}`. Modern: the result is
    /// `input_required` with a `requestState`. Protocol errors of the client in the retried call
    /// are recorded in [`violations`](crate::Control::violations).
    pub fn asks(name: &str, questions: impl IntoIterator<Item = impl Into<ScriptedRequest>>) -> Self {
        Self::with_behavior(name, Behavior::Asks(InputScript::single_round(questions)))
    }

    /// Like [`asks`](Self::asks), one round after the other. In the modern era a round without
    /// requests is a result with only a state.
    pub fn asks_in_rounds<Q: Into<ScriptedRequest>>(
        name: &str,
        rounds: impl IntoIterator<Item = impl IntoIterator<Item = Q>>,
    ) -> Self {
        Self::with_behavior(name, Behavior::Asks(InputScript::rounds(rounds)))
    }

    /// Sends its requests whatever a modern client declared, where a conforming server answers
    /// `-32021`.
    pub fn ignoring_capabilities(mut self) -> Self {
        self.input_script_mut().unchecked = true;
        self
    }

    /// Sets the `requestState` of each round; `None` leaves it out.
    pub fn request_states<'a>(mut self, states: impl IntoIterator<Item = Option<&'a str>>) -> Self {
        self.input_script_mut().states = states.into_iter().map(|state| state.map(str::to_owned)).collect();
        self
    }

    fn input_script_mut(&mut self) -> &mut InputScript {
        match &mut self.behavior {
            Behavior::Asks(asks) => asks,
            other => panic!("a tool that {other:?} has no rounds"),
        }
    }

    /// Returns a tool that logs these lines, a level and data each, and returns `done`. The lines
    /// go before the response, filtered by the client's level: a legacy client that set no level
    /// gets all, a modern request without a level gets none.
    pub fn logs<'a>(name: &str, lines: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let lines = lines.into_iter().map(|(level, data)| (level.to_owned(), data)).collect();
        Self::with_behavior(name, Behavior::Logs(lines))
    }

    /// Returns a tool that fails with `-32042` until
    /// [`Control::complete_elicitation`](crate::Control::complete_elicitation) was called for each
    /// of these ids, then echoes. A modern client gets `input_required` instead, and its `accept`
    /// counts as the visit.
    pub fn needs_url_elicitations<'a>(
        name: &str,
        pages: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let pages = pages.into_iter().map(|(id, url)| (id.to_owned(), url.to_owned())).collect();
        Self::with_behavior(name, Behavior::Pages(pages))
    }

    /// Makes its calls tasks: in 2025-11-25 if the client sends `task`, in the extension if the
    /// client declared it.
    pub fn task(mut self, plan: TaskPlan) -> Self {
        self.task = Some(plan);
        self
    }

    /// Makes its calls return exactly this result.
    pub fn result(mut self, result: Value) -> Self {
        self.behavior = Behavior::Result(result);
        self
    }

    /// Makes its calls return this as `structuredContent`, and as text.
    pub fn structured(self, value: Value) -> Self {
        let copy = json!([{"type": "text", "text": value.to_string()}]);
        self.result(json!({"content": copy, "structuredContent": value}))
    }

    /// Sets the output schema.
    pub fn output_schema(self, schema: Value) -> Self {
        self.member("outputSchema", schema)
    }

    pub(crate) fn with_closure(name: &str, run: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        Self { behavior: Behavior::Closure(Arc::new(run)), ..Self::named(name) }
    }

    pub(crate) fn from_definition(definition: Value) -> Self {
        Self { behavior: Behavior::Echo, definition, task: None }
    }

    /// Replaces the input schema.
    pub fn schema(self, schema: Value) -> Self {
        self.member("inputSchema", schema)
    }

    /// Sets any member of the definition.
    pub fn member(mut self, name: &str, value: Value) -> Self {
        self.definition[name] = value;
        self
    }

    /// Sets an annotation.
    pub fn annotation(mut self, name: &str, value: impl Into<Value>) -> Self {
        if !self.definition["annotations"].is_object() {
            self.definition["annotations"] = Value::Object(Map::new());
        }
        self.definition["annotations"][name] = value.into();
        self
    }

    /// Declares `readOnlyHint`.
    pub fn read_only(self) -> Self {
        self.annotation("readOnlyHint", true)
    }

    /// Declares `idempotentHint`.
    pub fn idempotent(self) -> Self {
        self.annotation("idempotentHint", true)
    }

    pub(crate) fn name(&self) -> &str {
        self.definition["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn is_closure(&self) -> bool {
        matches!(self.behavior, Behavior::Closure(_))
    }
}

impl From<&str> for Tool {
    fn from(name: &str) -> Self {
        Self::named(name)
    }
}

/// The JSON form of a tool: the name of a built-in one, or its parts.
#[derive(Deserialize)]
#[serde(untagged)]
enum ToolJson {
    Name(String),
    Parts {
        behavior: Behavior,
        definition: Value,
        #[serde(default)]
        task: Option<TaskPlan>,
    },
}

impl From<ToolJson> for Tool {
    fn from(json: ToolJson) -> Self {
        match json {
            ToolJson::Name(name) => Self::named(&name),
            ToolJson::Parts { behavior, definition, task } => Self { behavior, definition, task },
        }
    }
}

impl Behavior {
    fn description(&self) -> &'static str {
        match self {
            Self::Echo => "Gives its arguments back",
            Self::Add => "Adds a and b",
            Self::Slow => "Waits, with progress",
            Self::Fail => "Fails",
            Self::Big => "Returns a text of the size asked for",
            Self::Counter => "Counts its own executions",
            Self::Structured => "Returns structured content",
            Self::Ask | Self::Asks(_) => "Asks the client something",
            Self::Result(_) => "Returns what it was given",
            Self::Logs(_) => "Logs",
            Self::Pages(_) => "Needs a page to be visited",
            Self::Closure(_) => "Runs the test's code",
        }
    }

    fn schema(&self) -> Value {
        let (properties, required) = match self {
            Self::Add => (json!({"a": {"type": "number"}, "b": {"type": "number"}}), json!(["a", "b"])),
            Self::Slow => (json!({"ms": {"type": "integer"}, "steps": {"type": "integer"}}), json!(["ms"])),
            Self::Fail => (json!({"message": {"type": "string"}}), json!([])),
            Self::Big => (json!({"bytes": {"type": "integer"}}), json!(["bytes"])),
            Self::Ask => {
                (json!({"method": {"type": "string"}, "params": {"type": "object"}}), json!(["method"]))
            }
            _ => (json!({}), json!([])),
        };
        json!({"type": "object", "properties": properties, "required": required})
    }
}

/// Returns a result with one content block of each kind, and one of an unknown kind.
fn gallery() -> Value {
    // One gray pixel, and a sound of no length.
    let image =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==";
    let audio = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
    let link = json!({
        "type": "resource_link", "uri": "file:///linked.txt", "name": "linked.txt", "title": "Linked",
        "mimeType": "text/plain", "size": 6,
    });
    json!({"content": [
        {"type": "text", "text": "words", "annotations": {"audience": ["user"], "priority": 0.5}},
        {"type": "image", "data": image, "mimeType": "image/png"},
        {"type": "audio", "data": audio, "mimeType": "audio/wav"},
        link,
        {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "AAEC"}},
        {"type": "hologram", "depth": 3, "_meta": {"example.com/kept": true}},
    ]})
}

impl fmt::Debug for Behavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.description())
    }
}
