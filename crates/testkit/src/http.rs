//! [`HttpServer`]: the scripted server behind Streamable HTTP on a loopback port.

mod conn;
mod connections;
mod exchange;
mod header_checks;
mod reply;
mod site;
mod sse_legacy;
mod sse_script;
mod stream;

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use crate::control::Control;
use crate::engine::Engine;
use crate::fault::TransportKind;
use crate::script::Script;
use crate::server_thread::ServerThread;
pub(crate) use conn::Conn;
pub(crate) use connections::HttpConnections;
pub(crate) use exchange::{HttpResponse, full_response};
use site::HttpSite;
pub(crate) use sse_script::SseScript;

/// A running MCP server over HTTP/1.1 and HTTP/2 with prior knowledge.
///
/// # Behavior
///
/// - It runs on its own thread, so it responds even while the test blocks.
/// - Dropping the handle closes the port and every connection, and ends every task before the drop
///   returns. A panic inside, for instance in a tool closure, is resumed then.
/// - Its record stays readable through a clone of its [`Control`].
pub struct HttpServer {
    control: Control,
    site: Arc<HttpSite>,
    thread: ServerThread,
}

impl Script {
    /// Starts the server on a free loopback port.
    pub async fn run(self) -> HttpServer {
        let host = ServerThread::start("testkit-http");
        let engine = Arc::new(Engine::new(self, TransportKind::Http));
        let control = Control { engine: engine.clone() };
        let tasks = host.spawner.clone();
        let site = host
            .run(async move {
                let site = HttpSite::new(engine, tasks).expect("a loopback port is free");
                site.start().await.expect("the port can be listened on");
                site
            })
            .await;
        HttpServer { control, site, thread: host }
    }
}

impl HttpServer {
    /// Returns the address it listens on. It survives restarts.
    pub fn addr(&self) -> SocketAddr {
        self.site.port.addr()
    }

    /// Returns the URL of the MCP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.addr())
    }

    /// Stops listening and closes every connection: from now on connections are refused. Sessions
    /// and running calls are lost, as with the exit of a process. The port stays reserved.
    pub async fn stop(&self) {
        let site = self.site.clone();
        self.thread.run(async move { site.stop().await }).await.expect("the port can be kept");
    }

    /// Listens again after [`stop`](Self::stop).
    pub async fn start(&self) {
        let site = self.site.clone();
        self.thread.run(async move { site.start().await }).await.expect("the port can be listened on");
    }

    /// Stops and starts on the same port. All sessions are lost.
    pub async fn restart(&self) {
        self.stop().await;
        self.start().await;
    }

    /// Closes all connections (FIN) and keeps the sessions.
    pub async fn close_connections(&self) {
        let site = self.site.clone();
        self.thread.run(async move { site.connections.end_all(Conn::close).await }).await;
    }

    /// Resets all connections (RST) and keeps the sessions.
    pub async fn reset_connections(&self) {
        let site = self.site.clone();
        self.thread.run(async move { site.connections.end_all(Conn::reset).await }).await;
    }

    /// Ends all event streams in good order; sessions and running calls continue.
    pub fn close_streams(&self) {
        self.site.end_readers();
    }

    /// HTTP+SSE: sends the `endpoint` event again on every open stream, as the script has it now;
    /// `$origin` is the server's own here. Returns the number of streams.
    pub fn repeat_endpoint(&self) -> usize {
        self.site.repeat_endpoint()
    }

    /// Returns a handle for other tasks, usable also after the server is dropped.
    pub fn control(&self) -> Control {
        self.control.clone()
    }
}

impl Deref for HttpServer {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}
