//! The [`Script`] methods that add tools, resources and prompts and set how they are listed and
//! cached.

use std::time::Duration;

use serde_json::{Value, json};

use super::{FillerTools, InputRule, Script, millis};
use crate::completion::Completion;
use crate::resource::{Prompt, Resource, ResourceTemplate};
use crate::scripted_request::{InputScript, ScriptedRequest};
use crate::tool::{Behavior, Tool};

impl Script {
    /// Adds a tool: the name of a built-in one, or a [`Tool`].
    ///
    /// | name | behavior |
    /// |---|---|
    /// | `echo` | returns its arguments as JSON text |
    /// | `add` | `a + b` |
    /// | `slow` | waits `ms`, reporting progress in `steps` (default 4) if a token was given |
    /// | `fail` | `isError` with the text of `message` |
    /// | `big` | a text of `bytes` bytes |
    /// | `counter` | counts its executions and returns the number: not idempotent |
    /// | `structured` | `structuredContent` with an `outputSchema` |
    /// | `gallery` | a content block of each kind, and one of an unknown kind |
    /// | `ask` | sends the client the request `method` with `params`, and returns the response |
    ///
    /// Any other name makes a tool that behaves like `echo`.
    pub fn tool(mut self, tool: impl Into<Tool>) -> Self {
        self.tools.push(tool.into());
        self
    }

    /// Adds a tool that calls a closure with its arguments: an object with `content` becomes the
    /// whole result, anything else becomes text. The closure runs in the test's process, also
    /// behind [`stdio`](Script::stdio).
    pub fn tool_fn(
        self,
        name: &str,
        schema: Value,
        run: impl Fn(&Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.tool(Tool::with_closure(name, run).schema(schema))
    }

    /// Lists this definition as a tool, well-formed or not. Calling it echoes.
    pub fn tool_json(self, definition: Value) -> Self {
        self.tool(Tool::from_definition(definition))
    }

    /// Removes a tool, for [`edit`](crate::Control::edit).
    pub fn without_tool(mut self, name: &str) -> Self {
        self.tools.retain(|tool| tool.name() != name);
        self
    }

    /// Adds `count` filler tools whose definitions are about `bytes_each` bytes.
    pub fn filler_tools(mut self, count: usize, bytes_each: usize) -> Self {
        self.many = Some(FillerTools { count, bytes_each });
        self
    }

    /// Adds a text resource.
    pub fn resource(self, uri: &str, text: &str) -> Self {
        self.resource_with(Resource::text(uri, text))
    }

    /// Adds any resource.
    pub fn resource_with(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }

    /// Adds a resource template. Reading a URI that starts with its literal prefix returns the URI
    /// as text.
    pub fn template(mut self, uri_template: &str) -> Self {
        self.templates.push(ResourceTemplate::new(uri_template));
        self
    }

    /// Adds a prompt. `{key}` in its text is replaced by the argument of that name.
    pub fn prompt(self, name: &str, text: &str) -> Self {
        let messages = json!([{"role": "user", "content": {"type": "text", "text": text}}]);
        self.prompt_json(json!({"name": name}), messages)
    }

    /// Adds a prompt with this definition and these messages, well-formed or not. A missing
    /// argument that is `required` is an error.
    pub fn prompt_json(mut self, definition: Value, messages: Value) -> Self {
        self.prompts.push(Prompt { definition, messages });
        self
    }

    /// Scripts the completions of an argument. Without any, the server completes every value with
    /// `-done`.
    pub fn completes(mut self, completion: Completion) -> Self {
        self.completions.push(completion);
        self
    }

    /// Sends the client these requests before the server returns the prompt or resource `target`:
    /// `method` is `prompts/get` or `resources/read`. See [`Tool::asks`] for tools.
    pub fn asks(
        mut self,
        method: &str,
        target: &str,
        questions: impl IntoIterator<Item = impl Into<ScriptedRequest>>,
    ) -> Self {
        assert!(matches!(method, "prompts/get" | "resources/read"), "{method} asks nothing");
        let asks = InputScript::single_round(questions);
        self.asking.push(InputRule { method: method.into(), target: target.into(), asks });
        self
    }

    /// Sets the `ttlMs` of modern lists. The default is one minute.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl_ms = millis(ttl);
        self
    }

    /// Sets members of the modern results of this method, or removes them with null:
    /// `.cache("tools/list", json!({"ttlMs": 0, "cacheScope": "private"}))`.
    pub fn cache(mut self, method: &str, hints: Value) -> Self {
        let Value::Object(hints) = hints else { panic!("hints are an object") };
        self.cache.push((method.into(), hints));
        self
    }

    /// Grants a modern subscription no more than these members of the filter, such as
    /// `toolsListChanged`. By default it gets what it requests and the server offers.
    pub fn listen_grants(mut self, kinds: &[&str]) -> Self {
        self.listen_grants = Some(kinds.iter().map(ToString::to_string).collect());
        self
    }

    /// Ends tasks of 2025-11-25 without `notifications/tasks/status`.
    pub fn quiet_tasks(mut self) -> Self {
        self.quiet_tasks = true;
        self
    }

    /// Returns the members that [`cache`](Script::cache) sets in the results of this method.
    pub(crate) fn cache_hints(&self, method: &str) -> impl Iterator<Item = (&String, &Value)> {
        let of_method = self.cache.iter().filter(move |(hinted, _)| hinted == method);
        of_method.flat_map(|(_, hints)| hints)
    }

    /// Returns whether any tool sends log messages.
    pub(crate) fn has_logging_tool(&self) -> bool {
        self.tools.iter().any(|tool| matches!(tool.behavior, Behavior::Logs(_)))
    }
}
