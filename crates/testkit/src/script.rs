//! [`Script`]: what the MCP server offers and how it behaves while no fault is armed.
//!
//! Everything except tool closures is plain data, so a script can be handed to the stdio binary as
//! JSON; the member names are those of the fields below. The methods that add tools, resources and
//! prompts are in [`features`].

mod features;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::auth_server::Protection;
use crate::canned_response::CannedResponse;
use crate::completion::Completion;
use crate::fault::Fault;
use crate::http::SseScript;
use crate::resource::{Prompt, Resource, ResourceTemplate};
use crate::rpc::INVALID_REQUEST;
use crate::scripted_request::InputScript;
use crate::tool::Tool;

/// Protocol revisions with an `initialize` handshake, newest first.
pub const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The protocol revision without a handshake.
pub const MODERN_VERSION: &str = "2026-07-28";

/// The builder of a server: start with [`server`](crate::server), end with
/// [`run`](Script::run) (HTTP) or [`stdio`](Script::stdio).
#[must_use]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    pub(crate) eras: Eras,
    pub(crate) legacy_versions: Vec<String>,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) instructions: Option<String>,
    pub(crate) capabilities_off: Vec<String>,
    pub(crate) uninitialized: (i64, String),
    pub(crate) tools: Vec<Tool>,
    pub(crate) many: Option<FillerTools>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) templates: Vec<ResourceTemplate>,
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) asking: Vec<InputRule>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) paging: Paging,
    pub(crate) reply: ReplyFormat,
    pub(crate) http: HttpScript,
    pub(crate) ttl_ms: u64,
    pub(crate) cache: Vec<(String, Map<String, Value>)>,
    pub(crate) quiet_tasks: bool,
    pub(crate) listen_grants: Option<Vec<String>>,
    pub(crate) faults: Vec<Fault>,
}

/// The eras the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Eras {
    Legacy,
    Modern,
    Dual,
}

/// The format of the response to a POST.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReplyFormat {
    /// JSON, or an event stream if other messages go before the response.
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
    pub(crate) session_gone: CannedResponse,
    pub(crate) get_stream: bool,
    pub(crate) delete: bool,
    pub(crate) event_ids: bool,
    pub(crate) priming: bool,
    pub(crate) retry_ms: Option<u64>,
    pub(crate) sse_legacy: bool,
    pub(crate) sse: SseScript,
    /// The protection of the MCP endpoint. It is not part of the JSON form, because it refers to an
    /// authorization server of this process.
    #[serde(skip)]
    pub(crate) protected: Option<Protection>,
}

/// How list results are cut into pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Paging {
    pub(crate) size: usize,
    pub(crate) cursors: Cursors,
}

/// The kind of cursor the server hands out between pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cursors {
    /// An opaque text per page, and no cursor after the last one.
    Plain,
    /// The cursor of the second page is the empty string, which does not mean the end.
    EmptyString,
    /// The last page carries the cursor of the second page, so that the list loops.
    Looping,
    /// Every page carries a new cursor, and the items start over.
    Endless,
}

/// Filler tools named `tool_0000` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FillerTools {
    pub(crate) count: usize,
    pub(crate) bytes_each: usize,
}

/// The input the server requests before it returns one prompt or resource.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InputRule {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) asks: InputScript,
}

impl Script {
    /// Speaks only the handshake revisions.
    pub fn legacy(mut self) -> Self {
        self.eras = Eras::Legacy;
        self
    }

    /// Speaks only this handshake revision, and counter-offers it whatever the client requests. The
    /// text need not be a known revision, so a test can play a server from the future.
    pub fn legacy_only(mut self, version: &str) -> Self {
        self.legacy_versions = vec![version.into()];
        self.legacy()
    }

    /// Speaks only 2026-07-28.
    pub fn modern(mut self) -> Self {
        self.eras = Eras::Modern;
        self
    }

    /// Speaks both eras, which is the default.
    pub fn dual(mut self) -> Self {
        self.eras = Eras::Dual;
        self
    }

    /// Sets the name and version the server gives for itself.
    pub fn info(mut self, name: &str, version: &str) -> Self {
        (self.name, self.version) = (name.into(), version.into());
        self
    }

    /// Sets the instructions for the model.
    pub fn instructions(mut self, text: &str) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// Sets the JSON-RPC error for a legacy request before `initialize`. The default is -32600
    /// `Server not initialized`; servers on the Python SDK answer -32602
    /// `Invalid request parameters`.
    pub fn uninitialized(mut self, code: i64, message: &str) -> Self {
        self.uninitialized = (code, message.into());
        self
    }

    /// Takes a capability away: it is not announced and its methods are unknown. It is one of
    /// `tools`, `resources`, `prompts`, `logging`, `completions`, `tasks`, or a part such as
    /// `tasks.list`, `tasks.cancel`, `resources.subscribe`, `tools.listChanged`. A capability
    /// without any item, such as `tools` without a tool, is never announced.
    pub fn without_capability(mut self, capability: &str) -> Self {
        self.capabilities_off.push(capability.into());
        self
    }

