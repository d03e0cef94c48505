//! The open HTTP connections of a server.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::conn::{Conn, ConnIo};
use super::exchange::HttpResponse;
use crate::server_thread::Spawner;

/// The open connections, by their number. HTTP/1.1, and HTTP/2 with prior knowledge.
pub(crate) struct HttpConnections {
    spawner: Spawner,
    open: Mutex<HashMap<u64, OpenConnection>>,
}

/// A connection, and the task that serves it.
struct OpenConnection {
    conn: Arc<Conn>,
    task: JoinHandle<Option<()>>,
}

impl HttpConnections {
    pub(crate) fn new(spawner: Spawner) -> Arc<Self> {
        Arc::new(Self { spawner, open: Mutex::default() })
    }

    /// Serves a connection until it ends, then calls `on_end`. Must be called on the server thread.
    pub(crate) fn serve<R>(
        self: &Arc<Self>,
        number: u64,
        stream: TcpStream,
        respond: impl Fn(Arc<Conn>, Request<Incoming>) -> R + Send + Sync + 'static,
        on_end: impl FnOnce() + Send + 'static,
    ) where
        R: Future<Output = HttpResponse> + Send + 'static,
    {
        // Small messages are sent at once: a test measures the client, not Nagle's algorithm.
        let _ = stream.set_nodelay(true);
        let conn = Conn::new(number);
        let (connections, served) = (Arc::clone(self), conn.clone());
        let task = self.spawner.spawn(async move {
            let io = TokioIo::new(ConnIo { stream, conn: served.clone() });
            let service = service_fn(|request| {
                let response = respond(served.clone(), request);
                async move { Ok::<_, Infallible>(response.await) }
            });
            let builder = auto::Builder::new(connections.spawner.clone());
            let exchanges = builder.serve_connection(io, service);
            tokio::select! {
                () = served.ended() => {}
                _ = exchanges => {}
            }
            connections.open.lock().remove(&number);
            on_end();
        });
        self.open.lock().insert(number, OpenConnection { conn, task });
    }

    /// Ends every connection and waits until the sockets are closed.
    pub(crate) async fn end_all(&self, how: fn(&Conn)) {
        let open: Vec<_> = self.open.lock().drain().map(|(_, open)| open).collect();
        for OpenConnection { conn, task } in open {
            how(&conn);
            let _ = task.await;
        }
    }
}
