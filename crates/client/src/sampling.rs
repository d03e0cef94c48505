//! [`Provider`]: a ready-made [`Sample`] that asks a model behind an HTTP endpoint.
//!
//! It works with any configured endpoint for chat completions (`openai`) or messages
//! (`anthropic`). The requests are text of servers, so a person must agree to each one, unless
//! the configuration says otherwise, and all costs are limited.
//!
//! ```no_run
//! # async fn run(person: impl bowline::sampling::Approve) -> Result<(), Box<dyn std::error::Error>> {
//! use bowline::config::{Sampling, SamplingApi};
//! use bowline::host::Host;
//! use bowline::sampling::Provider;
//! use bowline::{Client, Server};
//!
//! let settings = Sampling::new(SamplingApi::OpenAi, "http://127.0.0.1:8080/v1", "small")?;
//! let host = Host::new().sampling(Provider::new(settings)?.approver(person));
//! let server = Server::stdio("files", "my-mcp-server").build().unwrap();
//! let client = Client::builder(server).handler(host).connect().await?;
//! # client.close().await;
//! # Ok(())
//! # }
//! ```

mod anthropic;
mod approve;
mod content_text;
mod endpoint;
mod limits;
mod names;
mod openai;
mod quirks;
mod tools;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bowline_config::{Config, Sampling, SamplingPolicy, Secret};
use bowline_proto::wire::view::{SamplingBlock, SamplingRequest, SamplingResult};

use crate::host::{HostFuture, Sample, SampleRequest, SamplingRefusal};
use endpoint::Endpoint;
use limits::UsageMeter;

pub use approve::{Approve, Decision, SamplingPlan};
pub use endpoint::{ProviderError, ProviderErrorKind};

/// A model behind an HTTP endpoint. Clones share their connections and limits; give one to each
/// client, so that all of them together stay within the limits.
///
/// # Behavior
/// - The policy is applied first: `deny`, and `ask` without an [`Approve`], refuse everything.
/// - The key is sent to the configured origin only; redirects elsewhere are not followed. It
///   appears in no log, error or `Debug` output.
/// - Servers take turns, with the person as with the model. While a person decides, neither the
///   model nor tokens are reserved.
/// - A request is sent once, unless the endpoint refuses an optional parameter. If it fails, the
///   server learns only the status; the endpoint's message is logged without the key.
/// - An answer never gets more tokens than the server or the user allows.
/// - Nothing is kept between requests.
/// - Dropping the future of a request ends its exchange. Its tokens count as used.
// SA-02, SA-03, SA-07
#[derive(Clone)]
pub struct Provider {
    endpoint: Arc<Endpoint>,
    meter: Arc<UsageMeter>,
    approver: Option<Arc<dyn Approve>>,
    policies: Arc<BTreeMap<String, SamplingPolicy>>,
}

impl Provider {
    /// Creates a provider for the model in `settings`. The key is read from the environment now.
    /// Nothing is sent yet.
    pub fn new(settings: Sampling) -> Result<Self, ProviderError> {
        let key = read_key(&settings, |name| std::env::var(name).ok())?;
        Self::with_key(settings, key)
    }

    /// Creates a provider with a key that does not come from the environment.
    pub fn with_key(settings: Sampling, key: Option<Secret>) -> Result<Self, ProviderError> {
        let meter = Arc::new(UsageMeter::new(&settings));
        let endpoint = Arc::new(Endpoint::new(settings, key)?);
        Ok(Self { endpoint, meter, approver: None, policies: Arc::default() })
    }

    /// Creates the provider of a configuration, if it has one, with the policies of its servers.
    pub fn from_config(config: &Config) -> Result<Option<Self>, ProviderError> {
        let Some(settings) = config.sampling.clone() else { return Ok(None) };
        let policies = config.servers.iter();
        let policies =
            policies.filter_map(|(name, server)| server.sampling.map(|policy| (name.clone(), policy)));
        Ok(Some(Self { policies: Arc::new(policies.collect()), ..Self::new(settings)? }))
    }

    /// Sets who approves requests where the policy is [`SamplingPolicy::Ask`].
    #[must_use]
    pub fn approver(mut self, approver: impl Approve) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Sets the policy for one server, by its configured name.
    #[must_use]
    pub fn server_policy(mut self, server: impl Into<String>, policy: SamplingPolicy) -> Self {
        Arc::make_mut(&mut self.policies).insert(server.into(), policy);
        self
    }

    /// The policy for a server. With `deny`, sampling need not be declared to it.
    pub fn policy(&self, server: &str) -> SamplingPolicy {
        self.policies.get(server).copied().unwrap_or(self.endpoint.settings.policy)
    }

