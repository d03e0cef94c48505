//! Owns the list of what a configuration file may say: every key, as it is written and before it
//! is understood. The JSON schema is generated from these types, so what stands here is what an
//! editor offers and explains.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::report::Located;
use crate::server::{Protocol, Timeouts};

/// Servers for bowline to connect to.
#[derive(JsonSchema, Default)]
#[schemars(rename = "bowline configuration", deny_unknown_fields, default)]
pub(crate) struct RawFile {
    /// The servers by name. A name is 1 to 64 characters of A-Z, a-z, 0-9, `_`, `.` and `-`.
    #[schemars(extend("propertyNames" = { "pattern": "^[A-Za-z0-9_.-]{1,64}$" }))]
    servers: BTreeMap<String, RawServer>,
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
            "ca_file": ["url"],
            "client_cert": ["url", "client_key"],
            "client_key": ["url", "client_cert"],
        },
    )
)]
pub(crate) struct RawServer {
    /// The program to start: a path, or a name to be searched for in PATH.
    #[schemars(with = "String")]
    pub(crate) command: Option<Located<String>>,

    /// Its arguments.
    #[schemars(with = "Vec<String>")]
    pub(crate) args: Option<Located<Vec<Located<String>>>>,

    /// Environment variables to add. The child sees a short list of safe ones and these.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) env: Option<Located<RawMap>>,

    /// The folder to run it in. A relative path starts from the folder of this file.
    #[schemars(with = "String")]
    pub(crate) cwd: Option<Located<String>>,

    /// The Streamable HTTP endpoint: http or https, without credentials in it.
    #[schemars(with = "String")]
    pub(crate) url: Option<Located<String>>,

    /// Headers to add to every request.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) headers: Option<Located<RawMap>>,

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

    /// Whether the server is used.
    #[schemars(with = "bool", extend("default" = true))]
    pub(crate) enabled: Option<Located<bool>>,

    /// Which era of the protocol to speak.
    #[schemars(with = "Protocol", extend("default" = "auto"))]
    pub(crate) protocol: Option<Located<Protocol>>,
}

/// Names and values in the order of the file, each where it was written.
pub(crate) type RawMap = Vec<(Located<String>, Located<String>)>;

impl RawServer {
    /// Every key, for suggestions.
    pub(crate) const KEYS: [&str; 15] = [
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "headers",
        "ca_file",
        "client_cert",
        "client_key",
        "timeout",
        "max_timeout",
        "connect_timeout",
        "probe_timeout",
        "enabled",
        "protocol",
    ];
}

/// Seconds, or a number with its unit.
fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": "number", "exclusiveMinimum": 0, "maximum": 86400 },
            { "type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(ms|s|m|h)\s*$" },
        ]
    })
}
