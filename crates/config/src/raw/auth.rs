//! Owns the keys about authentication: `auth` and `headers_command` of a server, and `[auth]` for
//! all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::{RawMap, duration};
use crate::auth::{Dpop, HeadersCommand, TokenAuth};
use crate::report::Located;

/// How tokens are obtained if the server requires a login. What is left out is discovered from the
/// server.
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
    /// How tokens are obtained: `person` by a login in a browser, or with a code on another device
    /// if there is no browser; `device` always by such a code; `client-credentials` by the client
    /// itself; `enterprise` through an organization's identity provider; `workload` with a token
    /// that the platform issues; `off` never.
    #[schemars(schema_with = "grant", extend("default" = "person"))]
    pub(crate) grant: Option<Located<RawGrant>>,

    /// The id of the client that was registered by hand. Left out, the client identifies itself in
    /// another way.
    #[schemars(with = "String", extend("pattern" = r"\S"))]
    pub(crate) client_id: Option<Located<String>>,

    /// Its secret.
    #[schemars(with = "String", extend("minLength" = 1))]
    pub(crate) client_secret: Option<Located<String>>,

    /// How the client authenticates at the token endpoint. Left out, what its secrets and the
    /// server allow.
    #[schemars(schema_with = "client_auth")]
    pub(crate) client_auth: Option<Located<TokenAuth>>,

    /// The key that it signs with, as PEM; usually `{file:key.pem}`.
    #[schemars(with = "String")]
    pub(crate) private_key: Option<Located<String>>,

    /// The name by which the server knows that key.
    #[schemars(with = "String", extend("pattern" = r"\S"))]
    pub(crate) key_id: Option<Located<String>>,

    /// The algorithm that it signs with. Left out, the one that fits the key.
    #[schemars(schema_with = "algorithm")]
    pub(crate) algorithm: Option<Located<String>>,

    /// The audience of its signed assertions. Left out, the authorization server's issuer.
    #[schemars(with = "String", extend("pattern" = r"\S"))]
    pub(crate) audience: Option<Located<String>>,

    /// The https URL of a document that says who the client is, in place of
    /// `auth.client_metadata_url`.
    #[schemars(with = "String")]
    pub(crate) client_metadata_url: Option<Located<String>>,

    /// The scopes to ask for, whatever the server suggests: a list, or one string with blanks
    /// between them.
    #[schemars(schema_with = "scope")]
    pub(crate) scope: Option<Located<Vec<Located<String>>>>,

    /// The resource that tokens are requested for, if it is not what the server says of itself;
    /// `false` omits it.
    #[schemars(schema_with = "resource")]
    pub(crate) resource: Option<Located<RawResourceIndicator>>,

    /// The issuer of the authorization server to use, if the server names several, and the only one
    /// that a secret is shown to.
    #[schemars(with = "String")]
    pub(crate) issuer: Option<Located<String>>,

    /// Which account: keeps logins apart, and is suggested to the login page.
    #[schemars(with = "String", extend("pattern" = r"\S"))]
    pub(crate) account: Option<Located<String>>,

    /// The port of this machine that the browser is redirected to, if one was registered.
    #[schemars(schema_with = "port")]
    pub(crate) redirect_port: Option<Located<u16>>,

    /// The address that the browser is redirected to, if one was registered: https, or on this
    /// machine.
    #[schemars(with = "String")]
    pub(crate) redirect_uri: Option<Located<String>>,

    /// Parameters to add to the authorization URL.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) authorize_params: Option<Located<RawMap>>,

    /// Whether tokens are bound to a key, so that nobody else can use them: `"auto"` if the server
    /// asks for it, `true` always, and no login if that cannot be done, `false` never.
    #[schemars(schema_with = "dpop", extend("default" = "auto"))]
    pub(crate) dpop: Option<Located<Dpop>>,

    /// Where the platform's token comes from; for `grant = "workload"`.
    #[schemars(with = "RawTokenSource")]
    pub(crate) assertion: Option<Located<RawTokenSource>>,

    /// The organization's identity provider; for `grant = "enterprise"`.
    #[schemars(with = "RawIdp")]
    pub(crate) idp: Option<Located<RawIdp>>,

    /// Keys that were given but could not be read, which has been reported. Reporting them as
    /// missing too would be a second complaint about one mistake.
    #[schemars(skip)]
    pub(crate) garbled: Vec<&'static str>,
}

