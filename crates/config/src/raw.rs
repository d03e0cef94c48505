//! Owns the list of keys that a configuration file may have, as they are written and before they
//! are interpreted. The JSON schema is generated from these types, so their docs are what an editor
//! shows.

mod auth;
mod server_requests;
mod store;

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::hook::{Hook, HookEvent};
use crate::report::Located;
use crate::sampling::SamplingPolicy;
use crate::server::{Protocol, Server, Timeouts};

pub(crate) use auth::{
    ALGORITHMS, CLIENT_AUTH, RawApp, RawAuth, RawGrant, RawHeadersCommand, RawIdp, RawResourceIndicator,
    RawTokenSource,
};
pub(crate) use server_requests::{RawElicitation, RawRoots, RawSampling};
pub(crate) use store::{BACKENDS, KEY_LOCATIONS, RawBackend, RawStore};

/// Servers for bowline to connect to.
#[derive(JsonSchema, Default)]
#[schemars(rename = "bowline configuration", deny_unknown_fields, default)]
pub(crate) struct RawFile {
    /// The servers by name. A name is 1 to 64 characters of A-Z, a-z, 0-9, `_`, `.` and `-`.
    #[schemars(extend("propertyNames" = { "pattern": "^[A-Za-z0-9_.-]{1,64}$" }))]
    servers: BTreeMap<String, RawServer>,

    /// Hooks for all servers: what to do when something happens to one.
    hooks: Vec<RawHook>,

    /// The model that answers sampling requests of servers. Without this table, servers are told
    /// that there is none.
    sampling: RawSampling,

    /// How elicitations are answered, the questions of servers to the person.
    elicitation: RawElicitation,

    /// The folders that servers are asked to work in (roots).
    roots: RawRoots,

    /// How bowline presents itself to every server that requires a login.
    auth: RawApp,

    /// Where logins are stored. Only the user's own file sets it; in a project's file the table has
    /// no effect.
    store: RawStore,
}

/// One server: either a `command` to start or a `url` to reach. In strings, `${VAR}`,
/// `${VAR:-default}`, `{env:VAR}` and `{file:path}` are filled in; `$${` stands for `${`.
#[derive(JsonSchema, Default)]
#[schemars(
    rename = "server",
    inline,
    deny_unknown_fields,
    default,
    extend(
        "oneOf" = [{ "required": ["command"] }, { "required": ["url"] }],
        "dependentRequired" = {
            "args": ["command"],
            "env": ["command"],
            "cwd": ["command"],
            "headers": ["url"],
            "headers_command": ["url"],
            "auth": ["url"],
            "allow_http": ["url"],
            "ca_file": ["url"],
            "client_cert": ["url", "client_key"],
            "client_key": ["url", "client_cert"],
        },
        "allOf" = [
            only_with("transport", &["stdio"], "command"),
            only_with("transport", &["http", "streamable-http", "sse"], "url"),
            only_with("type", &["stdio"], "command"),
            only_with("type", &["http", "streamable-http", "sse"], "url"),
        ],
    )
)]
pub(crate) struct RawServer {
    /// The program to start: a path, or a name to be searched for in PATH. A relative path starts
    /// from the folder that it runs in.
    #[schemars(with = "String")]
    pub(crate) command: Option<Located<String>>,

    /// Its arguments.
    #[schemars(with = "Vec<String>")]
    pub(crate) args: Option<Located<Vec<Located<String>>>>,

    /// Environment variables to add. The child sees a short list of safe ones and these.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) env: Option<Located<RawMap>>,

    /// The folder to run it in. A relative path starts from the folder of this file. Without it,
    /// the folder of a project's file, and otherwise the folder that you are in.
    #[schemars(with = "String")]
    pub(crate) cwd: Option<Located<String>>,

    /// The endpoint: http or https, without credentials in it. Streamable HTTP is tried first, and
    /// HTTP+SSE if the server refuses that and `transport` does not say which it is.
    #[schemars(with = "String")]
    pub(crate) url: Option<Located<String>>,

