//! Owns the keys about who we are: `auth` and `headers_command` of a server, and `[auth]` for all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::{RawMap, duration};
use crate::auth::{Dpop, HeadersCommand, TokenAuth};
use crate::report::Located;

/// How a server gets a login if it wants one. What is left out is found out from the server.
#[derive(JsonSchema, Default)]
#[schemars(
    rename = "auth",
    inline,
    deny_unknown_fields,
    default,
    extend(
        "dependentRequired" = {
            "client_secret": ["client_id"],
            "client_auth": ["client_id"],
            "private_key": ["client_id"],
            "key_id": ["private_key"],
            "algorithm": ["private_key"],
            "audience": ["private_key"],
        },
        "allOf" = [
            where_is("client_auth", "private_key_jwt", &["private_key"]),
            where_is("client_auth", "client_secret_post", &["client_secret"]),
            where_is("client_auth", "client_secret_basic", &["client_secret"]),
            where_is("grant", "enterprise", &["idp"]),
            where_is("grant", "workload", &["assertion"]),
            where_is("grant", "client-credentials", &["client_id"]),
        ],
        "not" = { "required": ["redirect_port", "redirect_uri"] },
    )
)]
pub(crate) struct RawAuth {
    /// How tokens are had: `person` by a login in a browser, or with a code on another device where there is no
    /// browser; `device` always by such a code; `client-credentials` by the client itself; `enterprise` through an
    /// organisation's identity provider; `workload` by a token that the platform makes; `off` never.
    #[schemars(schema_with = "grant", extend("default" = "person"))]
    pub(crate) grant: Option<Located<RawGrant>>,

    /// The client that was registered by hand. Left out, the client says who it is by itself.
    #[schemars(with = "String", extend("pattern" = r"\S"))]
    pub(crate) client_id: Option<Located<String>>,

    /// Its secret.
    #[schemars(with = "String", extend("minLength" = 1))]
    pub(crate) client_secret: Option<Located<String>>,

    /// How it proves itself where tokens are given out. Left out, what its secrets and the server allow.
    #[schemars(schema_with = "client_auth")]
    pub(crate) client_auth: Option<Located<TokenAuth>>,

    /// The key that it signs with, as PEM; usually `{file:key.pem}`.
    #[schemars(with = "String")]
    pub(crate) private_key: Option<Located<String>>,

    /// The name by which the server knows that key.
    #[schemars(with = "String", extend("pattern" = r"\S"))]
    pub(crate) key_id: Option<Located<String>>,

    /// What it signs with. Left out, what fits the key.
    #[schemars(schema_with = "algorithm")]
    pub(crate) algorithm: Option<Located<String>>,

    /// Whom its signed assertions are for. Left out, the authorization server's issuer.
    #[schemars(with = "String", extend("pattern" = r"\S"))]
    pub(crate) audience: Option<Located<String>>,

    /// The https URL of a document that says who the client is, in place of `auth.client_metadata_url`.
    #[schemars(with = "String")]
    pub(crate) client_metadata_url: Option<Located<String>>,

    /// The scopes to ask for, whatever the server suggests: a list, or one string with blanks between them.
    #[schemars(schema_with = "scope")]
    pub(crate) scope: Option<Located<Vec<Located<String>>>>,

    /// What tokens are asked to be good for, where it is not what the server says of itself; `false` says nothing.
    #[schemars(schema_with = "resource")]
    pub(crate) resource: Option<Located<RawResource>>,

    /// The authorization server to use, where the server names several, and the only one that a secret is shown to.
    #[schemars(with = "String")]
    pub(crate) issuer: Option<Located<String>>,

    /// Which account: keeps logins apart, and is suggested to the login page.
    #[schemars(with = "String", extend("pattern" = r"\S"))]
    pub(crate) account: Option<Located<String>>,

    /// The port of this machine that the browser is sent back to, where one was registered.
    #[schemars(schema_with = "port")]
    pub(crate) redirect_port: Option<Located<u16>>,

    /// The address that the browser is sent back to, where one was registered: https, or on this machine.
    #[schemars(with = "String")]
    pub(crate) redirect_uri: Option<Located<String>>,

    /// What to add to the address of the login page.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) authorize_params: Option<Located<RawMap>>,

    /// Whether tokens are bound to a key, so that nobody else can use them: `"auto"` where the server wants it,
    /// `true` always, and no login where that cannot be done, `false` never.
    #[schemars(schema_with = "dpop", extend("default" = "auto"))]
    pub(crate) dpop: Option<Located<Dpop>>,