/// How tokens are obtained, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawGrant {
    Person,
    Device,
    ClientCredentials,
    Enterprise,
    Workload,
    Off,
}

/// The resource that tokens are requested for, as it is written.
#[derive(Debug)]
pub(crate) enum RawResourceIndicator {
    Off,
    Uri(String),
}

/// Where an externally issued token comes from.
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
pub(crate) struct RawTokenSource {
    /// The token itself; usually `${VAR}`.
    #[schemars(with = "String", extend("minLength" = 1))]
    pub(crate) value: Option<Located<String>>,

    /// A file that holds it, which is read each time.
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

/// An organization's identity provider.
#[derive(JsonSchema, Default)]
#[schemars(
    inline,
    deny_unknown_fields,
    default,
    extend("required" = ["token_endpoint", "client_id", "id_token"])
)]
pub(crate) struct RawIdp {
    /// Its token endpoint: https, or on this machine.
    #[schemars(with = "String")]
    pub(crate) token_endpoint: Option<Located<String>>,

    /// The id of our client there.
    #[schemars(with = "String", extend("pattern" = r"\S"))]
    pub(crate) client_id: Option<Located<String>>,

    /// Its secret.
    #[schemars(with = "String", extend("minLength" = 1))]
    pub(crate) client_secret: Option<Located<String>>,

    /// Where the person's ID token comes from.
    #[schemars(with = "RawTokenSource")]
    pub(crate) id_token: Option<Located<RawTokenSource>>,

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

    /// How long its output is used before it is run again. If the server refuses it, it is run
    /// again sooner.
    #[schemars(schema_with = "duration", extend("default" = HeadersCommand::TTL))]
    pub(crate) ttl: Option<Located<Duration>>,

    /// See [`RawAuth::garbled`].
    #[schemars(skip)]
    pub(crate) garbled: bool,

    /// Whether it comes from a host's file. A host's command is passed on as it is written.
    #[schemars(skip)]
    pub(crate) of_host: bool,
}

/// How bowline presents itself to every server that requires a login.
#[derive(JsonSchema, Default)]
#[schemars(rename = "auth for all", inline, deny_unknown_fields, default)]
pub(crate) struct RawApp {
    /// The name that a person sees when they log in.
    #[schemars(with = "String", extend("pattern" = r"\S"))]
    pub(crate) client_name: Option<Located<String>>,

    /// The https URL of a document that says who the client is. Servers that can read it need no
    /// registration.
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

    /// Returns the settings that turn logins off.
    pub(crate) fn off(place: crate::report::Location) -> Self {
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

impl RawTokenSource {
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

/// Every way to authenticate at the token endpoint, by name.
pub(crate) const CLIENT_AUTH: [(&str, TokenAuth); 4] = [
    (TokenAuth::None.as_str(), TokenAuth::None),
    (TokenAuth::Post.as_str(), TokenAuth::Post),
    (TokenAuth::Basic.as_str(), TokenAuth::Basic),
    (TokenAuth::PrivateKeyJwt.as_str(), TokenAuth::PrivateKeyJwt),
];

/// Algorithms that an assertion may be signed with: only asymmetric ones, which prove that the
/// signer holds a key that nobody else has.
pub(crate) const ALGORITHMS: [&str; 9] =
    ["ES256", "ES384", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"];

/// Returns the schema of `auth`: `false`, or a table.
pub(super) fn auth(generator: &mut SchemaGenerator) -> Schema {
    let table = RawAuth::json_schema(generator);
    json_schema!({ "anyOf": [{ "const": false }, table] })
}

/// Returns the schema of `headers_command`: a program, a list of it and its arguments, or a table.
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

/// Returns the rule that `needed` is required if `key` is `value`.
fn where_is(key: &str, value: &str, needed: &[&str]) -> Value {
    json!({
        "if": { "properties": { key: { "const": value } }, "required": [key] },
        "then": { "required": needed },
    })
}
