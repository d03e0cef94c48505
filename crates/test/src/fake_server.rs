//! [`FakeServer`]: what the server offers, before it is served.

use std::fmt;

use serde_json::{Value, json};

use crate::running_call::RunningCall;
use crate::tool::{IntoToolReply, ToolContext, ToolFuture};

/// A fake MCP server. Give it tools, prompts and resources, then serve it.
#[must_use = "a server does nothing until it is served"]
pub struct FakeServer {
    pub(crate) era: FakeEra,
    pub(crate) name: String,
    pub(crate) instructions: Option<String>,
    pub(crate) tools: Vec<FakeTool>,
    pub(crate) prompts: Vec<FakePrompt>,
    pub(crate) resources: Vec<FakeResource>,
}

/// Which era of the protocol the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FakeEra {
    /// Revision 2025-11-25: a handshake, and over HTTP a session.
    Legacy,
    /// Revision 2026-07-28: no handshake, no session.
    Modern,
}

pub(crate) struct FakeTool {
    pub(crate) definition: Value,
    run: Box<ToolFunction>,
}

type ToolFunction = dyn Fn(ToolContext, Value) -> ToolFuture + Send + Sync;

pub(crate) struct FakePrompt {
    pub(crate) name: String,
    pub(crate) expand: Box<dyn Fn(Value) -> String + Send + Sync>,
}

pub(crate) struct FakeResource {
    pub(crate) uri: String,
    pub(crate) text: String,
}

impl FakeEra {
    pub(crate) fn revision(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

impl FakeServer {
    /// Creates a server of revision 2025-11-25, with a handshake and, over HTTP, sessions.
    pub fn new() -> Self {
        Self {
            era: FakeEra::Legacy,
            name: "fake".to_owned(),
            instructions: None,
            tools: Vec::new(),
            prompts: Vec::new(),
            resources: Vec::new(),
        }
    }

    /// Creates a server of revision 2026-07-28, which has neither handshake nor sessions.
    pub fn modern() -> Self {
        Self { era: FakeEra::Modern, ..Self::new() }
    }

    /// Sets the name that the server declares, and under which a client knows it (default `fake`).
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the instructions for the model.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Adds a tool. `run` is given the arguments, `{}` if there are none, and returns text, JSON, a
    /// [`ToolReply`](crate::ToolReply) or a `Result` of these. A call whose tool panics is answered
    /// with the code -32603.
    pub fn tool<R: IntoToolReply>(
        self,
        name: &str,
        run: impl Fn(Value) -> R + Send + Sync + 'static,
    ) -> Self {
        let run = move |_, arguments| {
            let result = run(arguments).into_tool_reply();
            Box::pin(std::future::ready(result)) as ToolFuture
        };
        self.add_tool(name, Box::new(run))
    }

    /// Adds a tool whose arguments are a Rust type. Its `inputSchema` is that of the type; a call
    /// with arguments that do not fit is refused with the code -32602.
    ///
    /// ```
    /// # use bowline_test::FakeServer;
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Knot {
    ///     name: String,
    ///     turns: u32,
    /// }
    ///
    /// let server = FakeServer::new()
    ///     .typed_tool("tie", |knot: Knot| format!("{} with {} turns", knot.name, knot.turns));
    /// ```
    #[cfg(feature = "schemars")]
    pub fn typed_tool<A, R>(self, name: &str, run: impl Fn(A) -> R + Send + Sync + 'static) -> Self
    where
        A: schemars::JsonSchema + serde::de::DeserializeOwned,
        R: IntoToolReply,
    {
        use crate::request_outcome::INVALID_PARAMS;
        use crate::tool::ToolError;

        let schema: Value = bowline::schema::of::<A>().decode().expect("a schema is JSON");
        let run = move |arguments| {
            let arguments = serde_json::from_value(arguments)
                .map_err(|error| ToolError::protocol(INVALID_PARAMS, error.to_string()))?;
            Ok::<_, ToolError>(run(arguments).into_tool_reply())
        };
        self.tool(name, run).define(name, json!({ "inputSchema": schema }))
    }

    /// Adds an asynchronous tool. The [`ToolContext`] reports progress and sends requests to the
    /// client. A call whose tool panics is answered with the code -32603.
    ///
    /// The future is dropped when the call is canceled or its connection ends, and when the server is
    /// restarted or dropped. A modern call that waits for the client's answer has no open request
    /// meanwhile: the answer comes with a retry of the call, and a client that gives the call up says
    /// nothing. Then the future is dropped when the byte streams end, when the server is restarted or
    /// dropped, and otherwise after two hours without a retry.
    pub fn async_tool<F>(
        self,
        name: &str,
        run: impl Fn(ToolContext, Value) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output: IntoToolReply> + Send + 'static,
    {
        let run = move |context, arguments| {
            let running = run(context, arguments);
            Box::pin(async move { running.await.into_tool_reply() }) as ToolFuture
        };
        self.add_tool(name, Box::new(run))
    }

    /// Sets further members of a tool's definition, such as `description`, `inputSchema` or
    /// `annotations`.
    ///
    /// # Panics
    /// If there is no tool of that name, or `members` is no object.
    pub fn define(mut self, name: &str, members: Value) -> Self {
        let tool = self.tools.iter_mut().find(|tool| tool.definition["name"] == name);
        let tool = tool.unwrap_or_else(|| panic!("there is no tool {name}"));
        for (member, value) in members.as_object().expect("the members of a definition are an object") {
            tool.definition[member] = value.clone();
        }
        self
    }

    /// Adds a prompt of one message. `expand` is given the arguments, `{}` if there are none. If it
    /// panics, the request is answered with the code -32603.
    pub fn prompt<T: Into<String>>(
        mut self,
        name: &str,
        expand: impl Fn(Value) -> T + Send + Sync + 'static,
    ) -> Self {
        let expand = Box::new(move |arguments| expand(arguments).into());
        self.prompts.push(FakePrompt { name: name.to_owned(), expand });
        self
    }

    /// Adds a resource of plain text.
    pub fn resource(mut self, uri: &str, text: impl Into<String>) -> Self {
        self.resources.push(FakeResource { uri: uri.to_owned(), text: text.into() });
        self
    }

    fn add_tool(mut self, name: &str, run: Box<ToolFunction>) -> Self {
        let definition = json!({ "name": name, "inputSchema": { "type": "object" } });
        self.tools.push(FakeTool { definition, run });
        self
    }
}

impl Default for FakeServer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FakeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeServer").field("name", &self.name).field("era", &self.era).finish_non_exhaustive()
    }
}

impl FakeTool {
    pub(crate) fn call(&self, arguments: Value, progress_token: Option<Value>) -> RunningCall {
        let name = self.definition["name"].as_str().unwrap_or_default();
        RunningCall::start(name, |context| (self.run)(context, arguments), progress_token)
    }
}
