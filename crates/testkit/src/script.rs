//! [`Script`]: what the server offers and how it behaves when nothing is armed.
//!
//! Everything except tool closures is plain data, so a script can be handed to the stdio binary as
//! JSON; the member names are those of the fields below.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::fault::Fault;
use crate::http::SseScript;
use crate::rpc::INVALID_REQUEST;
use crate::tool::Tool;

/// Revisions with a handshake, newest first.
pub const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The revision without one.
pub const MODERN_VERSION: &str = "2026-07-28";

/// The builder of a server: start with [`server`](crate::server), end with
/// [`run`](Script::run) (HTTP) or [`stdio`](Script::stdio).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    pub(crate) eras: Eras,
    pub(crate) legacy_versions: Vec<String>,
    pub(crate) modern_versions: Vec<String>,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) instructions: Option<String>,
    pub(crate) capabilities_off: Vec<String>,
    pub(crate) uninitialized: (i64, String),
    pub(crate) tools: Vec<Tool>,
    pub(crate) many: Option<Many>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) templates: Vec<Value>,
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) paging: Paging,
    pub(crate) reply: ReplyAs,
    pub(crate) http: HttpScript,
    pub(crate) ttl_ms: u64,
    pub(crate) faults: Vec<Fault>,
}

/// Which eras the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Eras {
    Legacy,
    Modern,
    Dual,
}

/// How the answer to a POST travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReplyAs {
    /// JSON, unless other messages go before the answer.
    Auto,
    Json,
    Sse,
}

/// Streamable HTTP settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of a wire format, set by name")]
pub(crate) struct HttpScript {
    pub(crate) sessions: bool,
    pub(crate) session_idle_ms: Option<u64>,
    pub(crate) session_gone: Answer,
    pub(crate) get_stream: bool,
    pub(crate) delete: bool,
    pub(crate) event_ids: bool,
    pub(crate) priming: bool,
    pub(crate) retry_ms: Option<u64>,
    pub(crate) check_headers: bool,
    pub(crate) reply_headers: Vec<(String, String)>,
    pub(crate) sse_legacy: bool,
    pub(crate) sse: SseScript,
}

/// How lists are cut into pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Paging {
    pub(crate) size: usize,
    pub(crate) cursors: Cursors,
}

/// What kind of cursor the server hands out between pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cursors {
    /// An opaque text per page; none after the last.
    Plain,
    /// The cursor of the second page is the empty string, which is not the end.
    EmptyString,
    /// After the last page the cursor of the second page comes again.
    Looping,
    /// Always a new cursor, and the items start over.
    Endless,
}

