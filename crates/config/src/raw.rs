//! Owns the keys that a configuration file may have, as they are written and before they are
//! interpreted. Each is defined once; `keys!` says what follows from a definition.

mod auth;
mod serve;
mod server_requests;
mod store;
mod view;

use serde_json::{Value, json};

use crate::dialect::{HookEvents, HookList, ServerList, UndecodedTable, UnreadHooks, ViewList};
use crate::hook::Hook;
use crate::keys::{Boolean, Choice, Count, Interval, KeyTable as _, StringMap, Strings, Text, Timeout, keys};
use crate::problem::ProblemKind;
use crate::report::{Finding, LocatedValue, Location};
use crate::sampling::SamplingPolicy;
use crate::server::{Protocol, Server, Share, Timeouts};
use crate::tree;

pub(crate) use auth::{
    Algorithm, RawApp, RawAuth, RawGrant, RawHeadersCommand, RawIdp, RawResourceIndicator, RawTokenSource,
};
pub(crate) use serve::{RawServe, RawServeLimits, RawServeOauth};
pub(crate) use server_requests::{RawElicitation, RawRoots, RawSampling};
pub(crate) use store::{RawBackend, RawStore};
pub(crate) use view::RawView;

keys! {
    /// Servers for bowline to connect to.
    pub(crate) struct RawFile {
        /// The servers by name. A name is 1 to 64 characters of A-Z, a-z, 0-9, `_`, `.` and `-`.
        #[meant_by("mcp_servers", "mcpServers", "mcp", "context_servers")]
        servers: ServerList,

        /// Hooks for all servers: what to do when something happens to one.
        hooks: UnreadHooks,

        /// The model that answers sampling requests of servers. Without this table, servers are told
        /// that there is none.
        sampling: UndecodedTable<RawSampling>,

        /// How elicitations are answered, the questions of servers to the person.
        elicitation: UndecodedTable<RawElicitation>,

        /// The folders that servers are asked to work in (roots).
        roots: UndecodedTable<RawRoots>,

        /// How bowline presents itself to every server that requires a login.
        auth: UndecodedTable<RawApp>,

        /// Where logins are stored. Only the user's own file sets it; in a project's file the table has
        /// no effect.
        store: UndecodedTable<RawStore>,

        /// Views of the servers for some hosts of `bowline serve`, by name. A name is 1 to 64 characters
        /// of A-Z, a-z, 0-9, `_` and `-`. Only the user's own file has them; in a project's file they
        /// have no effect.
        #[meant_by("view", "profiles", "profile")]
        views: ViewList,

        /// How `bowline serve` serves hosts. Only the user's own file has it; in a project's file it has
        /// no effect.
        #[meant_by("gateway")]
        serve: UndecodedTable<RawServe>,
    }
    explain explain_file_key
}

