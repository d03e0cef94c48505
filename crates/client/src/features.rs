//! The features of a server, as methods of [`Client`]: one file per feature.

mod completion;
mod prompts;
mod resources;
#[cfg(feature = "skills")]
pub mod skills;
mod subscription;
pub(crate) mod tasks;
pub mod templates;
pub(crate) mod tools;

pub use completion::{Completer, Reference};
pub use subscription::{ResourceChange, Subscription};
pub use tasks::TaskOrResult;

use bowline_proto::client::negotiation::Peer;
use bowline_proto::wire::view::ListItem;

use crate::client::Client;
use crate::connection::{CallOptions, Connection, List};
use crate::error::Result;

/// A feature that a server may or may not offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    Tools,
    Resources,
    Prompts,
    Completions,
}

impl Feature {
    fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Prompts => "prompts",
            Self::Completions => "completions",
        }
    }

    /// Whether the server advertised the feature. A feature that was not advertised is not
    /// requested (LC-05).
    pub(crate) fn is_offered(self, peer: &Peer) -> bool {
        let capabilities = &peer.capabilities;
        match self {
            Self::Tools => capabilities.tools.is_some(),
            Self::Resources => capabilities.resources.is_some(),
            Self::Prompts => capabilities.prompts.is_some(),
            Self::Completions => capabilities.completions,
        }
    }

    fn require(self, connection: &Connection, peer: &Peer, method: &str) -> Result<()> {
        if self.is_offered(peer) {
            return Ok(());
        }
        Err(connection.server.not_offered(self.name(), method))
    }
}

impl Client {
    /// Fetches a list over all pages; empty if the server does not offer the feature.
    async fn fetch_offered<T: ListItem>(&self, feature: Feature, method: &'static str) -> Result<Vec<T>> {
        let live = self.live_link(method).await?;
        if !feature.is_offered(&live.peer) {
            return Ok(Vec::new());
        }
        let list: List<T> = self.connection().fetch_list(&live, method, &CallOptions::new()).await?;
        Ok(list.items)
    }
}
