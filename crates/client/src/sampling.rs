//! A model for servers that ask for one: [`Provider`], a ready [`Sample`].
//!
//! It speaks to any endpoint that a user configures and that understands chat completions (`openai`) or messages
//! (`anthropic`). What is asked is the server's words, so nothing is asked without a person who agrees to it, unless
//! the configuration says otherwise (SA-02), and everything it may cost has a limit.
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
//! let server = Server::stdio("files", "my-mcp-server", [""; 0]);
//! let client = Client::builder(server).handler(host).connect().await?;
//! # client.close().await;
//! # Ok(())
//! # }
//! ```

mod anthropic;
mod approve;
mod endpoint;
mod limits;
mod names;
mod openai;
mod quirks;
mod tools;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bowline_config::{Config, Sampling, SamplingPolicy, Secret};
use bowline_proto::wire::view::{SamplingBlock, SamplingRequest, SamplingResult};

use crate::host::{Asked, Refusal, Sample, SampleRequest};
use endpoint::Endpoint;
use limits::Meter;

pub use approve::{Approve, Plan, Verdict};
pub use endpoint::{Problem, ProviderError};

/// A model behind an HTTP endpoint. Clones share their connections and their limits, so one clone for each client
/// keeps all of them together within what the user agreed to.
///
/// # Behavior
/// - The policy is asked first: `deny` and `ask` without an [`Approve`] refuse everything.
/// - The key goes to the configured origin and nowhere else; redirects to another are not followed. It is in no
///   log, no error and no `Debug`.
/// - Servers take turns, with the person as with the model. A person who thinks keeps no other server from the
///   model, and no tokens.
/// - A request is sent once, unless the endpoint refuses one of its wishes. If it fails, the server is told the
///   status and no more; what the endpoint says about it goes to the log, without the key.
/// - An answer is never allowed more tokens than the server says, nor than the user does (SA-03).
/// - Nothing that was said is kept between requests (SA-07).
/// - Dropping the future of a request ends its exchange with the endpoint. Its tokens count as spent.
#[derive(Clone)]
pub struct Provider {
    endpoint: Arc<Endpoint>,
    meter: Arc<Meter>,
    approver: Option<Arc<dyn Approve>>,
    policies: Arc<BTreeMap<String, SamplingPolicy>>,
}

impl Provider {
    /// The model that `settings` describe. The key is read from the environment now. Nothing is sent yet.
    pub fn new(settings: Sampling) -> Result<Self, ProviderError> {
        let key = key(&settings, |name| std::env::var(name).ok())?;
        Self::with_key(settings, key)
    }

    /// The same with a key that comes from elsewhere than the environment.
    pub fn with_key(settings: Sampling, key: Option<Secret>) -> Result<Self, ProviderError> {
        let meter = Arc::new(Meter::new(&settings));
        let endpoint = Arc::new(Endpoint::new(settings, key)?);
        Ok(Self { endpoint, meter, approver: None, policies: Arc::default() })
    }

    /// The model of a configuration, if it has one, with what single servers are allowed.
    pub fn of(config: &Config) -> Result<Option<Self>, ProviderError> {
        let Some(settings) = config.sampling.clone() else { return Ok(None) };
        let policies = config.servers.iter();
        let policies =
            policies.filter_map(|(name, server)| server.sampling.map(|policy| (name.clone(), policy)));
        Ok(Some(Self { policies: Arc::new(policies.collect()), ..Self::new(settings)? }))
    }

    /// Sets who is asked where the policy is [`SamplingPolicy::Ask`].
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

    /// What holds for a server. One that is denied everything need not be told that there is a model.
    pub fn policy(&self, server: &str) -> SamplingPolicy {
        self.policies.get(server).copied().unwrap_or(self.endpoint.settings.policy)
    }

    async fn answer(&self, mut asked: SampleRequest) -> Result<SamplingResult, Refusal> {
        let approver = match (self.policy(&asked.server), self.approver.as_deref()) {
            (SamplingPolicy::Deny, _) | (SamplingPolicy::Ask, None) => return Err(Refusal::Declined),
            (SamplingPolicy::Ask, Some(approver)) => Some(approver),
            (SamplingPolicy::Allow, _) => None,
        };
        self.meter.rounds(&asked.request)?;
        let _open = self.meter.admit(&asked.server)?;
        // Only looked at: while a person thinks, the model and its tokens are for others.
        let most = self.meter.left(self.cap(&asked.request)?)?;
        let mut plan = self.plan(&asked.request, most);
        if let Some(approver) = approver {
            let verdict = {
                let _person = self.meter.person(&asked.server).await;
                approver.request(&asked, &plan).await
            };
            match verdict {
                Verdict::Accept => {}
                Verdict::Refuse => return Err(Refusal::Declined),
                Verdict::Replace(edited) => {
                    asked.request = *edited;
                    // It can only be lowered: a person may spend less than the server allows, not more.
                    plan = self.plan(&asked.request, most.min(asked.request.max_tokens));
                }
            }
        }
        if plan.max_tokens == 0 {
            return Err(Refusal::Failed("no token is allowed for the answer".to_owned()));
        }
        let turn = self.meter.turn(&asked.server).await?;
        let mut budget = self.meter.budget(plan.max_tokens)?;
        plan.max_tokens = budget.tokens();
        let said = self.endpoint.ask(&asked.request, &plan, &mut budget).await;
        let result = said.map_err(|trouble| trouble.logged(&asked.server))?;
        drop((turn, budget));
        let Some(approver) = approver else { return Ok(result) };
        let _person = self.meter.person(&asked.server).await;
        match approver.result(&asked, &result).await {
            Verdict::Accept => Ok(result),
            Verdict::Refuse => Err(Refusal::Declined),
            Verdict::Replace(edited) => Ok(*edited),
        }
    }

    /// The most that the answer may have: what the server says, but no more than the user does.
    fn cap(&self, request: &SamplingRequest) -> Result<u64, Refusal> {
        if request.max_tokens == 0 {
            return Err(Refusal::Failed("maxTokens is 0".to_owned()));
        }
        Ok(request.max_tokens.min(self.endpoint.settings.max_tokens))
    }

    fn plan(&self, request: &SamplingRequest, max_tokens: u64) -> Plan {
        let models = &self.endpoint.settings.models;
        let first = || models.first().map_or("", String::as_str);
        let model = request.preferences.choose(models).unwrap_or_else(first);
        Plan { model: model.into(), max_tokens, endpoint: self.endpoint.origin().into() }
    }
}

impl Sample for Provider {
    fn tools(&self) -> bool {
        true
    }

    fn sample(&self, request: SampleRequest) -> Asked<'_, Result<SamplingResult, Refusal>> {
        Box::pin(self.answer(request))
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

/// The key that the settings name. Line breaks around it come from how it was put there.
fn key(
    settings: &Sampling,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Secret>, ProviderError> {
    let Some(name) = &settings.key_env else { return Ok(None) };
    let key = variable(name).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
    key.map(|key| Some(Secret::new(key))).ok_or_else(|| ProviderError::new(Problem::KeyMissing))
}

/// How often the model has used tools so far.
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
        let read = |name: &str| key(&settings().with_key_env(name).unwrap(), variable);
        assert_eq!(read("SET"), Ok(Some(Secret::new("hunter2"))));
        for name in ["EMPTY", "UNSET"] {
            assert_eq!(read(name), Err(ProviderError::new(Problem::KeyMissing)), "{name}");
        }
        assert_eq!(key(&settings(), |_| panic!("none is named")), Ok(None));
    }
}
