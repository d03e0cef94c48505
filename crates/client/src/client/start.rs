//! Starts the connection of a client.

use std::sync::Arc;

use bowline_proto::client::session::Command;
use tokio_util::sync::CancellationToken;

use super::{Builder, Client, Inner};
use crate::auth;
use crate::client_capabilities;
use crate::connection::{ClientDeclaration, ConnectionSetup, Driver, PromptClock, Target};
use crate::error::Result;

impl Builder {
    /// Starts a connection to this target.
    pub(super) fn start(
        self,
        target: Target,
        auth: Option<auth::Identity>,
        asking: Arc<PromptClock>,
    ) -> Result<Client> {
        let Self {
            server,
            client_info,
            handler,
            records,
            watchdog,
            exit_wait,
            era,
            cache,
            tracer,
            layers,
            list_change_delay,
            tasks,
            session,
            auth: _,
            via,
            attached,
        } = self;
        let server = server?;
        let capabilities = handler.capabilities();
        let modern = client_capabilities::for_modern_server(&capabilities, tasks);
        let identity = ClientDeclaration { client_info, capabilities, modern_capabilities: modern, via };
        let (connection, driver) = Driver::new(ConnectionSetup {
            server,
            target,
            attached,
            process_records: records,
            watchdog,
            exit_wait,
            preferred_era: era,
            negotiation_cache: cache,
            declaration: identity,
            handler,
            tracer,
            layers: layers.into(),
            list_change_delay,
            saved_session: session,
            auth,
            prompt_clock: asking,
        });
        let ended = CancellationToken::new();
        let guard = ended.clone().drop_guard();
        tokio::spawn(async move {
            driver.run().await;
            drop(guard);
        });
        if let Some(changes) = connection.inbound.handler.roots_changed() {
            let (watching, ended) = (Box::pin(Arc::clone(&connection).watch_roots(changes)), ended.clone());
            tokio::spawn(async move { ended.run_until_cancelled(watching).await });
        }
        let client = Client { inner: Arc::new(Inner { connection, ended }) };
        client.connection().engine.send_command(Command::Connect);
        Ok(client)
    }
}
