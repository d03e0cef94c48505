//! Owns the keys about authentication: `auth` and `headers_command` of a server, and `[auth]` for
//! all of them.

use serde_json::{Value, json};

use crate::auth::{Dpop, HeadersCommand, TokenAuth};
use crate::keys::{
    Choice, CommandLine, KeyTable as _, Label, NonEmptyText, Port, Scopes, StringMap, Strings, Text, Timeout,
    keys,
};
use crate::problem::ProblemKind;
use crate::report::{Finding, LocatedValue, Location};
use crate::tree;
use crate::words::words;

keys! {
    /// How tokens are obtained if the server requires a login. What is left out is discovered from the
    /// server.
    pub(crate) struct RawAuth {
        /// How tokens are obtained: `person` by a login in a browser, or with a code on another device
        /// if there is no browser; `device` always by such a code; `client-credentials` by the client
        /// itself; `enterprise` through an organization's identity provider; `workload` with a token
        /// that the platform issues; `off` never.
        #[meant_by("type", "flow", "grant_type", "method")]
        grant: Choice<RawGrant> = RawGrant::default().as_str(),

        /// The id of the client that was registered by hand. Left out, the client identifies itself in
        /// another way.
        client_id: Label,

        /// Its secret.
        client_secret: NonEmptyText,

        /// How the client authenticates at the token endpoint. Left out, what its secrets and the
        /// server allow.
        #[meant_by("token_endpoint_auth_method")]
        client_auth: Choice<TokenAuth>,

        /// The key that it signs with, as PEM; usually `{file:key.pem}`.
        #[meant_by("key", "key_file")]
        private_key: Text,

        /// The name by which the server knows that key.
        #[meant_by("kid")]
        key_id: Label,

        /// The algorithm that it signs with. Left out, the one that fits the key.
        #[meant_by("alg")]
        algorithm: Choice<Algorithm>,

        /// The audience of its signed assertions. Left out, the authorization server's issuer.
        audience: Label,

        /// The https URL of a document that says who the client is, in place of
        /// `auth.client_metadata_url`.
        client_metadata_url: Text,

        /// The scopes to ask for, whatever the server suggests: a list, or one string with blanks
        /// between them.
        scope: Scopes,

        /// The resource that tokens are requested for, if it is not what the server says of itself;
        /// `false` omits it.
        resource: RawResourceIndicator,

        /// The issuer of the authorization server to use, if the server names several, and the only one
        /// that a secret is shown to.
        issuer: Text,

        /// Which account: keeps logins apart, and is suggested to the login page.
        #[meant_by("login_hint", "user")]
        account: Label,

        /// The port of this machine that the browser is redirected to, if one was registered.
        #[meant_by("port", "callback_port", "callbackPort")]
        redirect_port: Port,

        /// The address that the browser is redirected to, if one was registered: https, or on this
        /// machine.
        #[meant_by("callback_url", "callback", "redirect")]
        redirect_uri: Text,

        /// Parameters to add to the authorization URL.
        #[meant_by("params", "extra_params")]
        authorize_params: StringMap,

        /// Whether tokens are bound to a key, so that nobody else can use them: `"auto"` if the server
        /// asks for it, `true` always, and no login if that cannot be done, `false` never.
        dpop: Dpop = "auto",

        /// Where the platform's token comes from; for `grant = "workload"`.
        assertion: RawTokenSource,

        /// The organization's identity provider; for `grant = "enterprise"`.
        idp: RawIdp,
    }
    rules {
        "dependentRequired": {
            "client_secret": ["client_id"],
            "client_auth": ["client_id"],
            "private_key": ["client_id"],
            "key_id": ["private_key"],
            "algorithm": ["private_key"],
            "audience": ["private_key"],
        },
        "allOf": [
            where_is("client_auth", "private_key_jwt", &["private_key"]),
            where_is("client_auth", "client_secret_post", &["client_secret"]),
            where_is("client_auth", "client_secret_basic", &["client_secret"]),
            where_is("grant", "enterprise", &["idp"]),
            where_is("grant", "workload", &["assertion"]),
            where_is("grant", "client-credentials", &["client_id"]),
        ],
        "not": { "required": ["redirect_port", "redirect_uri"] },
    }
    explain explain_auth_key
}

