//! [`HttpServer`]: the scripted server behind Streamable HTTP on a loopback port.

mod conn;
mod exchange;
mod gate;
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
use crate::fault::Front;
use crate::host::Host;
use crate::script::Script;
pub(crate) use conn::{Conn, ConnIo};
use site::Site;
pub(crate) use sse_script::SseScript;

/// A running HTTP server, over HTTP/1.1 and HTTP/2 with prior knowledge.
///
/// # Behaviour
///
/// - It runs on a thread of its own, so it answers even while the test blocks.
/// - Dropping the handle closes the port and every connection, and ends every task before the drop
///   returns. A panic inside, for instance in a tool closure, is raised again then.
/// - What it recorded stays readable through a clone of its [`Control`].
pub struct HttpServer {
    control: Control,
    site: Arc<Site>,
    host: Host,
}

impl Script {
    /// Starts the server on a free loopback port.
    pub async fn run(self) -> HttpServer {
        let host = Host::start("testkit-http");
        let engine = Arc::new(Engine::new(self, Front::Http));
        let control = Control { engine: engine.clone() };
        let tasks = host.tasks.clone();
        let site = host
            .run(async move {
                let site = Site::new(engine, tasks).expect("a loopback port is free");
                site.start().expect("the port can be listened on");
                site
            })
            .await;
        HttpServer { control, site, host }
    }
}

impl HttpServer {
    /// Where it listens. Kept over restarts.
    pub fn addr(&self) -> SocketAddr {
        self.site.addr
    }

    /// The MCP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.addr())
    }

    /// Stops listening and closes every connection: from now on connections are refused. Sessions
    /// and work under way are lost, as with a process. The port is kept.
    pub async fn stop(&self) {
        let site = self.site.clone();
        self.host.run(async move { site.stop().await }).await.expect("the port can be kept");
    }

    /// Listens again after [`stop`](Self::stop).
    pub async fn start(&self) {
        let site = self.site.clone();
        self.host.run(async move { site.start() }).await.expect("the port can be listened on");
    }

    /// Stops and starts on the same port, with no session left.
    pub async fn restart(&self) {
        self.stop().await;
        self.start().await;
    }

    /// Connections open now.
    pub fn open_connections(&self) -> usize {
        self.site.open_connections()
    }

    /// Closes all connections (FIN) and leaves sessions alone.
    pub async fn close_connections(&self) {
        let site = self.site.clone();
        self.host.run(async move { site.end_connections(Conn::close).await }).await;
    }

    /// Resets all connections (RST) and leaves sessions alone.
    pub async fn reset_connections(&self) {
        let site = self.site.clone();
        self.host.run(async move { site.end_connections(Conn::reset).await }).await;
    }

    /// Ends all event streams in good order; sessions and work go on.
    pub fn close_streams(&self) {
        self.site.dismiss_readers();
    }

    /// Sends a comment on every open event stream, as servers do to keep proxies awake.
    pub fn keep_alive(&self) {
        self.site.keep_alive();
    }

    /// HTTP+SSE: says the `endpoint` event again on every open stream, as the script has it now;
    /// `$origin` is the server's own here. Gives the number of streams.
    pub fn repeat_endpoint(&self) -> usize {
        self.site.repeat_endpoint()
    }

    /// A handle for other tasks, and for after the server is gone.
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