    /// The transport, if it must be fixed: `stdio` follows from `command`. With `http` (or
    /// `streamable-http`) the older HTTP+SSE is never tried; with `sse` nothing else is.
    #[schemars(schema_with = "reach")]
    pub(crate) transport: Option<Located<RawTransport>>,

    /// Another name for `transport`, the one that hosts use.
    #[schemars(rename = "type", schema_with = "reach")]
    pub(crate) kind: Option<Located<RawTransport>>,

    /// Headers to add to every request.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) headers: Option<Located<RawMap>>,

    /// A program that prints further headers as a JSON object. It is run again when its output is
    /// too old, and when the server refuses it.
    #[schemars(schema_with = "auth::headers_command")]
    pub(crate) headers_command: Option<Located<RawHeadersCommand>>,

    /// How tokens are obtained if the server requires a login; `false` turns logins off. Left out,
    /// everything is discovered from the server, and a person is brought to its login page.
    #[schemars(schema_with = "auth::auth")]
    pub(crate) auth: Option<Located<RawAuth>>,

    /// Whether tokens and other credentials may be sent over plain http to another machine, where
    /// everybody on the way can read them. This machine and https need no permission.
    #[schemars(with = "bool", extend("default" = false))]
    pub(crate) allow_http: Option<Located<bool>>,

    /// PEM file of certificate authorities to trust in addition to the system's.
    #[schemars(with = "String")]
    pub(crate) ca_file: Option<Located<String>>,

    /// PEM file of a client certificate; needs `client_key`.
    #[schemars(with = "String")]
    pub(crate) client_cert: Option<Located<String>>,

    /// PEM file of the client certificate's key; needs `client_cert`.
    #[schemars(with = "String")]
    pub(crate) client_key: Option<Located<String>>,

    /// How long a call may be silent. Progress restarts it.
    #[schemars(schema_with = "duration", extend("default" = Timeouts::CALL))]
    pub(crate) timeout: Option<Located<Duration>>,

    /// How long a call may take in all, progress or not.
    #[schemars(schema_with = "duration", extend("default" = Timeouts::MAX))]
    pub(crate) max_timeout: Option<Located<Duration>>,

    /// How long connecting may take, from starting or dialing to an agreed protocol.
    #[schemars(schema_with = "duration", extend("default" = Timeouts::CONNECT))]
    pub(crate) connect_timeout: Option<Located<Duration>>,

    /// How long the modern protocol is waited for before the legacy one is tried.
    #[schemars(schema_with = "duration", extend("default" = Timeouts::PROBE))]
    pub(crate) probe_timeout: Option<Located<Duration>>,

    /// How long the server may be silent before a keepalive probe is sent. 0 turns it off; less
    /// than 5 seconds is used as 5 seconds, which `config check` notes.
    #[schemars(schema_with = "interval", extend("default" = Server::KEEPALIVE))]
    pub(crate) keepalive_interval: Option<Located<Duration>>,

    /// How long a call waits for a connection that is down before it fails. 0 fails it at once.
    #[schemars(schema_with = "interval", extend("default" = Server::RECONNECT_WAIT))]
    pub(crate) reconnect_wait: Option<Located<Duration>>,

    /// Whether the server is used.
    #[schemars(with = "bool", extend("default" = true))]
    pub(crate) enabled: Option<Located<bool>>,

    /// Which era of the protocol to speak.
    #[schemars(with = "Protocol", extend("default" = "auto"))]
    pub(crate) protocol: Option<Located<Protocol>>,

    /// Who must approve sampling requests of this server; left out, what `sampling.policy` says.
    #[schemars(with = "SamplingPolicy")]
    pub(crate) sampling: Option<Located<SamplingPolicy>>,

    /// The folders that this server is asked to work in; left out, those of `roots.folders`. A
    /// server may use them instead of the ones that it was started with. A relative path starts
    /// from the folder of this file.
    #[schemars(with = "Vec<String>")]
    pub(crate) roots: Option<Located<Vec<Located<String>>>>,

    /// Hooks of this server, run after the hooks for all.
    #[schemars(with = "Vec<RawHook>")]
    pub(crate) hooks: Vec<Located<RawHook>>,
}