    /// Where the token of the platform comes from; for `grant = "workload"`.
    #[schemars(with = "RawSupply")]
    pub(crate) assertion: Option<Located<RawSupply>>,

    /// The organisation's identity provider; for `grant = "enterprise"`.
    #[schemars(with = "RawIdp")]
    pub(crate) idp: Option<Located<RawIdp>>,

    /// Keys that were meant but could not be read, which has been reported: to report them as missing too would
    /// be a second complaint about one mistake.
    #[schemars(skip)]
    pub(crate) garbled: Vec<&'static str>,
}

/// How tokens are had, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawGrant {
    Person,
    Device,
    ClientCredentials,
    Enterprise,
    Workload,
    Off,
}

/// What tokens are asked to be good for, as it is written.
#[derive(Debug)]
pub(crate) enum RawResource {
    Off,
    This(String),
}

/// Where a token that somebody else makes comes from.
#[derive(JsonSchema, Default)]
#[schemars(
    inline,
    deny_unknown_fields,
    default,
    extend(
        "oneOf" = [{ "required": ["value"] }, { "required": ["file"] }, { "required": ["command"] }],
        "dependentRequired" = { "env": ["command"], "cwd": ["command"] },
    )
)]
pub(crate) struct RawSupply {
    /// The token itself; usually `${VAR}`.
    #[schemars(with = "String", extend("minLength" = 1))]
    pub(crate) value: Option<Located<String>>,

    /// A file that it stands in, which is read each time.
    #[schemars(with = "String", extend("minLength" = 1))]
    pub(crate) file: Option<Located<String>>,

    /// A program that prints it, and its arguments.
    #[schemars(schema_with = "words")]
    pub(crate) command: Option<Located<Vec<Located<String>>>>,

    /// Environment variables to add.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) env: Option<Located<RawMap>>,

    /// The folder to run it in. A relative path starts from the folder of this file.
    #[schemars(with = "String")]
    pub(crate) cwd: Option<Located<String>>,

    /// See [`RawAuth::garbled`].
    #[schemars(skip)]
    pub(crate) garbled: bool,
}

/// An organisation's identity provider.
#[derive(JsonSchema, Default)]
#[schemars(
    inline,
    deny_unknown_fields,
    default,
    extend("required" = ["token_endpoint", "client_id", "id_token"])
)]
pub(crate) struct RawIdp {
    /// Where it exchanges tokens: https, or on this machine.
    #[schemars(with = "String")]
    pub(crate) token_endpoint: Option<Located<String>>,

    /// Our client there.
    #[schemars(with = "String", extend("pattern" = r"\S"))]
    pub(crate) client_id: Option<Located<String>>,

    /// Its secret.
    #[schemars(with = "String", extend("minLength" = 1))]
    pub(crate) client_secret: Option<Located<String>>,

    /// Where the person's ID token comes from.
    #[schemars(with = "RawSupply")]
    pub(crate) id_token: Option<Located<RawSupply>>,

    /// See [`RawAuth::garbled`].
    #[schemars(skip)]
    pub(crate) garbled: Vec<&'static str>,
}

/// A program that prints headers as a JSON object.
#[derive(JsonSchema, Default)]
#[schemars(inline, deny_unknown_fields, default, extend("required" = ["command"]))]
pub(crate) struct RawHeadersCommand {
    /// The program, or a list of it and its arguments.
    #[schemars(schema_with = "words")]
    pub(crate) command: Option<Located<Vec<Located<String>>>>,

    /// Its arguments, where `command` is the program alone.
    #[schemars(with = "Vec<String>")]
    pub(crate) args: Option<Located<Vec<Located<String>>>>,

    /// Environment variables to add.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) env: Option<Located<RawMap>>,

    /// The folder to run it in. A relative path starts from the folder of this file.
    #[schemars(with = "String")]
    pub(crate) cwd: Option<Located<String>>,

    /// How long it may take before it is ended.
    #[schemars(schema_with = "duration", extend("default" = HeadersCommand::TIMEOUT))]
    pub(crate) timeout: Option<Located<Duration>>,

    /// For how long what it prints is used before it is run again. A server that refuses it ends that sooner.
    #[schemars(schema_with = "duration", extend("default" = HeadersCommand::TTL))]
    pub(crate) ttl: Option<Located<Duration>>,