keys! {
    /// One server: either a `command` to start or a `url` to reach. In strings, `${VAR}`,
    /// `${VAR:-default}`, `{env:VAR}` and `{file:path}` are filled in; `$${` stands for `${`.
    pub(crate) struct RawServer {
        /// The program to start: a path, or a name to be searched for in PATH. A relative path starts
        /// from the folder that it runs in.
        #[meant_by("cmd")]
        command: Text,

        /// Its arguments.
        args: Strings,

        /// Environment variables to add. The child sees a short list of safe ones and these.
        #[meant_by("environment", "envs", "env_vars")]
        env: StringMap,

        /// The folder to run it in. A relative path starts from the folder of this file. Without it,
        /// the folder of a project's file, and otherwise the folder that you are in.
        #[hosts("cwd")]
        cwd: Text,

        /// The endpoint: http or https, without credentials in it. Streamable HTTP is tried first, and
        /// HTTP+SSE if the server refuses that and `transport` does not say which it is.
        #[meant_by("serverUrl", "httpUrl", "uri", "endpoint")]
        url: Text,

        /// The Unix socket on which the server is reached, in place of the host and port of `url`, which
        /// must be http. A relative path starts from the folder of this file. No proxy is used, and no
        /// login is started. Not available on Windows.
        #[meant_by("unix_socket", "socket_path", "uds")]
        socket: Text,

        /// The transport, if it must be fixed: `stdio` follows from `command`. With `http` (or
        /// `streamable-http`) the older HTTP+SSE is never tried; with `sse` nothing else is.
        #[hosts("transport", "transportType")]
        transport: RawTransport,

        /// Another name for `transport`, the one that hosts use.
        #[hosts("type")]
        kind as "type": RawTransport,

        /// Headers to add to every request.
        #[meant_by("http_headers")]
        headers: StringMap,

        /// A program that prints further headers as a JSON object. It is run again when its output is
        /// too old, and when the server refuses it.
        #[meant_by("headersHelper", "http_headers_helper")]
        headers_command: RawHeadersCommand,

        /// How tokens are obtained if the server requires a login; `false` turns logins off. Left out,
        /// everything is discovered from the server, and a person is brought to its login page.
        auth: RawAuth,

        /// Whether tokens and other credentials may be sent over plain http to another machine, where
        /// everybody on the way can read them. This machine and https need no permission.
        #[hosts("allow_http")]
        allow_http: Boolean = false,

        /// PEM file of certificate authorities to trust in addition to the system's.
        ca_file: Text,

        /// PEM file of a client certificate; needs `client_key`.
        client_cert: Text,

        /// PEM file of the client certificate's key; needs `client_cert`.
        client_key: Text,

        /// How long a call may be silent. Progress restarts it.
        #[meant_by("tool_timeout_sec", "timeout_ms")]
        #[hosts("timeout")]
        timeout: Timeout = Timeouts::IDLE,

        /// How long a call may take in all, progress or not.
        max_timeout: Timeout = Timeouts::TOTAL,

        /// How long connecting may take, from starting or dialing to an agreed protocol.
        #[meant_by("startup_timeout_sec", "startup_timeout_ms")]
        connect_timeout: Timeout = Timeouts::CONNECT,

        /// How long the modern protocol is waited for before the legacy one is tried.
        probe_timeout: Timeout = Timeouts::PROBE,

        /// How long the server may be silent before a keepalive probe is sent. 0 turns it off; less
        /// than 5 seconds is used as 5 seconds, which `config check` notes.
        #[meant_by("keepalive", "keep_alive", "ping_interval")]
        #[hosts("keepalive_interval", "keepAliveInterval")]
        keepalive_interval: Interval = Server::KEEPALIVE,

        /// How long a call waits for a connection that is down before it fails. 0 fails it at once.
        #[hosts("reconnect_wait", "reconnectWait")]
        reconnect_wait: Interval = Server::RECONNECT_WAIT,

        /// How large a message of the server may be, in MiB. Each one is held in memory as a whole.
        #[meant_by("message_limit", "max_message", "max_message_size", "body_limit")]
        message_limit_mib: Count = Server::MESSAGE_LIMIT_MIB,

        /// Which hosts of `bowline serve` share a connection to the server, and so a process.
        #[meant_by("shared", "sharing")]
        share: Choice<Share> = Share::default().as_str(),

        /// After how long without a call `bowline serve` closes a connection to the server, and so
        /// ends its process, until the next call. What the server offers stays listed. 0 is never.
        #[meant_by("idle_timeout", "idle")]
        idle_stop: Interval = 0,

        /// The tools that `bowline serve` and `bowline connect` expose, by the names that the server has
        /// for them; left out, all of them. `*` in a name stands for anything.
        #[meant_by("includeTools", "include_tools", "allowed_tools", "tools")]
        #[hosts("enabled_tools", "includeTools")]
        enabled_tools: Strings,

        /// The tools that `bowline serve` and `bowline connect` do not expose, also if `enabled_tools`
        /// names them.
        #[meant_by("excludeTools", "exclude_tools", "disabledTools")]
        #[hosts("disabled_tools", "excludeTools")]
        disabled_tools: Strings,

        /// Whether `bowline serve` and `bowline connect` expose the prompts of the server.
        prompts: Boolean = true,

        /// Whether `bowline serve` and `bowline connect` expose the resources of the server.
        resources: Boolean = true,

        /// New names of tools in `bowline serve`, by the names that the server has for them.
        #[meant_by("rename")]
        tool_names: StringMap,

        /// New descriptions of tools in `bowline serve`, by the names that the server has for them.
        #[meant_by("descriptions")]
        tool_descriptions: StringMap,

        /// Whether the server is used.
        #[hosts("enabled")]
        enabled: Boolean = true,

        /// Which era of the protocol to speak.
        protocol: Choice<Protocol> = Protocol::default().as_str(),

        /// Who must approve sampling requests of this server; left out, what `sampling.policy` says.
        sampling: Choice<SamplingPolicy>,

        /// The folders that this server is asked to work in; left out, those of `roots.folders`. A
        /// server may use them instead of the ones that it was started with. A relative path starts
        /// from the folder of this file.
        roots: Strings,

        /// Hooks of this server, run after the hooks for all.
        hooks: HookList,
    }
    rules {
        "oneOf": [{ "required": ["command"] }, { "required": ["url"] }],
        "dependentRequired": {
            "args": ["command"],
            "env": ["command"],
            "cwd": ["command"],
            "socket": ["url"],
            "headers": ["url"],
            "headers_command": ["url"],
            "auth": ["url"],
            "allow_http": ["url"],
            "ca_file": ["url"],
            "client_cert": ["url", "client_key"],
            "client_key": ["url", "client_cert"],
        },
        "allOf": [
            only_with("transport", &["stdio"], "command"),
            only_with("transport", &["http", "streamable-http", "sse"], "url"),
            only_with("type", &["stdio"], "command"),
            only_with("type", &["http", "streamable-http", "sse"], "url"),
        ],
    }
    explain explain_server_key
}

