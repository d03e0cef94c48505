//! The port of the authorization server with its connections, and how it stops and starts.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http_body_util::{BodyExt, Limited};
use hyper::Request;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::net::TcpStream;

use super::serve::{PortOwner, serve_request};
use super::{AuthCore, AuthScript};
use crate::canned_response::CannedResponse;
use crate::http::{Conn, HttpConnections, HttpResponse, full_response};
use crate::port_listener::PortListener;
use crate::server_thread::Spawner;

/// The maximum size of a request body in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;

pub(super) struct AuthSite {
    core: Arc<AuthCore>,
    pub(super) port: PortListener,
    connections: Arc<HttpConnections>,
    connection_count: AtomicU64,
}

impl AuthSite {
    pub(super) fn new(tasks: Spawner, script: AuthScript) -> io::Result<(Arc<Self>, Arc<AuthCore>)> {
        let port = PortListener::reserve(tasks.clone())?;
        let core = Arc::new(AuthCore::new(format!("http://{}", port.addr()), script));
        let connections = HttpConnections::new(tasks);
        let site = Self { core: core.clone(), port, connections, connection_count: AtomicU64::new(0) };
        Ok((Arc::new(site), core))
    }

    /// Starts to listen. Must run on the server thread.
    pub(super) async fn start(self: &Arc<Self>) -> io::Result<()> {
        let site = self.clone();
        self.port.start(move |stream| site.accept(stream)).await?;
        Ok(())
    }

    /// Closes the port and every connection.
    pub(super) async fn stop(&self) -> io::Result<()> {
        self.port.stop(self.connections.end_all(Conn::close)).await
    }

    fn accept(&self, stream: TcpStream) {
        let number = self.connection_count.fetch_add(1, Ordering::Relaxed) + 1;
        let core = self.core.clone();
        self.connections.serve(
            number,
            stream,
            move |conn, request| respond(core.clone(), conn, request),
            || {},
        );
    }
}

async fn respond(core: Arc<AuthCore>, conn: Arc<Conn>, request: Request<Incoming>) -> HttpResponse {
    let (head, body) = request.into_parts();
    match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(body) => serve_request(PortOwner::AuthServer(&core), &conn, &head, &body.to_bytes()).await,
        Err(_) => full_response(&CannedResponse::new(413), &Value::Null),
    }
}