/// One hook: either a `command` to start or a `webhook` to call. Placeholders are filled in as in a
/// server.
#[derive(JsonSchema, Default)]
#[schemars(
    rename = "hook",
    inline,
    deny_unknown_fields,
    default,
    extend(
        "oneOf" = [{ "required": ["command"] }, { "required": ["webhook"] }],
        "dependentRequired" = {
            "args": ["command"],
            "env": ["command"],
            "cwd": ["command"],
            "headers": ["webhook"],
        },
    )
)]
pub(crate) struct RawHook {
    /// The events to wait for; left out, all of them.
    #[schemars(schema_with = "events")]
    pub(crate) on: Option<Located<Vec<HookEvent>>>,

    /// The program to start: a path, or a name to be searched for in PATH. The event is on its
    /// standard input as JSON.
    #[schemars(with = "String")]
    pub(crate) command: Option<Located<String>>,

    /// Its arguments.
    #[schemars(with = "Vec<String>")]
    pub(crate) args: Option<Located<Vec<Located<String>>>>,

    /// Environment variables to add.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) env: Option<Located<RawMap>>,

    /// The folder to run it in. A relative path starts from the folder of this file. Without it,
    /// the folder of a project's file, and otherwise the folder that you are in.
    #[schemars(with = "String")]
    pub(crate) cwd: Option<Located<String>>,

    /// The URL to post the event to as JSON: http or https, without credentials in it.
    #[schemars(with = "String")]
    pub(crate) webhook: Option<Located<String>>,

    /// Headers to add to that request.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) headers: Option<Located<RawMap>>,

    /// How long it may take before it is ended.
    #[schemars(schema_with = "duration", extend("default" = Hook::TIMEOUT))]
    pub(crate) timeout: Option<Located<Duration>>,

    /// `command` or `webhook` was given but could not be read, which has been reported. Reporting
    /// it as missing too would be a second complaint about one mistake.
    #[schemars(skip)]
    pub(crate) action_garbled: bool,
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
pub(crate) type RawMap = Vec<(Located<String>, Located<String>)>;

impl RawServer {
    /// Every key, for suggestions.
    pub(crate) const KEYS: [&str; 25] = [
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "transport",
        "type",
        "headers",
        "headers_command",
        "auth",
        "allow_http",
        "ca_file",
        "client_cert",
        "client_key",
        "timeout",
        "max_timeout",
        "connect_timeout",
        "probe_timeout",
        "keepalive_interval",
        "reconnect_wait",
        "enabled",
        "protocol",
        "sampling",
        "roots",
        "hooks",
    ];
}

impl RawHook {
    /// Every key, for suggestions.
    pub(crate) const KEYS: [&str; 8] =
        ["on", "command", "args", "env", "cwd", "webhook", "headers", "timeout"];
}

impl RawTransport {
    /// Every transport that our own dialect can name.
    pub(crate) const ALL: [(&str, Self); 4] =
        [("stdio", Self::Stdio), ("http", Self::Http), ("streamable-http", Self::Http), ("sse", Self::Sse)];
}

fn reach(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": RawTransport::ALL.map(|(name, _)| name) })
}

/// Returns the schema of one event, or of several.
fn events(generator: &mut SchemaGenerator) -> Schema {
    let event = HookEvent::json_schema(generator);
    json_schema!({ "anyOf": [event, { "type": "array", "items": event, "minItems": 1 }] })
}

/// Returns the rule that `needed` is required if `key` is one of `values`.
fn only_with(key: &str, values: &[&str], needed: &str) -> Value {
    json!({
        "if": { "properties": { key: { "enum": values } }, "required": [key] },
        "then": { "required": [needed] },
    })
}

/// Returns the schema of a duration: seconds, or a number with its unit.
fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": "number", "exclusiveMinimum": 0, "maximum": 86400 },
            { "type": "string", "pattern": WITH_UNIT },
        ]
    })
}

/// Returns the schema of a duration that may be zero.
fn interval(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": "number", "minimum": 0, "maximum": 86400 },
            { "type": "string", "pattern": WITH_UNIT },
        ]
    })
}

const WITH_UNIT: &str = r"^\s*[0-9]+(\.[0-9]+)?\s*(ms|s|m|h)?\s*$";
