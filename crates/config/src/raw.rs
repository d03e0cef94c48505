//! Owns the list of what a configuration file may say: every key, as it is written and before it
//! is understood. The JSON schema is generated from these types, so what stands here is what an
//! editor offers and explains.

mod asks;
mod auth;
mod store;

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::hook::{Hook, HookEvent};
use crate::report::Located;
use crate::sampling::SamplingPolicy;
use crate::server::{Protocol, Server, Timeouts};

pub(crate) use asks::{RawElicitation, RawRoots, RawSampling};
pub(crate) use auth::{
    ALGORITHMS, CLIENT_AUTH, RawApp, RawAuth, RawGrant, RawHeadersCommand, RawIdp, RawResource, RawSupply,
};
pub(crate) use store::{BACKENDS, KEY_PLACES, RawBackend, RawStore};

/// Servers for bowline to connect to.
#[derive(JsonSchema, Default)]
#[schemars(rename = "bowline configuration", deny_unknown_fields, default)]
pub(crate) struct RawFile {
    /// The servers by name. A name is 1 to 64 characters of A-Z, a-z, 0-9, `_`, `.` and `-`.
    #[schemars(extend("propertyNames" = { "pattern": "^[A-Za-z0-9_.-]{1,64}$" }))]
    servers: BTreeMap<String, RawServer>,

    /// What to do when something happens to a server, whichever it is.
    hooks: Vec<RawHook>,

    /// The model that answers when a server asks for one. Without this table, servers are told that there is
    /// none.
    sampling: RawSampling,

    /// What becomes of questions that servers have for the person.
    elicitation: RawElicitation,

    /// The folders that servers are told to work in.
    roots: RawRoots,

    /// Who we say we are, to every server that wants a login.
    auth: RawApp,

    /// Where logins are kept. Only a user's own file says so; in a project's file the table has no effect.
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
    /// The program to start: a path, or a name to be searched for in PATH. A relative path starts from the folder that it
    /// runs in.
    #[schemars(with = "String")]
    pub(crate) command: Option<Located<String>>,

    /// Its arguments.
    #[schemars(with = "Vec<String>")]
    pub(crate) args: Option<Located<Vec<Located<String>>>>,

    /// Environment variables to add. The child sees a short list of safe ones and these.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) env: Option<Located<RawMap>>,

    /// The folder to run it in. A relative path starts from the folder of this file. Without it, the folder of a project's
    /// file, and otherwise the folder that you are in.
    #[schemars(with = "String")]
    pub(crate) cwd: Option<Located<String>>,

    /// The endpoint: http or https, without credentials in it. Streamable HTTP is spoken to it, and
    /// HTTP+SSE where the server refuses that and `transport` does not say which it is.
    #[schemars(with = "String")]
    pub(crate) url: Option<Located<String>>,

    /// How the server is reached, where that must be said: `stdio` follows from `command`. With `http`
    /// (or `streamable-http`) the older HTTP+SSE is never tried; with `sse` nothing else is.
    #[schemars(schema_with = "reach")]
    pub(crate) transport: Option<Located<Reach>>,

    /// The same as `transport`, by the name hosts give it.
    #[schemars(rename = "type", schema_with = "reach")]
    pub(crate) kind: Option<Located<Reach>>,

    /// Headers to add to every request.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) headers: Option<Located<RawMap>>,

    /// A program that prints further headers as a JSON object. It is run again when they are old, and when the server
    /// refuses them.
    #[schemars(schema_with = "auth::headers_command")]
    pub(crate) headers_command: Option<Located<RawHeadersCommand>>,

    /// How the server gets a login if it wants one; `false` is never. Left out, everything is found out from the
    /// server, and a person is brought to its login page.
    #[schemars(schema_with = "auth::auth")]
    pub(crate) auth: Option<Located<RawAuth>>,

    /// Whether tokens and other credentials may be sent over plain http to another machine, where everybody on the
    /// way can read them. This machine and https need no permission.
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

    /// How long a call may be silent. Progress starts it anew.
    #[schemars(schema_with = "duration", extend("default" = Timeouts::CALL))]
    pub(crate) timeout: Option<Located<Duration>>,

