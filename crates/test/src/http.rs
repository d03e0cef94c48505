//! [`FakeHttpServer`]: the fake server behind Streamable HTTP on a loopback port.

mod exchange;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::sync::Arc;

use bowline::Server;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

use crate::control::FakeControl;
use crate::engine::Engine;
use crate::fake_server::FakeServer;

/// A fake server on a loopback port. Dropping it closes the port and all connections.
pub struct FakeHttpServer {
    control: FakeControl,
    address: SocketAddr,
    connections: Arc<Mutex<JoinSet<()>>>,
    listener: AbortHandle,
}

impl FakeServer {
    /// Serves over HTTP on a free loopback port, in tasks of the current tokio runtime. Dropping the
    /// future closes the port.
    pub async fn serve_http(self) -> io::Result<FakeHttpServer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let engine = Arc::new(Engine::new(self));
        let connections = Arc::new(Mutex::new(JoinSet::new()));
        let accepting = accept(listener, Arc::clone(&engine), Arc::clone(&connections));
        let listener = tokio::spawn(accepting).abort_handle();
        Ok(FakeHttpServer { control: FakeControl { engine }, address, connections, listener })
    }
}

impl FakeHttpServer {
    /// Returns the URL of the MCP endpoint. It stays the same over restarts.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Returns an entry for [`Client::connect`](bowline::Client::connect), with default limits.
    pub fn server(&self) -> Server {
        let name = self.control.engine.script.name.clone();
        Server::http(name, self.url()).build().expect("a loopback URL is valid")
    }

    /// Restarts the server: all connections are cut, all sessions and running calls are lost, and
    /// the port stays.
    ///
    /// Dropping the future does not stop a restart that has begun; it only no longer waits until the
    /// connections are closed.
    pub async fn restart(&self) {
        let mut connections = std::mem::take(&mut *self.connections.lock());
        self.control.engine.clear_live_state();
        connections.shutdown().await;
    }

    /// Returns a handle that outlives the server.
    pub fn control(&self) -> FakeControl {
        self.control.clone()
    }
}

impl Deref for FakeHttpServer {
    type Target = FakeControl;

    fn deref(&self) -> &FakeControl {
        &self.control
    }
}

impl Drop for FakeHttpServer {
    fn drop(&mut self) {
        self.listener.abort();
        self.connections.lock().abort_all();
        self.control.engine.end();
    }
}

impl std::fmt::Debug for FakeHttpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeHttpServer")
            .field("address", &self.address)
            .field("control", &self.control)
            .finish_non_exhaustive()
    }
}

async fn accept(listener: TcpListener, engine: Arc<Engine>, connections: Arc<Mutex<JoinSet<()>>>) {
    loop {
        // A connection that ended before it was accepted is none.
        let Ok((stream, _)) = listener.accept().await else { continue };
        // Otherwise the end of each event stream waits for the client's delayed acknowledgment.
        let _ = stream.set_nodelay(true);
        let engine = Arc::clone(&engine);
        let mut connections = connections.lock();
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            let service = service_fn(|request| exchange::serve_request(Arc::clone(&engine), request));
            // An error means that the client left, or that a fault cut the connection.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
