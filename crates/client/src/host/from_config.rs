//! [`Host::from_config`]: the answers that a configuration gives by itself.

use bowline_config::{Config, ElicitationPolicy, SamplingPolicy};
use bowline_proto::wire::view::ElicitResult;

use super::{Host, Root, Roots};

/// Why a host cannot be made from a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("servers cannot be offered the configured model: {0}")]
pub struct HostConfigError(String);

impl Host {
    /// Creates a host with what a configuration answers without a person:
    ///
    /// - the roots for all servers; one that cannot be a root is left out, with a line in the log,
    /// - elicitation, where the policy is to decline or to cancel,
    /// - the model for sampling, where the policy allows requests without asking.
    ///
    /// Where the policy is to ask, add who asks: [`Host::on_form`], [`Host::on_url`], or
    /// [`Host::sampling`] with a `sampling::Provider` that has an approver. The key of the model is
    /// read from the environment. Fails if it is missing, the endpoint cannot be used, or the
    /// feature `sampling` is not enabled.
    pub fn from_config(config: &Config) -> Result<Self, HostConfigError> {
        let mut host = Self::new();
        let roots: Vec<Root> = config
            .roots
            .iter()
            .flatten()
            .filter_map(|folder| {
                Root::folder(folder)
                    .inspect_err(|error| tracing::warn!(%error, "a configured root is left out"))
                    .ok()
            })
            .collect();
        if !roots.is_empty() {
            host = host.roots(Roots::new(roots));
        }
        let reply = match config.elicitation.unwrap_or_default() {
            ElicitationPolicy::Ask => None,
            ElicitationPolicy::Cancel => Some(ElicitResult::Cancel),
            _ => Some(ElicitResult::Decline),
        };
        if let Some(reply) = reply {
            let (form, url) = (reply.clone(), reply);
            host = host
                .on_form(move |_| std::future::ready(form.clone()))
                .on_url(move |_| std::future::ready(url.clone()));
        }
        let allows = |policy: SamplingPolicy| policy == SamplingPolicy::Allow;
        let policies = config.servers.values().filter_map(|server| server.sampling);
        let allowed = config.sampling.as_ref().is_some_and(|model| allows(model.policy))
            || policies.into_iter().any(allows);
        if allowed { host.with_configured_model(config) } else { Ok(host) }
    }

    #[cfg(feature = "sampling")]
    fn with_configured_model(self, config: &Config) -> Result<Self, HostConfigError> {
        let provider = crate::sampling::Provider::from_config(config)
            .map_err(|error| HostConfigError(error.to_string()))?;
        Ok(match provider {
            Some(provider) => self.sampling(provider),
            None => self,
        })
    }

    #[cfg(not(feature = "sampling"))]
    fn with_configured_model(self, config: &Config) -> Result<Self, HostConfigError> {
        match &config.sampling {
            None => Ok(self),
            Some(_) => {
                Err(HostConfigError("this program was built without the feature `sampling`".to_owned()))
            }
        }
    }
}