    /// How long a call may take in all, progress or not.
    #[schemars(schema_with = "duration", extend("default" = Timeouts::MAX))]
    pub(crate) max_timeout: Option<Located<Duration>>,

    /// How long connecting may take, from starting or dialling to an agreed protocol.
    #[schemars(schema_with = "duration", extend("default" = Timeouts::CONNECT))]
    pub(crate) connect_timeout: Option<Located<Duration>>,

    /// How long the modern protocol is waited for before the legacy one is tried.
    #[schemars(schema_with = "duration", extend("default" = Timeouts::PROBE))]
    pub(crate) probe_timeout: Option<Located<Duration>>,

    /// How long the server may be silent before it is asked for a sign of life. 0 is never; less than
    /// 5 seconds is used as 5 seconds, which `config check` says.
    #[schemars(schema_with = "interval", extend("default" = Server::KEEPALIVE))]
    pub(crate) keepalive_interval: Option<Located<Duration>>,

    /// How long a call waits for a connection that is down before it fails. 0 is not at all.
    #[schemars(schema_with = "interval", extend("default" = Server::RECONNECT_WAIT))]
    pub(crate) reconnect_wait: Option<Located<Duration>>,

    /// Whether the server is used.
    #[schemars(with = "bool", extend("default" = true))]
    pub(crate) enabled: Option<Located<bool>>,

    /// Which era of the protocol to speak.
    #[schemars(with = "Protocol", extend("default" = "auto"))]
    pub(crate) protocol: Option<Located<Protocol>>,

    /// Who has to agree before this server gets an answer of a model; left out, what `sampling.policy` says.
    #[schemars(with = "SamplingPolicy")]
    pub(crate) sampling: Option<Located<SamplingPolicy>>,

    /// The folders that this server is told to work in; left out, those of `roots.folders`. A server may take them in
    /// place of the ones that it was started with. A relative path starts from the folder of this file.
    #[schemars(with = "Vec<String>")]
    pub(crate) roots: Option<Located<Vec<Located<String>>>>,

    /// What to do when something happens to this server, after the hooks for all.
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

    /// The folder to run it in. A relative path starts from the folder of this file. Without it, the folder of a project's
    /// file, and otherwise the folder that you are in.
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

    /// `command` or `webhook` was meant but could not be read, which has been reported: to report
    /// it as missing too would be a second complaint about one mistake.
    #[schemars(skip)]
    pub(crate) action_garbled: bool,
}

/// How an entry says that its server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Stdio,
    /// Streamable HTTP and nothing else.
    Http,
    /// HTTP+SSE and nothing else.
    Sse,
    /// By URL; over which of the two is left open. Only hosts' files say so.
    Remote,
}

/// Names and values in the order of the file, each where it was written.
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

impl Reach {
    /// Every way that our own form can say.
    pub(crate) const ALL: [(&str, Self); 4] =
        [("stdio", Self::Stdio), ("http", Self::Http), ("streamable-http", Self::Http), ("sse", Self::Sse)];
}

fn reach(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": Reach::ALL.map(|(name, _)| name) })
}

/// One event, or several.
fn events(generator: &mut SchemaGenerator) -> Schema {
    let event = HookEvent::json_schema(generator);
    json_schema!({ "anyOf": [event, { "type": "array", "items": event, "minItems": 1 }] })
}

/// Where `key` is one of `values`, `needed` is needed.
fn only_with(key: &str, values: &[&str], needed: &str) -> Value {
    json!({
        "if": { "properties": { key: { "enum": values } }, "required": [key] },
        "then": { "required": [needed] },
    })
}

/// Seconds, or a number with its unit.
fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": "number", "exclusiveMinimum": 0, "maximum": 86400 },
            { "type": "string", "pattern": WITH_UNIT },
        ]
    })
}

/// As `duration`, and zero has a meaning.
fn interval(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": "number", "minimum": 0, "maximum": 86400 },
            { "type": "string", "pattern": WITH_UNIT },
        ]
    })
}

const WITH_UNIT: &str = r"^\s*[0-9]+(\.[0-9]+)?\s*(ms|s|m|h)\s*$";
