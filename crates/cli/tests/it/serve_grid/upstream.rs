//! Servers of each kind, all with the same features.

use bowline_testkit::{
    self as testkit, Completion, Control, HttpServer, Script, ScriptedRequest, StdioServer, TaskPlan, Tool,
};
use serde_json::json;

use crate::connect::host::TEST_TIMEOUT;
use crate::status::{http_entry, stdio_entry};

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    StdioLegacy,
    StdioModern,
    Sse,
    HttpLegacy,
    HttpWithoutSessions,
    HttpModern,
}

impl Kind {
    pub(super) const ALL: [Self; 6] = [
        Self::StdioLegacy,
        Self::StdioModern,
        Self::Sse,
        Self::HttpLegacy,
        Self::HttpWithoutSessions,
        Self::HttpModern,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::StdioLegacy => "pipe",
            Self::StdioModern => "newpipe",
            Self::Sse => "sse",
            Self::HttpLegacy => "web",
            Self::HttpWithoutSessions => "plain",
            Self::HttpModern => "newweb",
        }
    }
}

/// A server behind `bowline serve`.
pub(super) struct Upstream {
    pub(super) kind: Kind,
    running: Running,
    /// What stands before the names of its tools and prompts.
    prefix: String,
}

enum Running {
    Http(HttpServer),
    Stdio(StdioServer),
}

impl Upstream {
    /// Starts a server. Beside others its names get a prefix.
    pub(super) async fn start(kind: Kind, is_alone: bool) -> Self {
        let script = script(kind.name());
        let running = match kind {
            Kind::StdioLegacy => Running::Stdio(script.legacy().stdio().await),
            Kind::StdioModern => Running::Stdio(script.modern().stdio().await),
            Kind::Sse => Running::Http(script.http_sse().run().await),
            Kind::HttpLegacy => Running::Http(script.legacy().run().await),
            Kind::HttpWithoutSessions => Running::Http(script.legacy().sessionless().run().await),
            Kind::HttpModern => Running::Http(script.modern().run().await),
        };
        let prefix = if is_alone { String::new() } else { format!("{}__", kind.name()) };
        Self { kind, running, prefix }
    }

    /// Its entry in the configuration.
    pub(super) fn entry(&self) -> String {
        match &self.running {
            Running::Http(server) => http_entry(self.kind.name(), server),
            Running::Stdio(server) => stdio_entry(self.kind.name(), &server.command()),
        }
    }

    /// The name of its tool or prompt for hosts.
    pub(super) fn exposed(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The URI of its resource of this name.
    pub(super) fn uri(&self, name: &str) -> String {
        format!("grid://{}/{name}", self.kind.name())
    }

    pub(super) fn control(&self) -> &Control {
        match &self.running {
            Running::Http(server) => server,
            Running::Stdio(server) => server,
        }
    }

    /// Forgets all sessions, where there are any.
    pub(super) fn forget_sessions(&self) {
        if let Running::Http(server) = &self.running {
            server.drop_sessions();
        }
    }

    /// Ends, and is there again: a process is started by whoever needs it.
    pub(super) async fn restart(&self) {
        match &self.running {
            Running::Http(server) => server.restart().await,
            Running::Stdio(server) => {
                // It is started again at once, so only this one is waited for.
                let ending = server.processes().len();
                server.exit(1);
                let is_gone =
                    |_: &Control| server.processes().iter().take(ending).all(|process| !process.is_running());
                server.wait_until(is_gone, TEST_TIMEOUT).await;
            }
        }
    }
}

/// How many tools a server has that do nothing of interest.
pub(super) const FILLERS: usize = 120;

/// The names of the other tools.
pub(super) const TOOLS: [&str; 11] =
    ["echo", "slow", "big", "gallery", "structured", "log", "form", "page", "sample", "roots", "task"];

fn script(name: &str) -> Script {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let uri = |rest: &str| format!("grid://{name}/{rest}");
    let built_in = |name: &str| Tool::named(name).read_only();
    let mut script = testkit::server();
    for tool in ["echo", "slow", "big", "gallery", "structured"] {
        script = script.tool(built_in(tool));
    }
    script
        .tool(Tool::logs("log", [("info", json!("quiet")), ("error", json!("loud"))]).read_only())
        .tool(Tool::asks("form", [ScriptedRequest::form_elicitation("k", "Where?", schema)]).read_only())
        .tool(
            Tool::asks("page", [ScriptedRequest::url_elicitation("k", "Pay", "http://127.0.0.1:9/")])
                .read_only(),
        )
        .tool(Tool::asks("sample", [ScriptedRequest::sampling("k", "Say something", 10)]).read_only())
        .tool(Tool::asks("roots", [ScriptedRequest::roots("k")]).read_only())
        .tool(built_in("task").task(TaskPlan::after_polls(1)))
        .filler_tools(FILLERS, 100)
        .page_size(50)
        .resource(&uri("a"), "the text of a")
        .template(&uri("of/{id}"))
        .prompt("greet", "Hello {who}")
        .completes(Completion::prompt("greet", "who", &["world", "wind"]))
}