words! {
    /// How tokens are obtained, as it is written.
    #[derive(Default)]
    pub(crate) enum RawGrant {
        #[default]
        Person = "person",
        Device = "device",
        ClientCredentials = "client-credentials",
        Enterprise = "enterprise",
        Workload = "workload",
        Off = "off",
    }
}

words! {
    /// An algorithm that an assertion may be signed with. There are only asymmetric ones, which prove
    /// that the signer holds a key that nobody else has.
    pub(crate) enum Algorithm {
        Es256 = "ES256",
        Es384 = "ES384",
        Rs256 = "RS256",
        Rs384 = "RS384",
        Rs512 = "RS512",
        Ps256 = "PS256",
        Ps384 = "PS384",
        Ps512 = "PS512",
        EdDsa = "EdDSA",
    }
}

/// The resource that tokens are requested for, as it is written.
#[derive(Debug)]
pub(crate) enum RawResourceIndicator {
    Off,
    Uri(String),
}

keys! {
    /// Where an externally issued token comes from.
    pub(crate) struct RawTokenSource {
        /// The token itself; usually `${VAR}`.
        #[meant_by("token", "jwt")]
        value: NonEmptyText,

        /// A file that holds it, which is read each time.
        #[meant_by("path")]
        file: NonEmptyText,

        /// A program that prints it, and its arguments.
        #[meant_by("args")]
        command: CommandLine,

        /// Environment variables to add.
        env: StringMap,

        /// The folder to run it in. A relative path starts from the folder of this file.
        cwd: Text,
    }
    rules {
        "oneOf": [{ "required": ["value"] }, { "required": ["file"] }, { "required": ["command"] }],
        "dependentRequired": { "env": ["command"], "cwd": ["command"] },
    }
}

keys! {
    /// An organization's identity provider.
    pub(crate) struct RawIdp {
        /// Its token endpoint: https, or on this machine.
        token_endpoint: Text,

        /// The id of our client there.
        client_id: Label,

        /// Its secret.
        client_secret: NonEmptyText,

        /// Where the person's ID token comes from.
        id_token: RawTokenSource,
    }
    rules { "required": ["token_endpoint", "client_id", "id_token"] }
}

keys! {
    /// A program that prints headers as a JSON object.
    pub(crate) struct RawHeadersCommand {
        /// The program, or a list of it and its arguments.
        command: CommandLine,

        /// Its arguments, where `command` is the program alone.
        args: Strings,

        /// Environment variables to add.
        env: StringMap,

        /// The folder to run it in. A relative path starts from the folder of this file.
        cwd: Text,

        /// How long it may take before it is ended.
        timeout: Timeout = HeadersCommand::TIMEOUT,

        /// How long its output is used before it is run again. If the server refuses it, it is run
        /// again sooner.
        ttl: Timeout = HeadersCommand::TTL,

        ;
        /// Whether it comes from a host's file. A host's command is passed on as it is written.
        of_host: bool,
    }
    rules { "required": ["command"] }
}

keys! {
    /// How bowline presents itself to every server that requires a login.
    pub(crate) struct RawApp {
        /// The name that a person sees when they log in.
        client_name: Label,

        /// The https URL of a document that says who the client is. Servers that can read it need no
        /// registration.
        client_metadata_url: Text,
    }
    explain explain_app_key
}

// === impl ===

impl RawAuth {
    /// Returns the settings that turn logins off.
    pub(crate) fn off(place: Location) -> Self {
        Self { grant: Some(LocatedValue::new(RawGrant::Off, place)), ..Self::default() }
    }
}

fn explain_auth_key(unknown: &str, _: &tree::Value, _: &Location) -> Option<Finding> {
    matches!(unknown, "token" | "access_token" | "bearer_token").then(|| {
        Finding::new(ProblemKind::UnknownKey, "unknown key")
            .hint("write `headers = { Authorization = \"Bearer ${VAR}\" }` beside `url`")
    })
}

fn explain_app_key(unknown: &str, _: &tree::Value, _: &Location) -> Option<Finding> {
    RawAuth::find(unknown).map(|_| {
        Finding::new(ProblemKind::UnknownKey, "belongs to one server")
            .hint("write it in `[servers.NAME.auth]`")
    })
}

/// Returns the rule that `needed` is required if `key` is `value`.
fn where_is(key: &str, value: &str, needed: &[&str]) -> Value {
    json!({
        "if": { "properties": { key: { "const": value } }, "required": [key] },
        "then": { "required": needed },
    })
}