/// Filler tools: `tool_0000` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Many {
    pub(crate) count: usize,
    pub(crate) bytes_each: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Resource {
    pub(crate) uri: String,
    pub(crate) name: String,
    pub(crate) text: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Prompt {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Script {
    /// Speaks only the handshake revisions.
    #[must_use]
    pub fn legacy(mut self) -> Self {
        self.eras = Eras::Legacy;
        self
    }

    /// Speaks only this handshake revision, and counter-offers it to whatever is asked for. Any
    /// text will do, so a server from the future or from nowhere can be played.
    #[must_use]
    pub fn legacy_only(mut self, version: &str) -> Self {
        self.legacy_versions = vec![version.into()];
        self.legacy()
    }

    /// Speaks only 2026-07-28.
    #[must_use]
    pub fn modern(mut self) -> Self {
        self.eras = Eras::Modern;
        self
    }

    /// Speaks only these revisions without a handshake; others get `-32022`.
    #[must_use]
    pub fn modern_only(mut self, versions: &[&str]) -> Self {
        self.modern_versions = versions.iter().map(ToString::to_string).collect();
        self.modern()
    }

    /// Speaks both eras, which is the default.
    #[must_use]
    pub fn dual(mut self) -> Self {
        self.eras = Eras::Dual;
        self
    }

    /// Name and version the server gives for itself.
    #[must_use]
    pub fn info(mut self, name: &str, version: &str) -> Self {
        (self.name, self.version) = (name.into(), version.into());
        self
    }

    /// Text for the model.
    #[must_use]
    pub fn instructions(mut self, text: &str) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// The JSON-RPC error for a legacy request before `initialize`. The default is -32600 `Server not
    /// initialized`; servers on the Python SDK say -32602 `Invalid request parameters`.
    #[must_use]
    pub fn uninitialized(mut self, code: i64, message: &str) -> Self {
        self.uninitialized = (code, message.into());
        self
    }

    /// Takes a capability (`tools`, `resources`, `prompts`, `logging`, `completions`) away: it is
    /// not announced and its methods are unknown. A server is without `tools`, `resources` or
    /// `prompts` anyway while it has none.
    #[must_use]
    pub fn without(mut self, capability: &str) -> Self {
        self.capabilities_off.push(capability.into());
        self
    }

    /// Adds a tool: the name of a built-in one, or a [`Tool`].
    ///
    /// | name | does |
    /// |---|---|
    /// | `echo` | gives its arguments back as JSON text |
    /// | `add` | `a + b` |
    /// | `slow` | waits `ms`, reporting progress in `steps` (default 4) if a token was given |
    /// | `fail` | `isError` with the text of `message` |
    /// | `big` | a text of `bytes` bytes |
    /// | `counter` | counts its executions and says the number: not idempotent |
    /// | `structured` | `structuredContent` with an `outputSchema` |
    /// | `ask` | sends the client the request `method` with `params`, and gives the answer back |
    ///
    /// Any other name is a tool that does what `echo` does.
    #[must_use]
    pub fn tool(mut self, tool: impl Into<Tool>) -> Self {
        self.tools.push(tool.into());
        self
    }

    /// Adds a tool that runs a closure on its arguments and answers with what that returns: an
    /// object with `content` is taken as the whole result, anything else becomes text. The closure
    /// runs in the test's process, also behind [`stdio`](Script::stdio).
    #[must_use]
    pub fn tool_fn(
        self,
        name: &str,
        schema: Value,
        run: impl Fn(&Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.tool(Tool::closure(name, run).schema(schema))
    }

    /// Lists this as a tool, well-formed or not. Calling it echoes.
    #[must_use]
    pub fn tool_json(self, definition: Value) -> Self {
        self.tool(Tool::literal(definition))
    }

    /// Takes a tool away, for [`edit`](crate::Control::edit).
    #[must_use]
    pub fn without_tool(mut self, name: &str) -> Self {
        self.tools.retain(|tool| tool.name() != name);
        self
    }

    /// Adds `count` filler tools whose definitions are about `bytes_each` bytes.
    #[must_use]
    pub fn tools_many(mut self, count: usize, bytes_each: usize) -> Self {
        self.many = Some(Many { count, bytes_each });
        self
    }

    /// Adds a text resource.
    #[must_use]
    pub fn resource(mut self, uri: &str, text: &str) -> Self {
        let name = uri.rsplit('/').next().unwrap_or(uri).to_owned();
        self.resources.push(Resource { uri: uri.into(), name, text: text.into() });
        self
    }

    /// Adds a resource template. Reading a URI that begins like it gives the URI back as text.
    #[must_use]
    pub fn template(mut self, uri_template: &str) -> Self {
        self.templates.push(json!({"uriTemplate": uri_template, "name": uri_template}));
        self
    }

    /// Adds a prompt. `{key}` in its text is replaced by the argument of that name.
    #[must_use]
    pub fn prompt(mut self, name: &str, text: &str) -> Self {
        self.prompts.push(Prompt { name: name.into(), text: text.into() });
        self
    }

    /// Cuts lists into pages of this many items. The default is one page.
    #[must_use]
    pub fn page_size(mut self, items: usize) -> Self {
        assert!(items > 0, "a page holds at least one item");
        self.paging.size = items;
        self
    }

    /// Which cursors are handed out; set [`page_size`](Script::page_size) as well.
    #[must_use]
    pub fn cursors(mut self, cursors: Cursors) -> Self {
        self.paging.cursors = cursors;
        self
    }

    /// Freshness of modern lists.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl_ms = millis(ttl);
        self
    }

    /// Answers every request with JSON. Progress goes to the GET stream, if there is one.
    #[must_use]
    pub fn reply_json(mut self) -> Self {
        self.reply = ReplyAs::Json;
        self
    }

    /// Answers every request with an event stream. The default is JSON unless other messages, such
    /// as progress, go before the answer.
    #[must_use]
    pub fn reply_sse(mut self) -> Self {
        self.reply = ReplyAs::Sse;
        self
    }

    /// No `Mcp-Session-Id`.
    #[must_use]
    pub fn sessionless(mut self) -> Self {
        self.http.sessions = false;
        self
    }

    /// Sessions are forgotten when nothing came for this long.
    #[must_use]
    pub fn session_idle(mut self, idle: Duration) -> Self {
        self.http.session_idle_ms = Some(millis(idle));
        self
    }

    /// What an unknown session id is answered with. The default is 404 with a JSON-RPC error.
    #[must_use]
    pub fn session_gone(mut self, answer: Answer) -> Self {
        self.http.session_gone = answer;
        self
    }

    /// GET is answered with 405.
    #[must_use]
    pub fn no_get_stream(mut self) -> Self {
        self.http.get_stream = false;
        self
    }

    /// DELETE is answered with 405.
    #[must_use]
    pub fn no_delete(mut self) -> Self {
        self.http.delete = false;
        self
    }

    /// Events carry ids, and streams can be resumed with `Last-Event-ID`.
    #[must_use]
    pub fn event_ids(mut self) -> Self {
        self.http.event_ids = true;
        self
    }

    /// Streams begin with an event that has an id and no data. Implies
    /// [`event_ids`](Script::event_ids).
    #[must_use]
    pub fn priming(mut self) -> Self {
        self.http.priming = true;
        self.event_ids()
    }

    /// Streams begin with `retry:`.
    #[must_use]
    pub fn retry(mut self, retry: Duration) -> Self {
        self.http.retry_ms = Some(millis(retry));
        self
    }

    /// Modern requests are accepted whatever their headers say.
    #[must_use]
    pub fn unchecked_headers(mut self) -> Self {
        self.http.check_headers = false;
        self
    }

    /// Adds a header to every answer that no fault replaces, such as a load balancer's cookie.
    #[must_use]
    pub fn reply_header(mut self, name: &str, value: &str) -> Self {
        self.http.reply_headers.push((name.into(), value.into()));
        self
    }

    /// Arms a fault from the start.
    #[must_use]
    pub fn fault(mut self, fault: impl Into<Fault>) -> Self {
        self.faults.push(fault.into());
        self
    }

    /// The script as JSON, for the stdio binary to run on its own.
    ///
    /// Panics if a tool is a closure, which cannot leave the process.
    pub fn to_json(&self) -> String {
        for tool in &self.tools {
            assert!(!tool.is_closure(), "tool {} is a closure and has no JSON form", tool.name());
        }
        serde_json::to_string(self).expect("a script is plain data")
    }

    /// Reads a script from its JSON form.
    pub fn from_json(json: &str) -> serde_json::Result<Self> {
        serde_json::from_str(json)
    }

    pub(crate) fn offers(&self, capability: &str) -> bool {
        let there = match capability {
            "tools" => !self.tools.is_empty() || self.many.is_some(),
            "resources" => !self.resources.is_empty() || !self.templates.is_empty(),
            "prompts" => !self.prompts.is_empty(),
            _ => true,
        };
        there && !self.capabilities_off.iter().any(|off| off == capability)
    }
}

impl Default for Script {
    fn default() -> Self {
        Self {
            eras: Eras::Dual,
            legacy_versions: LEGACY_VERSIONS.map(String::from).to_vec(),
            modern_versions: vec![MODERN_VERSION.into()],
            name: "testkit".into(),
            version: "1.0.0".into(),
            instructions: None,
            capabilities_off: Vec::new(),
            uninitialized: (INVALID_REQUEST, "Server not initialized".into()),
            tools: Vec::new(),
            many: None,
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            paging: Paging::default(),
            reply: ReplyAs::Auto,
            http: HttpScript::default(),
            ttl_ms: 60_000,
            faults: Vec::new(),
        }
    }
}

impl Default for HttpScript {
    fn default() -> Self {
        Self {
            sessions: true,
            session_idle_ms: None,
            session_gone: Answer::new(404).json(&json!({
                "jsonrpc": "2.0",
                "error": {"code": -32001, "message": "Session not found"},
                "id": null,
            })),
            get_stream: true,
            delete: true,
            event_ids: false,
            priming: false,
            retry_ms: None,
            check_headers: true,
            reply_headers: Vec::new(),
            sse_legacy: false,
            sse: SseScript::default(),
        }
    }
}

impl Default for Paging {
    fn default() -> Self {
        Self { size: usize::MAX, cursors: Cursors::Plain }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