keys! {
    /// One hook: either a `command` to start or a `webhook` to call. Placeholders are filled in as in a
    /// server.
    pub(crate) struct RawHook {
        /// The events to wait for; left out, all of them.
        #[meant_by("event", "events", "when", "trigger")]
        on: HookEvents,

        /// The program to start: a path, or a name to be searched for in PATH. The event is on its
        /// standard input as JSON.
        #[meant_by("cmd", "run", "exec")]
        command: Text,

        /// Its arguments.
        args: Strings,

        /// Environment variables to add.
        #[meant_by("environment")]
        env: StringMap,

        /// The folder to run it in. A relative path starts from the folder of this file. Without it,
        /// the folder of a project's file, and otherwise the folder that you are in.
        cwd: Text,

        /// The URL to post the event to as JSON: http or https, without credentials in it.
        #[meant_by("url", "uri", "http", "endpoint")]
        webhook: Text,

        /// Headers to add to that request.
        headers: StringMap,

        /// How long it may take before it is ended.
        timeout: Timeout = Hook::TIMEOUT,
    }
    rules {
        "oneOf": [{ "required": ["command"] }, { "required": ["webhook"] }],
        "dependentRequired": {
            "args": ["command"],
            "env": ["command"],
            "cwd": ["command"],
            "headers": ["webhook"],
        },
    }
}

/// The transport that an entry declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawTransport {
    Stdio,
    /// Streamable HTTP and nothing else.
    Http,
    /// HTTP+SSE and nothing else.
    Sse,
    /// By URL, over either of the two. Only hosts' files say so.
    Remote,
}

/// Names and values in the order of the file, each with its location.
pub(crate) type RawMap = Vec<(LocatedValue<String>, LocatedValue<String>)>;

impl RawTransport {
    /// Every transport that our own dialect can name.
    pub(crate) const ALL: [(&str, Self); 4] =
        [("stdio", Self::Stdio), ("http", Self::Http), ("streamable-http", Self::Http), ("sse", Self::Sse)];
}

/// Returns the rule that `needed` is required if `key` is one of `values`.
fn only_with(key: &str, values: &[&str], needed: &str) -> Value {
    json!({
        "if": { "properties": { key: { "enum": values } }, "required": [key] },
        "then": { "required": [needed] },
    })
}

fn explain_file_key(unknown: &str, _: &tree::Value, _: &Location) -> Option<Finding> {
    let finding = Finding::new(ProblemKind::UnknownKey, "unknown key");
    RawFile::suggest(unknown).is_none().then(|| finding.hint("servers are written as `[servers.NAME]`"))
}

/// Explains keys of a server that other programs have, or that were meant to be a part of its name.
fn explain_server_key(unknown: &str, value: &tree::Value, entry: &Location) -> Option<Finding> {
    let hint = if holds_server(value) {
        let outer = entry.key.trim_start_matches("servers.");
        format!("a name with a dot in it is quoted: `[servers.\"{outer}.{unknown}\"]`")
    } else {
        let hint = match unknown {
            "disabled" => "write `enabled = false`",
            "bearer_token" | "bearer_token_env_var" => {
                "write `headers = { Authorization = \"Bearer ${VAR}\" }`"
            }
            "ssl_verify" => "name the authority to trust in `ca_file`",
            "env_http_headers" => "write `headers = { NAME = \"${VAR}\" }`",
            "scopes" => "write `auth = { scope = [\"…\"] }`",
            "oauth_resource" => "write `auth = { resource = \"…\" }`",
            "client_id" | "client_secret" => "it goes into `[servers.NAME.auth]`",
            _ => return None,
        };
        hint.to_owned()
    };
    Some(Finding::new(ProblemKind::UnknownKey, "unknown key").hint(hint))
}

/// Whether a table inside an entry is a server: `[servers.git.hub]` is a table `hub` inside the
/// server `git`.
pub(crate) fn holds_server(value: &tree::Value) -> bool {
    let tree::Value::Table(inner) = value else {
        return false;
    };
    inner.iter().any(|(key, _)| matches!(key.name.as_str(), "command" | "url"))
}
