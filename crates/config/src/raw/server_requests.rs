//! Owns the keys of the tables about server requests: `[sampling]`, `[elicitation]`, `[roots]`.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{RawMap, duration};
use crate::elicitation::ElicitationPolicy;
use crate::report::Located;
use crate::sampling::{Sampling, SamplingApi, SamplingPolicy};

/// The model that answers sampling requests of servers. Without this table, servers are told that
/// there is none.
#[derive(JsonSchema, Default)]
#[schemars(
    rename = "sampling",
    inline,
    deny_unknown_fields,
    default,
    extend(
        "required" = ["provider", "base_url"],
        "oneOf" = [{ "required": ["model"] }, { "required": ["models"] }],
    )
)]
pub(crate) struct RawSampling {
    /// The API that the endpoint speaks: `openai` for chat completions, which most model servers
    /// speak, or `anthropic` for messages.
    #[schemars(with = "SamplingApi")]
    pub(crate) provider: Option<Located<SamplingApi>>,

    /// The base URL: http or https, without credentials in it. `/chat/completions` or
    /// `/v1/messages` is added.
    #[schemars(with = "String")]
    pub(crate) base_url: Option<Located<String>>,

    /// The model to use.
    #[schemars(with = "String", extend("pattern" = VISIBLE))]
    pub(crate) model: Option<Located<String>>,

    /// The models that may be used, if there are several. A server's preferences choose among them;
    /// the first is used if they fit none.
    #[schemars(with = "Vec<String>", extend("minItems" = 1, "items" = { "type": "string", "pattern": VISIBLE }))]
    pub(crate) models: Option<Located<Vec<Located<String>>>>,

    /// The name of the environment variable that holds the key. Left out, no key is sent.
    #[schemars(with = "String", extend("pattern" = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub(crate) key_env: Option<Located<String>>,

    /// Headers to add to every request.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) headers: Option<Located<RawMap>>,

    /// Who must approve: `ask` asks a person before the model is asked and before its answer is
    /// sent, `allow` asks nobody, `deny` refuses every request. A server can have its own under
    /// `servers.NAME.sampling`.
    #[schemars(with = "SamplingPolicy", extend("default" = "ask"))]
    pub(crate) policy: Option<Located<SamplingPolicy>>,

    /// Most tokens in one answer, whatever a server asks for.
    #[schemars(schema_with = "count", extend("default" = Sampling::MAX_TOKENS))]
    pub(crate) max_tokens: Option<Located<u32>>,

    /// How many requests one server may make within a minute.
    #[schemars(schema_with = "count", extend("default" = Sampling::PER_MINUTE))]
    pub(crate) per_minute: Option<Located<u32>>,

    /// How many tokens all servers together may use within an hour. Left out, there is no limit.
    #[schemars(schema_with = "count")]
    pub(crate) tokens_per_hour: Option<Located<u32>>,

    /// How many rounds of tool calls one conversation may have.
    #[schemars(schema_with = "count", extend("default" = Sampling::TOOL_ROUNDS))]
    pub(crate) tool_rounds: Option<Located<u32>>,

    /// How many requests may be under way at the same time.
    #[schemars(schema_with = "count", extend("default" = Sampling::CONCURRENT))]
    pub(crate) concurrent: Option<Located<u32>>,

    /// How long the model may take for one answer.
    #[schemars(schema_with = "duration", extend("default" = Sampling::TIMEOUT))]
    pub(crate) timeout: Option<Located<Duration>>,

    /// Keys that were given but could not be read, which has been reported. Reporting them as
    /// missing too would be a second complaint about one mistake.
    #[schemars(skip)]
    pub(crate) garbled: Vec<&'static str>,
}

/// How elicitations are answered, the questions of servers to the person.
#[derive(JsonSchema, Default)]
#[schemars(rename = "elicitation", inline, deny_unknown_fields, default)]
pub(crate) struct RawElicitation {
    /// `ask` asks the person, and declines if nobody can be asked; `decline` and `cancel` answer so
    /// without asking.
    #[schemars(with = "ElicitationPolicy", extend("default" = "ask"))]
    pub(crate) policy: Option<Located<ElicitationPolicy>>,
}

/// The folders that servers are asked to work in (roots).
#[derive(JsonSchema, Default)]
#[schemars(rename = "roots", inline, deny_unknown_fields, default)]
pub(crate) struct RawRoots {
    /// The folders. A relative path starts from the folder of this file. A server can have its own
    /// under `servers.NAME.roots`. Left out, none are announced.
    #[schemars(with = "Vec<String>")]
    pub(crate) folders: Option<Located<Vec<Located<String>>>>,
}

impl RawSampling {
    /// Every key, for suggestions.
    pub(crate) const KEYS: [&str; 13] = [
        "provider",
        "base_url",
        "model",
        "models",
        "key_env",
        "headers",
        "policy",
        "max_tokens",
        "per_minute",
        "tokens_per_hour",
        "tool_rounds",
        "concurrent",
        "timeout",
    ];
}

impl RawElicitation {
    /// Every key, for suggestions.
    pub(crate) const KEYS: [&str; 1] = ["policy"];
}

impl RawRoots {
    /// Every key, for suggestions.
    pub(crate) const KEYS: [&str; 1] = ["folders"];
}

/// Matches text that is not only white space.
const VISIBLE: &str = r"\S";

fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 1, "maximum": u32::MAX })
}