    async fn handle_request(&self, mut asked: SampleRequest) -> Result<SamplingResult, SamplingRefusal> {
        let approver = match (self.policy(&asked.server), self.approver.as_deref()) {
            (SamplingPolicy::Ask, Some(approver)) => Some(approver),
            (SamplingPolicy::Allow, _) => None,
            _ => return Err(SamplingRefusal::Declined),
        };
        self.meter.check_tool_rounds(&asked.request)?;
        let _open = self.meter.admit(&asked.server)?;
        // Checked without reserving: while a person decides, the model and its tokens are free for
        // others.
        let most = self.meter.tokens_left(self.max_tokens(&asked.request)?)?;
        let mut plan = self.plan(&asked.request, most);
        if let Some(approver) = approver {
            let verdict = {
                let _person = self.meter.wait_for_person(&asked.server).await;
                approver.request(&asked, &plan).await
            };
            match verdict {
                Decision::Accept => {}
                Decision::Refuse => return Err(SamplingRefusal::Declined),
                Decision::Replace(edited) => {
                    asked.request = *edited;
                    // A person can lower the limit, not raise it.
                    plan = self.plan(&asked.request, most.min(asked.request.max_tokens));
                }
            }
        }
        if plan.max_tokens == 0 {
            return Err(SamplingRefusal::Failed("no token is allowed for the answer".to_owned()));
        }
        let turn = self.meter.wait_for_model(&asked.server).await?;
        let mut budget = self.meter.reserve_tokens(plan.max_tokens)?;
        plan.max_tokens = budget.tokens;
        let said = self.endpoint.sample(&asked.request, &plan, &mut budget).await;
        let result = said.map_err(|trouble| trouble.log_and_refuse(&asked.server))?;
        drop((turn, budget));
        let Some(approver) = approver else { return Ok(result) };
        let _person = self.meter.wait_for_person(&asked.server).await;
        match approver.result(&asked, &result).await {
            Decision::Accept => Ok(result),
            Decision::Refuse => Err(SamplingRefusal::Declined),
            Decision::Replace(edited) => Ok(*edited),
        }
    }

    /// Maximum number of tokens of the answer: the server's limit, capped by the user's.
    fn max_tokens(&self, request: &SamplingRequest) -> Result<u64, SamplingRefusal> {
        if request.max_tokens == 0 {
            return Err(SamplingRefusal::Failed("maxTokens is 0".to_owned()));
        }
        Ok(request.max_tokens.min(self.endpoint.settings.max_tokens))
    }

    fn plan(&self, request: &SamplingRequest, max_tokens: u64) -> SamplingPlan {
        let models = &self.endpoint.settings.models;
        let first = || models.first().map_or("", String::as_str);
        let model = request.preferences.choose(models).unwrap_or_else(first);
        SamplingPlan { model: model.into(), max_tokens, endpoint: self.endpoint.origin().into() }
    }
}

impl Sample for Provider {
    fn tools(&self) -> bool {
        true
    }

    fn sample(&self, request: SampleRequest) -> HostFuture<'_, Result<SamplingResult, SamplingRefusal>> {
        Box::pin(self.handle_request(request))
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("settings", &self.endpoint.settings)
            .field("approver", &self.approver.is_some())
            .field("policies", &self.policies)
            .finish_non_exhaustive()
    }
}

/// Reads the key that the settings name. White space around it is removed.
fn read_key(
    settings: &Sampling,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Secret>, ProviderError> {
    let Some(name) = &settings.key_env else { return Ok(None) };
    let key = variable(name).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
    key.map(|key| Some(Secret::new(key))).ok_or_else(|| ProviderError::new(ProviderErrorKind::KeyMissing))
}

/// How often the model has used tools in this conversation.
fn tool_rounds(request: &SamplingRequest) -> usize {
    let uses = |block: &SamplingBlock| matches!(block, SamplingBlock::ToolUse { .. });
    request.messages.iter().filter(|message| message.content.iter().any(uses)).count()
}

#[cfg(test)]
mod tests {
    use bowline_config::SamplingApi;

    use super::*;

    #[test]
    fn the_key_comes_from_the_variable_that_is_named() {
        let settings = || Sampling::new(SamplingApi::OpenAi, "http://h/", "m").unwrap();
        let variable = |name: &str| match name {
            "SET" => Some(" hunter2\n".to_owned()),
            "EMPTY" => Some(" ".to_owned()),
            _ => None,
        };
        let read = |name: &str| read_key(&settings().with_key_env(name).unwrap(), variable);
        assert_eq!(read("SET"), Ok(Some(Secret::new("hunter2"))));
        for name in ["EMPTY", "UNSET"] {
            assert_eq!(read(name), Err(ProviderError::new(ProviderErrorKind::KeyMissing)), "{name}");
        }
        assert_eq!(read_key(&settings(), |_| panic!("none is named")), Ok(None));
    }
}
