//! Creates a client, and starts its connection.

use std::sync::Arc;

use bowline_proto::client::session::Command;
use tokio_util::sync::CancellationToken;

use super::{CONNECT, Client, ClientBuilder, Inner};
use crate::auth;
use crate::client_capabilities;
use crate::connection::{AuditLog, ClientDeclaration, ConnectionSetup, Driver, PromptClock, Target};
use crate::error::{Error, ErrorKind, Result};

impl ClientBuilder {
    /// Creates the client, which does not connect before [`Client::begin`].
    pub(super) fn create_client(self) -> Result<Client> {
        let server = self.server.as_ref().map_err(Clone::clone)?;
        let asking = Arc::new(PromptClock::default());
        let auth = match &self.auth {
            Some(auth) => auth.identity_with_clock(server, &asking),
            None => auth::identity_without_person(server),
        };
        let target = Target::for_server(server, &self.via, auth.as_ref())
            .map_err(|fault| Error::new(ErrorKind::Fault(fault), &Arc::from(&*server.name), CONNECT))?;
        self.create_client_for(target, auth, asking)
    }

    /// Creates the client of this target, which does not connect before [`Client::begin`].
    pub(super) fn create_client_for(
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
            mut layers,
            list_change_delay,
            tasks,
            session,
            auth: _,
            via,
            attached,
        } = self;
        let server = server?;
        layers.insert(0, Arc::new(AuditLog));
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
        Ok(Client { inner: Arc::new(Inner { connection, ended }) })
    }
}

impl Client {
    /// Starts to connect.
    pub(super) fn begin(self) -> Self {
        self.connection().engine.send_command(Command::Connect);
        self
    }
}