    /// Cuts lists into pages of this many items, at least one. The default is a single page.
    pub fn page_size(mut self, items: usize) -> Self {
        assert!(items > 0, "a page holds at least one item");
        self.paging.size = items;
        self
    }

    /// Sets the kind of cursors handed out; set [`page_size`](Script::page_size) as well.
    pub fn cursors(mut self, cursors: Cursors) -> Self {
        self.paging.cursors = cursors;
        self
    }

    /// Responds to every request with JSON. Progress goes to the GET stream, if there is one.
    pub fn reply_json(mut self) -> Self {
        self.reply = ReplyFormat::Json;
        self
    }

    /// Responds to every request with an event stream. The default is JSON unless other messages,
    /// such as progress, go before the response.
    pub fn reply_sse(mut self) -> Self {
        self.reply = ReplyFormat::Sse;
        self
    }

    /// Hands out no `Mcp-Session-Id`. Such a server needs no `initialize` after a restart.
    pub fn sessionless(mut self) -> Self {
        self.http.sessions = false;
        self
    }

    /// Forgets sessions that received nothing for this long. By default they live until the server
    /// stops.
    pub fn session_idle_timeout(mut self, idle: Duration) -> Self {
        self.http.session_idle_ms = Some(millis(idle));
        self
    }

    /// Sets the response to an unknown session id. The default is 404 with a JSON-RPC error.
    pub fn unknown_session_response(mut self, answer: CannedResponse) -> Self {
        self.http.session_gone = answer;
        self
    }

    /// Answers GET with 405.
    pub fn no_get_stream(mut self) -> Self {
        self.http.get_stream = false;
        self
    }

    /// Answers DELETE with 405.
    pub fn no_delete(mut self) -> Self {
        self.http.delete = false;
        self
    }

    /// Gives events ids, so that streams can be resumed with `Last-Event-ID`.
    pub fn event_ids(mut self) -> Self {
        self.http.event_ids = true;
        self
    }

    /// Begins each stream with an event that has an id and no data. Implies
    /// [`event_ids`](Script::event_ids).
    pub fn priming(mut self) -> Self {
        self.http.priming = true;
        self.event_ids()
    }

    /// Begins each stream with a `retry:` field of this duration.
    pub fn sse_retry(mut self, retry: Duration) -> Self {
        self.http.retry_ms = Some(millis(retry));
        self
    }

    /// HTTP: refuses requests without a valid token of an authorization server. Called again in
    /// [`edit`](crate::Control::edit), it moves the server to another authorization server.
    pub fn protected(mut self, how: Protection) -> Self {
        self.http.protected = Some(how);
        self
    }

    /// Arms a fault from the start.
    pub fn fault(mut self, fault: impl Into<Fault>) -> Self {
        self.faults.push(fault.into());
        self
    }

    /// Returns the script as JSON, for the stdio binary to run on its own.
    ///
    /// Panics if a tool is a closure, because code has no JSON form.
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

    pub(crate) fn server_info(&self) -> Value {
        json!({"name": self.name, "version": self.version})
    }

    pub(crate) fn offers(&self, capability: &str) -> bool {
        let is_scripted = match capability {
            "tools" => !self.tools.is_empty() || self.many.is_some(),
            "resources" => !self.resources.is_empty() || !self.templates.is_empty(),
            "prompts" => !self.prompts.is_empty(),
            "tasks" => self.tools.iter().any(|tool| tool.task.is_some()),
            _ => true,
        };
        is_scripted && !self.capabilities_off.iter().any(|off| off == capability)
    }
}

impl Default for Script {
    fn default() -> Self {
        Self {
            eras: Eras::Dual,
            legacy_versions: LEGACY_VERSIONS.map(String::from).to_vec(),
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
            asking: Vec::new(),
            completions: Vec::new(),
            paging: Paging::default(),
            reply: ReplyFormat::Auto,
            http: HttpScript::default(),
            ttl_ms: 60_000,
            cache: Vec::new(),
            quiet_tasks: false,
            listen_grants: None,
            faults: Vec::new(),
        }
    }
}

impl Default for HttpScript {
    fn default() -> Self {
        Self {
            sessions: true,
            session_idle_ms: None,
            session_gone: CannedResponse::new(404).json(&json!({
                "jsonrpc": "2.0",
                "error": {"code": -32001, "message": "Session not found"},
                "id": null,
            })),
            get_stream: true,
            delete: true,
            event_ids: false,
            priming: false,
            retry_ms: None,
            sse_legacy: false,
            sse: SseScript::default(),
            protected: None,
        }
    }
}

impl Default for Paging {
    fn default() -> Self {
        Self { size: usize::MAX, cursors: Cursors::Plain }
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
