//! Builds the context of many servers, with unique names over all of them (TL-09).

use tokio::task::JoinSet;

use super::assemble::{self, ServerTools};
use super::options::{ModelOptions, Prefix};
use super::{ModelContext, Omission};
use crate::registry::{Registry, ServerState, ServerStatus};

impl Registry {
    /// Builds the context of all servers that are ready, for a model. Tool names are prefixed with
    /// the configured name of their server, unless [`ModelOptions::prefix`] says otherwise.
    ///
    /// A server that is not ready or fails is in [`ModelContext::omissions`]. [`Registry::settled`]
    /// waits for servers. Dropping the future cancels it.
    pub async fn model_context(&self, options: &ModelOptions) -> ModelContext {
        let mut asking = JoinSet::new();
        let mut left_out = Vec::new();
        for (place, status) in self.statuses().into_iter().enumerate() {
            let ready = Some(()).filter(|()| status.state == ServerState::Ready);
            match ready.and_then(|()| self.get(&status.name)) {
                Some(client) => {
                    asking.spawn(async move { (place, status.name, ServerTools::fetch(&client).await) });
                }
                None if status.state == ServerState::Disabled => {}
                None => {
                    let reason = omission_reason(&status);
                    left_out.push(Omission::new(status.name, reason));
                }
            }
        }
        let mut sources = Vec::new();
        while let Some(asked) = asking.join_next().await {
            match asked {
                Ok((place, _, Ok(source))) => sources.push((place, source)),
                Ok((_, server, Err(error))) => {
                    left_out.push(Omission::new(server, error.to_string()));
                }
                // The tasks are never aborted, so only a panic can end one.
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        }
        sources.sort_by_key(|(place, _)| *place);
        left_out.sort_by(|one, other| one.server.cmp(&other.server));
        let sources = sources.into_iter().map(|(_, source)| source).collect();
        let mut options = options.clone();
        if options.prefix == Prefix::Auto {
            // Even for a single server: a tool's name must not change when another server is added.
            options.prefix = Prefix::Server;
        }
        let mut context = assemble::build_context(sources, &options);
        context.omissions.splice(0..0, left_out);
        context
    }
}

/// Says the state of a server that is left out, and the last fault that explains it.
fn omission_reason(status: &ServerStatus) -> String {
    let state = status.state.as_str();
    match &status.health.last_fault {
        Some((_, fault)) => format!("the server is {state}: {fault}"),
        None => format!("the server is {state}"),
    }
}
