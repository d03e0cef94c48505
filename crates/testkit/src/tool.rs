//! [`Tool`]: a tool's definition, and what running it means.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A tool of a [`Script`](crate::Script).
///
/// ```
/// use bowline_testkit::Tool;
///
/// Tool::named("search").read_only();
/// Tool::like("charge_card", "counter");
/// Tool::like("lookup", "structured").annotation("idempotentHint", true);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "ToolJson")]
pub struct Tool {
    pub(crate) behaviour: Behaviour,
    pub(crate) definition: Value,
}

/// What a call of the tool does.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Behaviour {
    Echo,
    Add,
    Slow,
    Fail,
    Big,
    Counter,
    Structured,
    Ask,
    #[serde(skip)]
    Closure(Closure),
}

pub(crate) type Closure = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

impl Tool {
    /// The built-in tool of this name, or an echo of another name.
    pub fn named(name: &str) -> Self {
        Self::like(name, name)
    }

    /// A tool of any name that does what a built-in one does.
    pub fn like(name: &str, builtin: &str) -> Self {
        let behaviour = match builtin {
            "add" => Behaviour::Add,
            "slow" => Behaviour::Slow,
            "fail" => Behaviour::Fail,
            "big" => Behaviour::Big,
            "counter" => Behaviour::Counter,
            "structured" => Behaviour::Structured,
            "ask" => Behaviour::Ask,
            _ => Behaviour::Echo,
        };
        let mut tool = Self {
            definition: json!({
                "name": name,
                "description": behaviour.description(),
                "inputSchema": behaviour.schema(),
            }),
            behaviour,
        };
        if let Behaviour::Structured = tool.behaviour {
            tool.definition["outputSchema"] = json!({
                "type": "object",
                "properties": {"arguments": {"type": "object"}, "size": {"type": "integer"}},
                "required": ["arguments", "size"],
            });
        }
        tool
    }

    pub(crate) fn closure(name: &str, run: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        Self { behaviour: Behaviour::Closure(Arc::new(run)), ..Self::named(name) }
    }

    pub(crate) fn literal(definition: Value) -> Self {
        Self { behaviour: Behaviour::Echo, definition }
    }

    /// Replaces the input schema.
    #[must_use]
    pub fn schema(self, schema: Value) -> Self {
        self.member("inputSchema", schema)
    }

    /// Sets any member of the definition.
    #[must_use]
    pub fn member(mut self, name: &str, value: Value) -> Self {
        self.definition[name] = value;
        self
    }

    /// Sets an annotation.
    #[must_use]
    pub fn annotation(mut self, name: &str, value: impl Into<Value>) -> Self {
        if !self.definition["annotations"].is_object() {
            self.definition["annotations"] = Value::Object(Map::new());
        }
        self.definition["annotations"][name] = value.into();
        self
    }

    /// Declares `readOnlyHint`.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.annotation("readOnlyHint", true)
    }

    /// Declares `idempotentHint`.
    #[must_use]
    pub fn idempotent(self) -> Self {
        self.annotation("idempotentHint", true)
    }

    pub(crate) fn name(&self) -> &str {
        self.definition["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn is_closure(&self) -> bool {
        matches!(self.behaviour, Behaviour::Closure(_))
    }
}

impl From<&str> for Tool {
    fn from(name: &str) -> Self {
        Self::named(name)
    }
}

/// In JSON a tool is the name of a built-in one, or both parts.
#[derive(Deserialize)]
#[serde(untagged)]
enum ToolJson {
    Name(String),
    Parts { behaviour: Behaviour, definition: Value },
}

impl From<ToolJson> for Tool {
    fn from(json: ToolJson) -> Self {
        match json {
            ToolJson::Name(name) => Self::named(&name),
            ToolJson::Parts { behaviour, definition } => Self { behaviour, definition },
        }
    }
}

impl Behaviour {
    fn description(&self) -> &'static str {
        match self {
            Self::Echo => "Gives its arguments back",
            Self::Add => "Adds a and b",
            Self::Slow => "Waits, with progress",
            Self::Fail => "Fails",
            Self::Big => "Returns a text of the size asked for",
            Self::Counter => "Counts its own executions",
            Self::Structured => "Returns structured content",
            Self::Ask => "Asks the client something",
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
            Self::Echo | Self::Counter | Self::Structured | Self::Closure(_) => (json!({}), json!([])),
        };
        json!({"type": "object", "properties": properties, "required": required})
    }
}

impl fmt::Debug for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.description())
    }
}