    /// See [`RawAuth::garbled`].
    #[schemars(skip)]
    pub(crate) garbled: bool,

    /// Whose command it is. A host's is taken as it stands.
    #[schemars(skip)]
    pub(crate) of_host: bool,
}

/// Who we say we are, to every server that wants a login.
#[derive(JsonSchema, Default)]
#[schemars(rename = "auth for all", inline, deny_unknown_fields, default)]
pub(crate) struct RawApp {
    /// The name that a person sees when they log in.
    #[schemars(with = "String", extend("pattern" = r"\S"))]
    pub(crate) client_name: Option<Located<String>>,

    /// The https URL of a document that says who the client is. Servers that can read it need no registration.
    #[schemars(with = "String")]
    pub(crate) client_metadata_url: Option<Located<String>>,
}

// === impl ===

impl RawAuth {
    /// Every key, for suggestions.
    pub(crate) const KEYS: [&str; 19] = [
        "grant",
        "client_id",
        "client_secret",
        "client_auth",
        "private_key",
        "key_id",
        "algorithm",
        "audience",
        "client_metadata_url",
        "scope",
        "resource",
        "issuer",
        "account",
        "redirect_port",
        "redirect_uri",
        "authorize_params",
        "dpop",
        "assertion",
        "idp",
    ];

    /// No login at all.
    pub(crate) fn off(place: crate::report::Place) -> Self {
        Self { grant: Some(Located::new(RawGrant::Off, place)), ..Self::default() }
    }
}

impl RawGrant {
    pub(crate) const ALL: [(&str, Self); 6] = [
        ("person", Self::Person),
        ("device", Self::Device),
        ("client-credentials", Self::ClientCredentials),
        ("enterprise", Self::Enterprise),
        ("workload", Self::Workload),
        ("off", Self::Off),
    ];
}

impl RawSupply {
    pub(crate) const KEYS: [&str; 5] = ["value", "file", "command", "env", "cwd"];
}

impl RawIdp {
    pub(crate) const KEYS: [&str; 4] = ["token_endpoint", "client_id", "client_secret", "id_token"];
}

impl RawHeadersCommand {
    pub(crate) const KEYS: [&str; 6] = ["command", "args", "env", "cwd", "timeout", "ttl"];
}

impl RawApp {
    pub(crate) const KEYS: [&str; 2] = ["client_name", "client_metadata_url"];
}

/// Ways for a client to prove itself, by name.
pub(crate) const CLIENT_AUTH: [(&str, TokenAuth); 4] = [
    (TokenAuth::None.as_str(), TokenAuth::None),
    (TokenAuth::Post.as_str(), TokenAuth::Post),
    (TokenAuth::Basic.as_str(), TokenAuth::Basic),
    (TokenAuth::PrivateKeyJwt.as_str(), TokenAuth::PrivateKeyJwt),
];

/// What an assertion may be signed with: only what proves that the signer holds a key that nobody else has.
pub(crate) const ALGORITHMS: [&str; 9] =
    ["ES256", "ES384", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"];

/// `false`, or a table.
pub(super) fn auth(generator: &mut SchemaGenerator) -> Schema {
    let table = RawAuth::json_schema(generator);
    json_schema!({ "anyOf": [{ "const": false }, table] })
}

/// A program, a list of it and its arguments, or a table.
pub(super) fn headers_command(generator: &mut SchemaGenerator) -> Schema {
    let table = RawHeadersCommand::json_schema(generator);
    let short = words(generator);
    json_schema!({ "anyOf": [short, table] })
}

fn words(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": "string", "minLength": 1 },
            { "type": "array", "items": { "type": "string" }, "minItems": 1 },
        ]
    })
}

fn grant(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": RawGrant::ALL.map(|(name, _)| name) })
}

fn client_auth(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": CLIENT_AUTH.map(|(name, _)| name) })
}

fn algorithm(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ALGORITHMS })
}

fn scope(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
}

fn resource(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "const": false }, { "type": "string" }] })
}

fn dpop(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": ["auto", true, false] })
}

fn port(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 1, "maximum": u16::MAX })
}

/// Where `key` is `value`, the others are needed.
fn where_is(key: &str, value: &str, needed: &[&str]) -> Value {
    json!({
        "if": { "properties": { key: { "const": value } }, "required": [key] },
        "then": { "required": needed },
    })
}
