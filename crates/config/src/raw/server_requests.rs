//! Owns the keys of the tables about server requests: `[sampling]`, `[elicitation]`, `[roots]`.

use crate::elicitation::ElicitationPolicy;
use crate::keys::{
    Choice, Count, EnvironmentName, KeyTable as _, Label, Models, StringMap, Strings, Text, Timeout, keys,
};
use crate::problem::ProblemKind;
use crate::report::{Finding, Location};
use crate::sampling::{Sampling, SamplingApi, SamplingPolicy};
use crate::tree;

keys! {
    /// The model that answers sampling requests of servers. Without this table, servers are told that
    /// there is none.
    pub(crate) struct RawSampling {
        /// The API that the endpoint speaks: `openai` for chat completions, which most model servers
        /// speak, or `anthropic` for messages.
        #[meant_by("api", "type")]
        provider: Choice<SamplingApi>,

        /// The base URL: http or https, without credentials in it. `/chat/completions` or
        /// `/v1/messages` is added.
        #[meant_by("url", "endpoint", "api_base", "baseUrl")]
        base_url: Text,

        /// The model to use.
        model: Label,

        /// The models that may be used, if there are several. A server's preferences choose among them;
        /// the first is used if they fit none.
        models: Models,

        /// The name of the environment variable that holds the key. Left out, no key is sent.
        #[meant_by("key", "api_key", "apiKey", "token")]
        key_env: EnvironmentName,

        /// Headers to add to every request.
        headers: StringMap,

        /// Who must approve: `ask` asks a person before the model is asked and before its answer is
        /// sent, `allow` asks nobody, `deny` refuses every request. A server can have its own under
        /// `servers.NAME.sampling`.
        #[meant_by("approval", "mode")]
        policy: Choice<SamplingPolicy> = SamplingPolicy::default().as_str(),

        /// Most tokens in one answer, whatever a server asks for.
        max_tokens: Count = Sampling::MAX_TOKENS,

        /// How many requests one server may make within a minute.
        #[meant_by("rate_limit", "requests_per_minute")]
        per_minute: Count = Sampling::PER_MINUTE,

        /// How many tokens all servers together may use within an hour. Left out, there is no limit.
        tokens_per_hour: Count,

        /// How many rounds of tool calls one conversation may have.
        tool_rounds: Count = Sampling::TOOL_ROUNDS,

        /// How many requests may be under way at the same time.
        concurrent: Count = Sampling::CONCURRENT,

        /// How long the model may take for one answer.
        timeout: Timeout = Sampling::TIMEOUT,
    }
    rules {
        "required": ["provider", "base_url"],
        "oneOf": [{ "required": ["model"] }, { "required": ["models"] }],
    }
    explain explain_sampling_key
}

keys! {
    /// How elicitations are answered, the questions of servers to the person.
    pub(crate) struct RawElicitation {
        /// `ask` asks the person, and declines if nobody can be asked; `decline` and `cancel` answer so
        /// without asking.
        policy: Choice<ElicitationPolicy> = ElicitationPolicy::default().as_str(),
    }
}

keys! {
    /// The folders that servers are asked to work in (roots).
    pub(crate) struct RawRoots {
        /// The folders. A relative path starts from the folder of this file. A server can have its own
        /// under `servers.NAME.roots`. Left out, none are announced.
        folders: Strings,
    }
}

fn explain_sampling_key(unknown: &str, _: &tree::Value, _: &Location) -> Option<Finding> {
    let key_env = RawSampling::find("key_env")?;
    key_env.meant_by.contains(&unknown).then(|| {
        Finding::new(ProblemKind::UnknownKey, "unknown key")
            .hint("name the environment variable that holds the key in `key_env`")
    })
}
