//! Owns the validated form of `[sampling]`: which model answers sampling requests, who must approve
//! them, and what they may cost.

use std::time::Duration;

use url::Url;

use crate::check::{self, InvalidValue};
use crate::secret::{RedactedText, Secret, redacted_debug};
use crate::words::words;

/// The model that answers sampling requests, and the terms. `Debug` shows only the origin of the
/// URL: people put keys into paths and queries.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sampling {
    /// The API that the endpoint speaks.
    pub api: SamplingApi,
    /// Base URL that the API's path is added to: `http` or `https`, no credentials, no fragment.
    pub base_url: Url,
    /// The models that may be used. The first is used where a server has no preference that fits.
    /// From a file there is at least one.
    pub models: Vec<String>,
    /// The name of the environment variable that holds the key. The key itself is never part of a
    /// configuration. `None` sends none.
    pub key_env: Option<String>,
    /// Headers added to every request, with the rules of [`Http::headers`](crate::Http::headers).
    pub headers: Vec<(String, Secret)>,
    /// Who must approve a request.
    pub policy: SamplingPolicy,
    /// Most tokens in one answer, whatever a server asks for. More than 0 (default 4096).
    pub max_tokens: u64,
    /// Most requests of one server within a minute. More than 0 (default 10).
    pub per_minute: u32,
    /// Most tokens of all servers together within an hour; `None` is no limit.
    pub tokens_per_hour: Option<u64>,
    /// Most rounds of tool calls in one conversation. More than 0 (default 8).
    pub tool_rounds: u32,
    /// Most concurrent requests. More than 0 (default 2).
    pub concurrent: u32,
    /// How long the model may take for one answer (default 120 s).
    pub timeout: Duration,
}

words! {
    /// The API that the endpoint of a model speaks.
    ///
    /// Exhaustive, since a request to a model is built and read by code of its own for each API.
    pub enum SamplingApi {
        /// Chat completions, which most model servers speak: `BASE_URL/chat/completions`.
        OpenAi = "openai",
        /// Messages: `BASE_URL/v1/messages`.
        Anthropic = "anthropic",
    }
}

words! {
    /// Who must approve a sampling request, before the model sees it and before the server sees the
    /// answer.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum SamplingPolicy {
        /// A person, both times. If nobody can be asked, the request is refused.
        #[default]
        Ask = "ask",
        /// Nobody.
        Allow = "allow",
        /// Every request is refused.
        Deny = "deny",
    }
}

// === impl Sampling ===

impl Sampling {
    /// The defaults; the schema gives them too.
    pub(crate) const MAX_TOKENS: u64 = 4096;
    pub(crate) const PER_MINUTE: u32 = 10;
    pub(crate) const TOOL_ROUNDS: u32 = 8;
    pub(crate) const CONCURRENT: u32 = 2;
    /// In seconds.
    pub(crate) const TIMEOUT: u64 = 120;

    /// Creates settings for a model behind this URL, with the defaults of a configuration file: a
    /// person is asked, no key is sent.
    pub fn new(
        api: SamplingApi,
        base_url: impl AsRef<str>,
        model: impl Into<String>,
    ) -> Result<Self, InvalidValue> {
        let model = model.into();
        check::model(&model)?;
        Ok(Self::with_defaults(api, check::url(base_url.as_ref())?, vec![model]))
    }

    pub(crate) fn with_defaults(api: SamplingApi, base_url: Url, models: Vec<String>) -> Self {
        Self {
            api,
            base_url,
            models,
            key_env: None,
            headers: Vec::new(),
            policy: SamplingPolicy::default(),
            max_tokens: Self::MAX_TOKENS,
            per_minute: Self::PER_MINUTE,
            tokens_per_hour: None,
            tool_rounds: Self::TOOL_ROUNDS,
            concurrent: Self::CONCURRENT,
            timeout: Duration::from_secs(Self::TIMEOUT),
        }
    }

    /// Appends a model that may be used.
    pub fn with_model(mut self, model: impl Into<String>) -> Result<Self, InvalidValue> {
        let model = model.into();
        check::model(&model)?;
        if !self.models.contains(&model) {
            self.models.push(model);
        }
        Ok(self)
    }

    /// Names the environment variable that holds the key.
    pub fn with_key_env(mut self, name: impl Into<String>) -> Result<Self, InvalidValue> {
        let name = name.into();
        check::key_env_name(&name)?;
        self.key_env = Some(name);
        Ok(self)
    }

    /// Adds a header to every request, replacing one of the same name.
    pub fn with_header(
        mut self,
        name: impl Into<String>,
        value: impl Into<Secret>,
    ) -> Result<Self, InvalidValue> {
        check::set_header(&mut self.headers, name.into(), value.into())?;
        Ok(self)
    }

    /// Sets who must approve a request (default: a person).
    #[must_use]
    pub fn with_policy(mut self, policy: SamplingPolicy) -> Self {
        self.policy = policy;
        self
    }
}

redacted_debug!(Sampling {
    api,
    base_url = RedactedText::url(base_url),
    models,
    key_env,
    headers,
    policy,
    max_tokens,
    per_minute,
    tokens_per_hour,
    tool_rounds,
    concurrent,
    timeout,
});

#[cfg(test)]
mod tests {
    use super::*;

    /// SA-02: without a setting, no server gets a model's answer unless a person approves.
    #[test]
    fn sa_02_a_person_is_asked_by_default() {
        let sampling = Sampling::new(SamplingApi::OpenAi, "http://127.0.0.1:8080/v1", "small").unwrap();
        assert_eq!(sampling.policy, SamplingPolicy::Ask);
        assert_eq!(sampling.with_policy(SamplingPolicy::Allow).policy, SamplingPolicy::Allow);
    }

    #[test]
    fn a_program_is_checked_like_a_file() {
        let new = |url: &str, model: &str| Sampling::new(SamplingApi::OpenAi, url, model);
        assert_eq!(new("ftp://h/", "m"), Err(InvalidValue::UrlScheme));
        assert_eq!(new("http://h/", " "), Err(InvalidValue::Model));
        let good = || new("http://h/", "m").unwrap();
        assert_eq!(good().with_key_env("hunter-2"), Err(InvalidValue::KeyEnvName));
        assert_eq!(good().with_header("Accept", "x"), Err(InvalidValue::ReservedHeader));
        assert_eq!(good().with_model("n").and_then(|it| it.with_model("m")).unwrap().models, ["m", "n"]);
    }

    #[test]
    fn debug_shows_no_secret() {
        let sampling = Sampling::new(SamplingApi::Anthropic, "https://h:8443/hunter2?k=hunter2", "m")
            .and_then(|sampling| sampling.with_header("X-Team", "hunter2"))
            .and_then(|sampling| sampling.with_key_env("MODEL_KEY"))
            .unwrap();
        let shown = format!("{sampling:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        for kept in ["https://h:8443", "X-Team", "MODEL_KEY"] {
            assert!(shown.contains(kept), "{kept} in {shown}");
        }
    }
}
